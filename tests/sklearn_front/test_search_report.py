"""A report and MLflow show only released values from the search's ledger."""

import contextlib
import pickle
import shutil
from pathlib import Path
from typing import Any

import mlflow
import numpy as np
import pytest
from sklearn.dummy import DummyClassifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import FixedThresholdClassifier, GridSearchCV, GroupKFold

import dptune
from dptune.choice.report.forecast import Expected
from dptune.choice.report.reporting import stored_report
from dptune_mlflow import log_run
from dptune_sklearn import PrivateSearch


def people() -> tuple[Any, dict[str, Any]]:
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=400)
    X = rng.normal(size=(400, 2)) + y[:, None]
    return (X[:150].copy(), y[:150].copy()), {"X_val": X[150:].copy(), "y_val": y[150:].copy()}


PUBLIC, PRIVATE = people()


def search_in(folder: Path, budget: float, **settings: Any) -> PrivateSearch:
    estimator = settings.pop("estimator", LogisticRegression())
    public = GridSearchCV(estimator, {"C": [0.1, 1.0, 10.0]})
    ledger = settings.pop("ledger", None) or dptune.PrivacyLedger(folder / "ledger.db", dptune.Budget.gdp(budget))
    return PrivateSearch(public, **{"loss": "zero_one", **settings}, ledger=ledger)


def test_a_search_reports_on_its_best_estimator(fast_path: Path) -> None:
    search = search_in(fast_path, 1.0, mu=0.8)
    with pytest.raises(NotFittedError):
        search.report(*PUBLIC, **PRIVATE)
    search.fit(*PUBLIC, **PRIVATE)
    found, ledger = search.report(*PUBLIC, **PRIVATE), search.ledger
    assert found.mu >= 0.6 - 1e-9  # what mu=0.8 has left of 1; more if the choice was the default
    assert found.accuracy_score.value > 0.6
    assert search.report(*PUBLIC, **PRIVATE).to_dict() == found.to_dict()
    assert stored_report(ledger, f"{search.name_} report").to_dict() == found.to_dict()
    assert ledger.spent() == pytest.approx(1.0)
    fewer = {"X_val": PRIVATE["X_val"][:9], "y_val": PRIVATE["y_val"][:9]}
    others = ({"y_val": None}, {"y_val": PRIVATE["y_val"][:9]}, {"fit_params": 0}, {"fit_params": []})
    for wrong in (fewer, *({**PRIVATE, **each} for each in others)):
        with pytest.raises(dptune.DptuneError, match=r"Nothing was charged\.$"):
            search.report(*PUBLIC, **wrong, name="wrong")
    assert ledger.count() == ledger.count(search.name_) + 1  # the report is one charge
    with pytest.raises(dptune.BudgetExhausted):
        search.report(*PUBLIC, **PRIVATE, name="another", mu=0.5)


def test_a_report_of_a_search_decides_as_predict_or_is_refused(fast_path: Path) -> None:
    class Costly(LogisticRegression):
        def predict(self, X: Any) -> Any:
            return (self.predict_proba(X)[:, 1] > 0.2).astype(int)

    ledger = dptune.PrivacyLedger(fast_path / "ledger.db", dptune.Budget.gdp(1.0))
    public = GridSearchCV(FixedThresholdClassifier(LogisticRegression()), {"threshold": [0.2, 0.3]})
    search = PrivateSearch(public, ledger=ledger, loss="zero_one", mu=0.8, default={"threshold": 0.4})
    search.fit(*PUBLIC, **PRIVATE)
    with pytest.raises(dptune.InputError, match=r"^predict of this Costly decides .* Nothing was charged\.$"):
        search.report(*PUBLIC, **PRIVATE, model=Costly().fit(*PUBLIC))
    assert ledger.count() == ledger.count(search.name_)
    found = search.report(*PUBLIC, **PRIVATE)
    assert found.plan.bins[0].threshold == pytest.approx(search.best_params_["threshold"], abs=1e-8)


