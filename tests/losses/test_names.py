"""Metrics by name: which are a mean over people, and what is refused with what alternative."""

from __future__ import annotations

import pytest

from dptune.errors import InputError, UnsupportedMetric
from dptune.losses.named import NamedLoss, per_example_loss, squared_error, too_wide


@pytest.mark.parametrize(
    ("name", "canonical"),
    [("neg_mean_squared_error", "squared_error"), ("huber", "huber_loss"), ("accuracy", "zero_one_loss")],
)
def test_names_of_scikit_learn(name: str, canonical: str) -> None:
    assert per_example_loss(name).name == per_example_loss(canonical).name == canonical
    assert ("accuracy = 1 -" in per_example_loss(name).note) is (name == "accuracy")


@pytest.mark.parametrize(
    ("name", "alternative"),
    [
        ("roc_auc_ovr_weighted", "log_loss"),
        ("f1", "accuracy"),
        ("mcc", "accuracy"),
        ("r2", "squared_error"),
        ("neg_median_absolute_error", "absolute_error"),
        ("neg_root_mean_squared_error", "take the root of the released value"),
        ("neg_root_mean_squared_log_error", "logarithms"),
    ],
)
def test_what_is_not_a_mean_is_refused_with_an_alternative(name: str, alternative: str) -> None:
    with pytest.raises(UnsupportedMetric, match=alternative) as caught:
        per_example_loss(name)
    assert name in str(caught.value)


def test_unknown_names_and_options_list_what_is_allowed() -> None:
    with pytest.raises(InputError, match=r"Did you mean 'accuracy'\?.* neg_log_loss") as caught:
        per_example_loss("acuracy")
    assert not isinstance(caught.value, UnsupportedMetric)
    with pytest.raises(InputError, match=r"a function is not the name of a loss\. Did you mean 'squared_error'"):
        per_example_loss(squared_error)
    with pytest.raises(InputError, match="no option"):
        per_example_loss("mse", c=1.0)
    with pytest.raises(InputError, match="quantile="):
        per_example_loss("pinball")
    with pytest.raises(InputError, match="labels="):
        per_example_loss("log_loss")([1], [0.5])


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"name": ""}, "name must be a text"),
        ({"function": [0.5]}, "function must be a function"),
        ({"output": "transform"}, "output must be one of .*predict_proba.* got 'transform'"),
        ({"uses_labels": "no"}, "uses_labels must be True or False"),
    ],
)
def test_a_loss_of_the_users_own_is_checked_when_it_is_made(wrong: dict[str, object], says: str) -> None:
    with pytest.raises(InputError, match=says):
        NamedLoss(**{"name": "own", "function": squared_error, **wrong})


def test_options_reach_the_function() -> None:
    assert per_example_loss("pinball", quantile=0.75)([2.0], [0.0]).tolist() == [1.5]
    assert per_example_loss("huber", c=2.0)([0.0], [4.0]).tolist() == [6.0]


def test_a_clip_wider_than_the_loss_is_noticed() -> None:
    assert "1e+06 times as large as with clip=(0, 1)" in too_wide("zero_one", 1e6)
    assert "clip=(0, 2)" in too_wide("brier", 21.0)
    assert "3 times as large" in too_wide("accuracy", 3.0)
    assert {too_wide("zero_one", 1.0), too_wide("brier", 2.0), too_wide(None, 3.0)} == {""}
    assert too_wide("squared_error", 1e6) == ""  # it knows no end
    assert "clip=(0, 36.04" in too_wide("log_loss", 1e6)
    assert "clip=(0, 6.9" in too_wide(per_example_loss("log_loss", eps=1e-3), 1e6)
