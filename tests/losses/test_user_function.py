"""Errors of the public half of a function pass unchanged, and errors of the private half are never shown."""

import pickle
import traceback
from typing import Any

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.svm import SVC

from dptune.errors import InputError, ObjectiveRefused
from dptune.losses.named import NamedLoss
from dptune.losses.user_function import Outcome, call_guarded, losses_function
from one_row import UNUSUAL

N = 12
FAILED: Outcome[Any] = Outcome()  # and nothing is known of why
RNG = np.random.default_rng(2)
X, Y = RNG.normal(size=(N, 2)), np.arange(N) % 2
X_TRAIN, Y_TRAIN = RNG.normal(size=(50, 2)), np.arange(50) % 2


def trial_of(function: Any, loss: str = "log_loss", **settings: Any) -> Any:
    return losses_function(function, loss, (X, Y), rows=N, **settings)


def typo(argument: Any) -> Any:
    return LogisticRegression(penaltyy=argument)


def test_a_typo_in_the_training_half_is_raised_with_its_traceback() -> None:
    with pytest.raises(TypeError, match="penaltyy") as raised:
        call_guarded(trial_of(typo), "l2", len)
    assert "typo" in [frame.name for frame in traceback.extract_tb(raised.value.__traceback__)]


def test_private_training_is_silent() -> None:
    function = trial_of(typo, training="private")
    assert call_guarded(function, "l2", len) == FAILED
    assert call_guarded(trial_of(lambda _: SVC(), training="private"), None, len) == FAILED  # unfitted: not told either


def test_exits_of_the_training_half_are_failures() -> None:
    def raising(argument: type[BaseException]) -> Any:
        raise argument("secret")

    for error in UNUSUAL[1:]:
        assert call_guarded(trial_of(raising), error, len) == FAILED
    with pytest.raises(KeyboardInterrupt):
        call_guarded(trial_of(raising), KeyboardInterrupt, len).or_raise()


@pytest.mark.parametrize("error", [*UNUSUAL, InputError, ObjectiveRefused])
def test_a_function_that_returns_losses_is_private_throughout(error: type[BaseException]) -> None:
    def function(argument: Any) -> Any:
        raise error("person 7 has 4711.25")

    assert call_guarded(losses_function(function, None, None, rows=N), None, len) == FAILED
    assert call_guarded(function, None, len) == FAILED


def test_what_the_private_half_raises_is_not_told() -> None:
    class Odd(DummyClassifier):  # answers a public row, and nothing else
        def predict_proba(self, rows: np.ndarray) -> np.ndarray:
            if rows.any():
                raise ValueError(f"secret {rows}")
            return super().predict_proba(rows)

    losses = call_guarded(trial_of(lambda _: Odd().fit(X_TRAIN, Y_TRAIN)), None, lambda each: each).losses
    assert isinstance(losses, np.ndarray)
    assert np.isnan(losses).all()


def test_the_error_of_a_users_own_loss_on_private_rows_is_not_shown() -> None:
    def own(y: np.ndarray, prediction: np.ndarray) -> np.ndarray:
        if set(prediction) & private:
            raise InputError(f"secret {y}")
        return y - prediction

    model = LinearRegression().fit(X_TRAIN, Y_TRAIN)
    private = set(model.predict(X))
    function = losses_function(lambda _: model, NamedLoss("own", own), (X, Y), rows=N)
    losses = call_guarded(function, None, lambda each: each).losses
    assert isinstance(losses, np.ndarray)
    assert np.isnan(losses).all()


@pytest.mark.parametrize(
    ("model", "loss", "says"),
    [
        (SVC().fit(X_TRAIN, Y_TRAIN), "log_loss", "needs predict_proba"),
        (LogisticRegression(), "log_loss", "needs a fitted classifier"),
        (LinearRegression(), "mse", "not fitted"),
        (0.9, "log_loss", "got a float, perhaps a score, .* returns the model itself"),
        (LogisticRegression().fit(X_TRAIN, np.arange(50) % 3), "hinge", "answers one public row with shape"),
    ],
)
def test_trying_a_model_out_tells_what_is_wrong_with_it(model: Any, loss: str, says: str) -> None:
    with pytest.raises(InputError, match=says) as refused:
        trial_of(lambda _: model, loss).try_out(model)
    assert type(refused.value) is ObjectiveRefused  # of a name that its reader can look up
    outcome = call_guarded(trial_of(lambda _: model, loss), None, len)
    assert isinstance(outcome.error, InputError)


def test_trying_a_model_out_asks_for_no_private_row() -> None:
    asked = []

    class Asked(LinearRegression):
        def predict(self, rows: np.ndarray) -> Any:
            asked.append(rows)
            return super().predict(rows)

    model = Asked().fit(X_TRAIN, Y_TRAIN)
    trial_of(lambda _: model, "mse").try_out(model)
    assert {str(row) for rows in asked for row in rows.tolist()} == {f"[{x}, {x}]" for x in (0.0, 1.0, 10.0, np.nan)}


def test_data_are_loaded_first_and_rows_are_read_once_for_all_models() -> None:
    class Counted(list[Any]):
        reads = 0

        def __getitem__(self, place: Any) -> Any:
            Counted.reads += 1
            return super().__getitem__(place)

    order = []

    def load() -> Any:
        order.append("loaded")
        return Counted(X.tolist()), Y

    def train(argument: Any) -> Any:
        order.append("trained")
        return LogisticRegression().fit(X_TRAIN, Y_TRAIN)

    function = losses_function(train, "log_loss", load, rows=N)
    assert call_guarded(function, None, len) == Outcome(N)
    read = Counted.reads
    assert read >= N
    assert call_guarded(function, None, len).or_raise() == N
    assert Counted.reads == read
    assert order == ["loaded", "trained", "trained"]


def test_a_copy_computes_the_same() -> None:
    function = trial_of(_fitted)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(function))(None), function(None))


def _fitted(argument: Any) -> Any:
    return LogisticRegression().fit(X_TRAIN, Y_TRAIN)
