"""Seeds, copies, pickles and reprs: what they say, and no loss in any of them."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable

import numpy as np
import pytest

from dptune import LossPrivatizer
from dptune.errors import KeyConflict

Make = Callable[..., LossPrivatizer]


def test_seeded_noise_is_stamped_everywhere(privatizer: Make) -> None:
    mine = privatizer(insecure_seed=1)
    mine.observe("x", [0.0] * 4)
    released = mine.release(mine.mean_query("x", 1.0), scope="s", key="1")
    assert not mine.private
    assert not released.charge.private
    assert not mine.ledger.private
    assert "NOT PRIVATE" in repr(mine)
    assert "NOT PRIVATE" in str(mine.ledger.statement(delta=1e-3))


def test_seeded_and_true_noise_never_answer_for_each_other(privatizer: Make) -> None:
    true, seeded = privatizer(), privatizer(insecure_seed=1)
    for mine in (true, seeded):
        mine.observe("x", [0.0] * 4)
    true.release(true.mean_query("x", 1.0), scope="s", key="1")
    with pytest.raises(KeyConflict):
        seeded.release(seeded.mean_query("x", 1.0), scope="s", key="1")
    assert true.ledger.private


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_a_copy_shares_the_budget_and_holds_no_losses(
    privatizer: Make, copied: Callable[[LossPrivatizer], LossPrivatizer]
) -> None:
    mine = privatizer(groups=[1, 1, 2], clip=(-1.0, 2.0))
    mine.observe("x", [0.123456789, 0.2, 0.3])
    other = copied(mine)
    assert other.points() == ()
    assert mine.points() == ("x",)
    assert other.ledger == mine.ledger
    query = mine.mean_query("x", 1.0)
    assert (other.n, other.rows, other.sigma(query)) == (mine.n, mine.rows, mine.sigma(query))
    other.observe("x", [0.1, 0.2, 0.3])
    other.release(query, scope="s", key="1")
    assert mine.ledger.spent() == 1.0


def test_a_pickle_holds_no_loss(privatizer: Make) -> None:
    mine, twin = privatizer(n=3), privatizer(n=3)
    before = pickle.dumps(mine)
    mine.observe("x", [0.123456789, 0.2, 0.3])
    assert pickle.dumps(mine) == before == pickle.dumps(twin)
    assert "0.12" not in repr(mine)


def test_strict_floating_point_errors_of_the_caller_do_not_show_private_values(privatizer: Make) -> None:
    mine = privatizer()
    with np.errstate(all="raise"):
        for name, loss in (("a", 1e-50), ("b", 1e-3), ("c", 1e300)):
            mine.observe(name, [loss] * 4)
            mine.release(mine.mean_query(name, 0.1), scope="s", key=name)
    assert mine.points() == ("a", "b", "c")
