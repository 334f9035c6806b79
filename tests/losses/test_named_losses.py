"""Every name of a loss or a refused metric, what a loss is known to be, and how models of other libraries answer."""

import math
from functools import partial
from typing import Any

import numpy as np
import pytest

from dptune.errors import UnsupportedMetric
from dptune.losses.columns import column_of
from dptune.losses.functions import EPS, hinge_loss, squared_error
from dptune.losses.models import BoosterModel, as_model
from dptune.losses.named import NamedLoss, is_named, per_example_loss, too_wide
from dptune.losses.steady import alike
from dptune.losses.user_function import Outcome, call_guarded, losses_function, private_losses, tried
from dptune.privacy import PerExampleLosses

NUMBERS, LABELS = ("predict", False, math.inf, False), ("decision_function", True, math.inf, False)
KNOWN: dict[str, tuple[str, tuple[str, ...], tuple[str, bool, float, bool]]] = {
    "squared_error": ("mse mean_squared_error neg_mean_squared_error", (), NUMBERS),
    "absolute_error": ("mae mean_absolute_error neg_mean_absolute_error", (), NUMBERS),
    "huber_loss": ("huber", ("c",), NUMBERS),
    "pinball_loss": ("pinball mean_pinball_loss neg_mean_pinball_loss", ("quantile",), NUMBERS),
    "log_loss": ("neg_log_loss cross_entropy", ("eps",), ("predict_proba", True, -math.log(EPS), False)),
    "brier_loss": ("brier brier_score_loss neg_brier_score", (), ("predict_proba", True, 2.0, True)),
    "hinge_loss": ("hinge", (), LABELS),
    "zero_one_loss": ("zero_one accuracy error_rate", (), ("predict", True, 1.0, True)),
}
NOTES = {
    "zero_one_loss": "accuracy = 1 - the released loss: zero_one is minimised.",
    "brier_loss": "brier sums over all labels, up to 2; with two labels it is of one of them, up to 1, like "
    "brier_score_loss.",
}
NOTE = "The released value is a loss: lower is better, and scikit-learn's neg_ score is minus this value."


def test_every_name_means_its_loss_with_its_method_range_and_note() -> None:
    for canonical, (aliases, options, about) in KNOWN.items():
        for name in (canonical, *aliases.split()):
            loss = per_example_loss(name, **({"quantile": 0.9} if canonical == "pinball_loss" else {}))
            assert (loss.name, loss.options, loss.note) == (canonical, options, NOTES.get(canonical, NOTE)), name
            assert (loss.output, loss.uses_labels, loss.most, loss.known_clip) == about, name
    assert per_example_loss("neg_log_loss", eps=0.25).most == math.log(4)
    assert NamedLoss("own", len) == NamedLoss("own", len, "predict", False, NOTE, (), math.inf, False, False)


RANKS = "it ranks all people against each other, so one person changes everyone's share. Release log_loss or brier"
COUNTS = (
    "it is a ratio of counts, in which one person of a rare class can move everything. Release log_loss or accuracy"
)
SPREAD = "it divides by the spread of the private answers, which has no lower bound. Release squared_error"
ORDER = "it is an order statistic, which one person can move across the whole range. Release absolute_error or huber"
ROOT = "the root of a mean is not a mean over people. Release squared_error{}, and take the root of the released value"
WHY: dict[str, tuple[str, str]] = {  # reason and alternative -> what a report releases, what nothing does
    RANKS: ("roc_auc auc roc_auc_ovr_weighted", "average_precision"),
    COUNTS: ("f1 f1_macro precision recall balanced_accuracy", "fbeta jaccard mcc matthews_corrcoef cohen_kappa kappa"),
    SPREAD: ("r2", "explained_variance d2 d2_pinball_score"),
    ORDER: ("median_absolute_error neg_median_absolute_error", "max_error"),
    ROOT.format(""): ("rmse neg_root_mean_squared_error", ""),
    ROOT.format(" of the logarithms"): ("", "rmsle neg_root_mean_squared_log_error"),
}


def test_every_refused_metric_has_its_reason_and_what_to_release() -> None:
    for why, (reported, never) in WHY.items():
        for name in (*reported.split(), *never.split()):
            with pytest.raises(UnsupportedMetric) as told:
                per_example_loss(name)
            later = " Of the final model dptune.report releases it." if name in reported.split() else ""
            assert str(told.value) == f"{name!r} cannot be released: {why} instead.{later}"


def test_a_wide_clip_is_warned_of_from_the_first_bit_of_noise() -> None:
    said = "The clip is 5 wide, and brier_loss is at most 2: the noise is 2.5 times as large as with clip=(0, 2)."
    assert too_wide("brier", 5.0) == said
    assert too_wide("brier", 2.0 * (1 + 1e-10)) == ""
    assert too_wide("brier", 2.00001).endswith("the noise is 1 times as large as with clip=(0, 2).")
    assert "at most 0.5: the noise is 4 times" in too_wide(NamedLoss("own", len, most=0.5), 2.0)
    assert too_wide("squared_error", 1e6) == too_wide(None, 3.0) == ""  # they know no end
    assert "clip=(0, 36.04" in too_wide("log_loss", 1e6)
    assert "clip=(0, 6.9" in too_wide(per_example_loss("log_loss", eps=1e-3), 1e6)


