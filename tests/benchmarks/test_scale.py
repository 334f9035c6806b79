"""What a trial costs its ledger does not grow, and is counted: these counts do not depend on a machine's speed."""

import pytest

from benchmarks.measurements import scale

MOST_TRANSACTIONS, CONNECTIONS = 7, 1
PRIVATE = ("optuna gibo", "run centred")


@pytest.mark.parametrize("subject", PRIVATE)
def test_a_trial_makes_few_transactions_on_one_connection(subject: str) -> None:
    cost = scale.measure(subject, (30, 60))
    assert cost.connections == CONNECTIONS
    assert 0 < max(cost.transactions.values()) <= MOST_TRANSACTIONS


def test_what_is_counted_is_what_was_opened(tmp_path) -> None:
    import sqlalchemy as sa

    with scale.counted() as count:
        engine = sa.create_engine(f"sqlite:///{tmp_path / 'x.db'}", poolclass=sa.pool.NullPool)
        for _ in range(3):
            with engine.begin() as connection:
                connection.execute(sa.text("select 1"))
    with engine.begin():
        pass
    assert (count.connections, count.transactions) == (3, 3)
