"""The two tasks on handwritten digits: public splits, pure functions, losses of the right people."""

import numpy as np
import pytest

from benchmarks.digits_tasks import elastic_net_task, gradient_boosting_task, split_digits

TASKS = (gradient_boosting_task, elastic_net_task)


@pytest.mark.parametrize("make", TASKS)
def test_losses_are_a_pure_function_of_the_point(make) -> None:
    task = make(n=50, seed=0)
    u = np.full(task.d, 0.4)
    assert np.isfinite([task.losses(np.zeros(task.d)), task.losses(np.ones(task.d))]).all()
    first = task.losses(u)
    assert first.shape == (50,)
    assert np.isfinite(first).all()
    np.testing.assert_array_equal(first, task.losses(u))
    assert 0 < task.test_loss(u) < 2
    assert not np.array_equal(first, task.losses(np.full(task.d, 0.8)))


def test_splits_are_disjoint_and_of_the_sizes_asked_for() -> None:
    parts = split_digits(n=1000, seed=3)
    assert [len(part) for part in parts] == [300, 300, 1000, 1000, 497, 497]
    assert not np.array_equal(split_digits(n=300, seed=3)[0], split_digits(n=300, seed=4)[0])
    np.testing.assert_array_equal(split_digits(n=300, seed=3)[4], parts[4])
    with pytest.raises(ValueError, match="n must be"):
        split_digits(n=1001, seed=0)