def test_only_dptunes_functions_count_as_its_own() -> None:
    own = per_example_loss("huber", c=2.0)
    assert is_named(own)
    assert is_named(NamedLoss("squared_error", partial(squared_error)))
    assert not is_named(NamedLoss("squared_error", hinge_loss))
    assert not is_named(NamedLoss("own", squared_error))
    assert is_named(NamedLoss("own", len, checked=True))


class Booster:
    """As much of a native booster of LightGBM as has these answers for its first rows."""

    def __init__(self, *answers: Any) -> None:
        self.answers = np.array(answers)

    def current_iteration(self) -> int:
        return 1

    def num_feature(self) -> int:
        return 5

    def predict(self, rows: Any) -> Any:
        return self.answers[: len(rows)]


def test_a_wrapped_booster_answers_with_its_most_probable_label() -> None:
    rows = np.zeros((3, 5))
    two = BoosterModel(Booster(0.4, 0.5, 0.6), labels=["z", "a"])  # the second label is that of the probability
    assert (two.predict(rows).tolist(), two.n_features_in_) == (["z", "z", "a"], 5)
    assert two.predict_proba(rows).tolist() == [0.4, 0.5, 0.6]
    three = BoosterModel(Booster([0.1, 0.3, 0.6], [0.5, 0.3, 0.2], [0.2, 0.5, 0.3]), labels=["z", "a", "m"])
    assert three.predict(rows).tolist() == ["m", "z", "a"]
    column = BoosterModel(Booster([0.1], [2.0], [-3.0]))
    assert column.predict(rows).tolist() == [0.1, 2.0, -3.0]
    assert not hasattr(column, "classes_")


def test_labels_of_a_booster_count_from_0_or_are_the_public_ones_in_order() -> None:
    thirds, rows, loss = Booster(*np.full((3, 3), 1 / 3)), np.zeros((3, 5)), per_example_loss("log_loss")
    for labels, wanted in (([2, 0, 2], [0, 1, 2]), (["m", "z", "a"], ["a", "m", "z"]), ([7, 3, 5], [3, 5, 7])):
        assert as_model(thirds, loss, rows, labels).classes_.tolist() == wanted
    assert as_model(Booster(0.1, 0.2, 0.3), loss, rows, [1, 1, 1]).classes_.tolist() == [0, 1]
    assert not hasattr(as_model(thirds, per_example_loss("mse"), rows, [2, 0, 2]), "classes_")
    assert as_model(rows, loss, rows, [0]) is rows


def test_answers_are_alike_up_to_a_ten_thousandth_of_the_largest() -> None:
    a = np.array([1.0, -100.0, np.nan])
    assert alike(a, np.array([1.0099, -100.0, np.nan]))
    assert not alike(a, np.array([1.0101, -100.0, np.nan]))
    assert not alike(a, np.array([1.0, -100.0, 0.0]))
    assert not alike(a, a[:2])
    assert not alike(np.array(["a", "b"]), np.array(["a", "c"]))


@pytest.mark.parametrize(("public", "unknown"), [("abab", ["d"]), ("abbacb", ["d"]), ("abcab", [])])
def test_a_new_text_is_unknown_where_public_rows_repeat_few(public: str, unknown: list[str]) -> None:
    """Two words in four rows repeat; three in six do, too; three in five are free text."""
    column = column_of("site", np.array(list(public), dtype=object))
    values = column.parse(np.array(["d", "a", None, 1.5, 7.0], dtype=object)).values
    assert values.tolist() == ["d", "a", None, "1.5", "7"]
    assert column.unknown_values(values[:3]) == {each: [0] for each in unknown}
    assert column.example(None).tolist() == ["a"]
    assert column.example(np.nan).tolist() == [None]


class Stop(Exception):
    """A framework raises it to end a trial."""


def stops(_: Any) -> Any:
    raise Stop


def test_a_stop_counts_where_the_function_returns_losses_itself() -> None:
    assert call_guarded(stops, None, len, Stop) == Outcome(stopped=True)
    assert call_guarded(stops, None, len) == Outcome()
    data = np.zeros((3, 5)), np.zeros(3)
    in_private = losses_function(stops, "mse", data, rows=3, training="private")
    assert call_guarded(in_private, None, len, Stop) == Outcome(stopped=True)
    with pytest.raises(Stop):
        call_guarded(losses_function(stops, "mse", data, rows=3), None, len, Stop)


def test_a_trial_call_is_told_and_a_failure_is_everybodys_largest_loss() -> None:
    rows = "the function returned one loss for each of the 3 rows"
    assert tried(PerExampleLosses([1, 2, 3])) == f"try_out: {rows}. Nothing was released, stored or spent."
    assert np.isnan(private_losses(stops, None, 4)).tolist() == [True] * 4