def test_the_folds_of_a_report_keep_groups_together(fast_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    search, given = search_in(fast_path, 1.0, mu=0.8).fit(*PUBLIC, **PRIVATE), []
    monkeypatch.setattr(dptune, "report", lambda *_, **settings: given.append(settings["cv"]))
    groups = np.arange(150) // 10
    for about in ({}, {"cv": GroupKFold(3)}):
        search.report(*PUBLIC, **PRIVATE, train_groups=groups, **about)
    assert [len(folds) for folds in given] == [5, 3]
    assert all(set(groups[rows]).isdisjoint(groups[tested]) for folds in given for rows, tested in folds)


def test_a_report_of_a_search_without_refit_needs_a_model(fast_path: Path) -> None:
    search = search_in(fast_path, 1.0, mu=0.8)
    search.estimator.refit = False
    search.fit(*PUBLIC, **PRIVATE)
    with pytest.raises(dptune.InputError, match=r"refit=False.* give model=.* Nothing was charged\.$"):
        search.report(*PUBLIC, **PRIVATE)
    best = LogisticRegression(**search.best_params_).fit(*PUBLIC)
    assert search.report(*PUBLIC, **PRIVATE, model=best).accuracy_score.value > 0.5


def test_a_report_takes_the_model_and_not_its_search(fast_path: Path) -> None:
    search = search_in(fast_path, 1.0, mu=0.8).fit(*PUBLIC, **PRIVATE)
    data = PRIVATE["X_val"], PRIVATE["y_val"]
    with pytest.raises(dptune.InputError, match=r"PrivateSearch has a report\(\) of its own"):
        dptune.report(search, search.ledger, data=data, public=PUBLIC)


class Weighted(LogisticRegression):
    """A model whose options are checked: one has an entry for each row, the other has not."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None, pairs: Any = None) -> Any:
        if not (np.array_equal(sample_weight, weights(X)) and pairs is PAIRS):
            raise ValueError("other options")
        return super().fit(X, y, sample_weight)


def weights(X: Any) -> Any:
    return 0.2 + X[:, 0] ** 2


PAIRS = [(PUBLIC[0][:5], PUBLIC[1][:5])]


def test_a_report_refits_with_the_options_of_fit(fast_path: Path) -> None:
    options = {"sample_weight": weights(PUBLIC[0]), "pairs": PAIRS}
    search = search_in(fast_path, 1.0, mu=0.8, estimator=Weighted()).fit(*PUBLIC, **PRIVATE, **options)
    found = search.report(*PUBLIC, **PRIVATE, **options)
    assert found.accuracy_score.value > 0.5
    again = {"public": PUBLIC, "data": (PRIVATE["X_val"], PRIVATE["y_val"]), "fit_params": options}
    name = f"{search.name_} report"
    assert dptune.report(search.best_estimator_, search.ledger, **again, name=name).to_dict() == found.to_dict()


def test_a_report_after_a_choice_uses_the_rest_or_names_the_remedy(fast_path: Path) -> None:
    search = search_in(fast_path, 1.0, report_share=0.36).fit(*PUBLIC, **PRIVATE)
    assert search.selection_.mu == pytest.approx(0.8)
    left = search.ledger.remaining()
    assert left >= 0.6 - 1e-9  # more if the choice was the default
    assert search.report(*PUBLIC, **PRIVATE).mu == pytest.approx(left)

    worst = LogisticRegression(C=1e-9)  # a choice of the default would leave the estimate's part
    ledger = dptune.PrivacyLedger(fast_path / "nothing.db", dptune.Budget.gdp(50.0))
    search = search_in(fast_path, 1.0, estimator=worst, ledger=ledger).fit(*PUBLIC, **PRIVATE)
    assert search.best_params_["C"] > 1e-9
    with pytest.raises(dptune.BudgetExhausted) as refused:
        search.report(*PUBLIC, **PRIVATE)
    assert "give the choice report_share=" in " ".join(refused.value.__notes__)
    assert search.ledger.count(f"{search.name_} report") == 0


def test_a_plan_says_what_the_report_will_be_worth(fast_path: Path) -> None:
    """Half-widths for the price that the report has, and for the share of positive labels among public rows."""
    search = search_in(fast_path, 1.0, report_share=0.36)
    planned = str(search.plan(*PUBLIC, n=250))
    search.fit(*PUBLIC, **PRIVATE)
    mu = search.report(*PUBLIC, **PRIVATE).mu
    worth = Expected(250, 0.6, float(PUBLIC[1].mean())).words()
    assert f"Report: {worth}." in planned
    assert mu >= 0.6 - 1e-9  # more if the choice was the default
    other = dptune.PrivacyLedger(fast_path / "other.db", dptune.Budget.gdp(1.0))
    assert "Report:" not in str(search_in(fast_path, 1.0, ledger=other).plan(*PUBLIC, n=250))


def test_a_share_is_kept_from_other_choices_until_the_report(fast_path: Path) -> None:
    search = search_in(fast_path, 1.0, report_share=0.36).fit(*PUBLIC, **PRIVATE)
    other = {"estimator": LogisticRegression(fit_intercept=False), "ledger": search.ledger}
    with pytest.raises(dptune.errors.BudgetPlanned, match="give mu= to take of it"):
        search_in(fast_path, 1.0, **other).fit(*PUBLIC, **PRIVATE)
    search.report(*PUBLIC, **PRIVATE)
    with pytest.raises(dptune.BudgetExhausted) as refused:
        search_in(fast_path, 1.0, **other).fit(*PUBLIC, **PRIVATE)
    assert "planned" not in str(refused.value)
    search.ledger.raise_budget(dptune.Budget.gdp(2.0))
    assert search_in(fast_path, 1.0, **other).fit(*PUBLIC, **PRIVATE).selection_.mu > 0


@pytest.mark.parametrize("form", [str, Path, "sqlite:///{}".format], ids=["text", "Path", "URL"])
def test_a_fitted_search_keeps_its_ledger_in_another_folder(fast_path: Path, form: Any) -> None:
    """A relative path is that of the folder in which ``fit`` ran, also after a pickle, a raise, and a second fit."""
    here, there, moved = (fast_path / name for name in ("here", "there", "moved"))
    here.mkdir()
    there.mkdir()
    given: Any = {"budget": dptune.Budget.gdp(1.0), "loss": "zero_one", "report_share": 0.36}
    public = GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0, 10.0]})
    with contextlib.chdir(here):
        search = PrivateSearch(public, ledger=form("l.db"), **given).fit(*PUBLIC, **PRIVATE)
        ledger = dptune.PrivacyLedger("l.db")
    with contextlib.chdir(there):
        assert "n = 250" in search.statement(delta=1e-5).to_text()
        assert "Recorded" in str(search.plan(*PUBLIC, n=250))
        assert "Recorded" in search.fit(*PUBLIC, **PRIVATE).summary()
        again = pickle.loads(pickle.dumps(search))
        ledger.raise_budget(dptune.Budget.gdp(1.5))
        left = ledger.remaining()
        assert again.report(*PUBLIC, **PRIVATE).mu == pytest.approx(left)
    assert list(there.iterdir()) == []
    shutil.move(here, moved)
    with contextlib.chdir(there), pytest.raises(dptune.LedgerError, match="no ledger exists"):
        again.statement(delta=1e-5)  # none is made in its place
    with contextlib.chdir(moved):
        assert again.statement(delta=1e-5).to_text() == dptune.PrivacyLedger("l.db").statement(delta=1e-5).to_text()


WRONG_FOR_A_LEDGER = [{"ledger": None}, {"ledger": 3}, {"ledger": "a privatizer"}]
WRONG_FOR_PEOPLE = [{"clip": clip} for clip in (5, (0.0,), (0, 2, 3), "ab", (2.0, 0.0), np.array([0.0, 2.0]))]


@pytest.mark.parametrize("wrong", [*WRONG_FOR_A_LEDGER, *WRONG_FOR_PEOPLE, {"budget": 4.0}], ids=str)
def test_a_plan_refuses_what_fit_refuses_and_in_its_words(fast_path: Path, wrong: Any) -> None:
    made = dptune.PrivacyLedger(fast_path / "ledger.db", dptune.Budget.gdp(1.0))
    if wrong.get("ledger") == "a privatizer":
        wrong = {"ledger": dptune.LossPrivatizer(made, n=250, clip=(0, 1))}
    given = {"ledger": fast_path / "new.db" if "budget" in wrong else made, "loss": "log_loss", **wrong}
    search = PrivateSearch(GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}), **given)
    said = []
    for call in (lambda: search.fit(*PUBLIC, **PRIVATE), lambda: search.plan(*PUBLIC, n=250)):
        with pytest.raises(dptune.InputError) as refused:
            call()
        said.append(str(refused.value))
    assert said[0] == said[1]
    assert "or a LossPrivatizer" not in said[0]
    assert made.count() == 0


def test_a_report_of_the_default_after_a_search(fast_path: Path) -> None:
    search = search_in(fast_path, 1000.0, report_share=0.5).fit(*PUBLIC, **PRIVATE)
    usual = DummyClassifier(strategy="most_frequent").fit(*PUBLIC)
    found = search.report(*PUBLIC, **PRIVATE, model=usual, mu=500.0)
    exact = np.mean(usual.predict(PRIVATE["X_val"]) == PRIVATE["y_val"])
    assert found.accuracy_score.value == pytest.approx(exact, abs=0.01)  # the noise: sqrt(2) / 500 of 250 people
    for rows, error, said in (
        (PUBLIC, dptune.errors.BudgetMismatch, "the model"),  # the name is taken by the report of the default
        ((PRIVATE["X_val"], PRIVATE["y_val"]), dptune.InputError, "shares memory with [Xy], which is public"),
    ):
        with pytest.raises(error, match=said):
            search.report(*rows, **PRIVATE)


def test_a_fitted_search_is_one_run_of_mlflow_however_often_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    search = search_in(tmp_path, 50.0, loss="log_loss", default={"C": 1e-3}).fit(*PUBLIC, **PRIVATE)
    improvement = search.selection_.improvement  # little noise: the default is the worst
    where = {"delta": 1e-5, "tracking_uri": f"file:{tmp_path}/mlruns"}
    found = {"recommended": search.best_params_, "estimate": improvement}
    written = [log_run(search.ledger, search.name_, **found, **where) for _ in range(2)]
    client = mlflow.MlflowClient(where["tracking_uri"])
    run = client.get_run(written[0])
    assert written == [run.info.run_id] * 2
    assert run.data.tags["recommended.C"] == str(search.best_params_["C"])
    assert (run.data.metrics["improvement"], run.data.metrics["improvement_sigma"]) == (
        improvement.value,
        improvement.sigma,
    )
    shown = run.data.metrics["improvement_low"], run.data.metrics["improvement_high"]
    assert shown == improvement.interval()
    table = Path(client.download_artifacts(written[0], "released.csv")).read_text().splitlines()
    assert [line.split(",")[1] for line in table[1:]] == search.released_["release"]


def test_the_best_score_is_that_of_the_chosen_parameters(fast_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dptune.PublicChoice, "_chosen", staticmethod(lambda made: 2))  # the worst of three
    public = GridSearchCV(LogisticRegression(), {"C": [1e-6, 1.0, 10.0]}).fit(*PUBLIC)
    search = PrivateSearch(public, ledger=fast_path / "l.db", budget=dptune.Budget.gdp(9.0), loss="brier")
    search.fit(*PUBLIC, **PRIVATE)
    scores = public.cv_results_["mean_test_score"]
    assert search.best_params_ == public.cv_results_["params"][int(np.argmin(scores))]
    assert search.best_score_ == scores.min() < scores.max()
