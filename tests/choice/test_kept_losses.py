"""Public losses are kept next to the ledger: a repeated call trains almost nothing, and an edit gets no old losses."""

import contextlib
import logging
import os
import subprocess
import sys
import threading
from functools import cached_property, partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import optuna
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold

from dptune.choice.kept_losses import KeptLosses, fingerprint, unkept
from dptune.choice.kept_models import KeptModels
from dptune.errors import BudgetMismatch
from dptune.losses.named import as_loss
from dptune_optuna import candidate, choose
from dptune_sklearn import PrivateSearch

M, FOLDS = 5, 5
FITS = logging.getLogger("fits of this test")

PIPELINE = """
import logging
import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

POWER = 1.0


class Signed(TransformerMixin, BaseEstimator):
    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return np.sign(X) * np.abs(X) ** POWER


def helper(C):
    return C


def train(trial, X, y):
    logging.getLogger("fits of this test").error("one")
    if trial.params["C"] > 1e6:
        return make_pipeline(Signed(), LogisticRegression(C=1.0)).fit(X + 1, y)
    return make_pipeline(Signed(), LogisticRegression(C=helper(trial.params["C"]), random_state=0)).fit(X, y)
"""


def rows(seed=0, n=80):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, (X[:, 0] + 0.3 * rng.normal(size=n) > 0).astype(int)


def ledger_folder(ledger):
    return Path(f"{ledger.url.database}.public")


@pytest.fixture
def fits(caplog):
    """Return a function: how many trainings there were since the last call."""

    def count():
        found = sum(record.name == FITS.name for record in caplog.records)
        caplog.clear()
        return found

    return count


@pytest.fixture
def study():
    found = optuna.create_study(study_name="s", sampler=optuna.samplers.RandomSampler(seed=0))
    found.optimize(lambda trial: trial.suggest_float("C", 1e-3, 1e3, log=True), M)
    return found


def module_of(text):
    space = {"__name__": "pipeline_of_a_test"}
    exec(compile(text, "pipeline_of_a_test.py", "exec"), space)
    return space


def again(study, train, ledger, **options):
    options = {"public": rows(), "data": rows(1, 50), "loss": "log_loss", "mu": 1.0, "progress": False, **options}
    return choose(study, train, ledger=ledger, default={"C": 1.0}, even_if_hopeless=True, **options)


@pytest.mark.parametrize("averages", [False, True])
def test_a_repeated_call_trains_the_folds_of_one_candidate(ledger, study, fits, averages):
    first = again(study, module_of(PIPELINE)["train"], ledger, averages=averages)
    assert fits() == FOLDS * (M + 2) + M + 1  # the default comes twice, to see whether it has a seed
    spent = ledger.charges()
    second = again(study, module_of(PIPELINE)["train"], ledger, averages=averages)
    members = len(second.params["members"]) if "members" in second.params else 1
    assert fits() == FOLDS + members  # and the model that is returned
    assert second.params == first.params
    assert ledger.charges() == spent


EDITS = {
    "a transformer": (PIPELINE.replace("np.sign(X) *", "np.sign(X) * 2 *"), {}),
    "a global": (PIPELINE.replace("POWER = 1.0", "POWER = 1.5"), {}),
    "a helper": (PIPELINE.replace("return C\n", "return 2 * C\n"), {}),
    "what only other candidates use": (PIPELINE.replace("X + 1", "X + 2"), {}),
    "the rows": (PIPELINE, {"public": rows(2)}),
    "one cell": (PIPELINE, {"public": (rows()[0] + 1e-9 * np.eye(80, 3), rows()[1])}),
    "the seed of the folds": (PIPELINE, {"cv": KFold(5, shuffle=True, random_state=7)}),
    "the loss": (PIPELINE, {"loss": "brier"}),
}


@pytest.mark.parametrize("edit", EDITS)
def test_an_edited_training_gets_no_old_losses(ledger, study, fits, edit):
    again(study, module_of(PIPELINE)["train"], ledger)
    text, options = EDITS[edit]
    fits()
    with contextlib.suppress(BudgetMismatch):  # unless the losses are the same
        again(study, module_of(text)["train"], ledger, **options)
    assert fits() >= FOLDS * (M + 2)


def test_a_global_that_is_set_later_gets_no_old_losses(ledger, study, fits):
    space = module_of(PIPELINE)
    again(study, space["train"], ledger)
    fits()
    space["POWER"] = 2.0
    with pytest.raises(BudgetMismatch):
        again(study, space["train"], ledger)
    assert fits() == FOLDS * (M + 2)


def test_what_the_digest_cannot_see_is_found_by_training_one_candidate(fast_path, ledger, study, fits, caplog):
    """A file that training reads is in no digest."""
    (fast_path / "power").write_text("1.0")
    text = PIPELINE.replace("** POWER", f"** float(np.loadtxt({str(fast_path / 'power')!r}))")
    again(study, module_of(text)["train"], ledger)
    fits()
    (fast_path / "power").write_text("2.0")
    with caplog.at_level("INFO", logger="dptune_optuna"), pytest.raises(BudgetMismatch):
        again(study, module_of(text)["train"], ledger)
    assert "This is another choice" in caplog.text
    assert fits() == FOLDS * (M + 2)


def test_a_restart_continues_with_what_is_done(ledger, study, fits):
    class Kill(logging.Handler):
        left = 3 * FOLDS

        def emit(self, record):
            if self.left == 0:
                raise KeyboardInterrupt
            self.left -= 1

    kill = Kill()
    FITS.addHandler(kill)
    with pytest.raises(KeyboardInterrupt):
        again(study, module_of(PIPELINE)["train"], ledger)
    FITS.removeHandler(kill)
    assert len(list(ledger_folder(ledger).glob("*.npz"))) == 3
    assert not ledger.charges()
    fits()
    again(study, module_of(PIPELINE)["train"], ledger)
    assert fits() == FOLDS * (1 + M + 1 - 3) + M + 1


@pytest.mark.parametrize("damage", [b"", b"not a file of arrays", None])
def test_a_damaged_file_is_computed_again(ledger, study, fits, damage):
    first = again(study, module_of(PIPELINE)["train"], ledger)
    fits()
    for file in sorted(ledger_folder(ledger).glob("*.npz"))[:2]:
        held = file.read_bytes()
        file.write_bytes(held.replace(held[200:208], b"\0" * 8) if damage is None else damage)
    assert again(study, module_of(PIPELINE)["train"], ledger).params == first.params
    assert fits() == FOLDS * (1 + 2) + 1


def test_private_search_and_objectives_keep_theirs(ledger, study, fits):
    class Told(LogisticRegression):
        def fit(self, X, y):
            FITS.error("one")
            return super().fit(X, y)

    grid = GridSearchCV(Told(), {"C": [0.1, 1.0, 10.0]}, refit=False).fit(*rows())
    for trained in (FOLDS * 4 + 3, FOLDS + 1):
        fits()
        search = PrivateSearch(grid, ledger=ledger, loss="log_loss", mu=1.0, even_if_hopeless=True)
        search.fit(*rows(), X_val=rows(1, 50)[0], y_val=rows(1, 50)[1])
        assert fits() == trained

    def objective(trial):
        X, y = rows()
        model = Told(C=trial.suggest_float("C", 1e-3, 1e3, log=True)).fit(X[:40], y[:40])
        candidate(trial, model, held_out=(X[40:], y[40:]))

    for trained in (M + 2, 2):
        made = again(study, objective, ledger, public=None, name="objective")
        kept = trained == 2 and made.params == {"C": 1.0}  # chosen, the default is not trained once more
        assert fits() == trained - kept


USES = {
    "from steps import scaled as one": "one(X)",
    "import steps": "steps.scaled(X)",
    "import package.inner": "package.inner.scaled(X)",
    "from package import inner": "inner.scaled(X)",
    "from package import inner as two": "two.scaled(X)",
    "import steps as three": "list(map(lambda x: three.scaled(x), X))",
}


def test_a_digest_is_the_same_in_each_process_and_follows_imports(tmp_path):
    """Code in another file counts, however it is imported, in a module or in a function; the order of sets does not."""
    uses = [*enumerate(USES.items())]
    program = [
        "from dptune.choice.kept_losses import fingerprint",
        "A, B, C, D = 1, {'a', 'b'}, 'x', 2.0",
        *(f"def inside_{k}(X):\n    {line}; return A, B, C, D, {use}" for k, (line, use) in uses),
        *(f"print(fingerprint(inside_{k}, {{'x', 'y', 'z'}}))" for k, _ in uses),
        *USES,
        *(f"def outside_{k}(X):\n    return A, B, C, D, {use}" for k, (_, use) in uses),
        *(f"print(fingerprint(outside_{k}, {{'x', 'y', 'z'}}))" for k, _ in uses),
    ]
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("")
    (tmp_path / "run.py").write_text("\n".join(program))

    def digests(seed, factor):
        for file in ("steps.py", "package/inner.py"):
            (tmp_path / file).write_text(f"FACTOR = {factor}\ndef scaled(X):\n    return FACTOR * X\n")
        environment = {**os.environ, "PYTHONHASHSEED": str(seed), "PYTHONDONTWRITEBYTECODE": "1"}
        run = subprocess.run([sys.executable, "run.py"], cwd=tmp_path, env=environment, capture_output=True, check=True)
        return run.stdout.decode().split()

    first = digests(1, 2)
    assert [len(each) for each in first] == [64] * 2 * len(USES)
    assert digests(2, 2) == first
    assert not set(digests(1, 3)) & set(first)


def test_a_digest_counts_each_default_of_a_function():
    calls = ["a=1: a", "a=2: a", "a=1: a + a", "*, a=1: a", "*, a=2: a", "a=1, *, b=1: a", "a=1, *, b=2: a"]
    assert len({fingerprint(eval(f"lambda {each}")) for each in calls}) == len(calls)


@pytest.mark.parametrize("unreadable", [threading.Lock(), {"a": [threading.Lock()]}, (one for one in ())])
def test_what_cannot_be_read_has_no_digest(unreadable):
    assert fingerprint(np.random.default_rng(0), np.arange(3), {"a": {1, 2}}, open, np.mean, KFold) is not None
    assert fingerprint(unreadable) is None


class Scaler:
    """Its parts are a method, a property and a value that is computed once."""

    def __init__(self, factor=1):
        self.factor = factor

    def scaled(self, X):
        return self.factor * X


def with_part(part):
    return type("Part", (), {"__module__": "module_of_a_test", "part": part})


LIKE = {  # things that are alike, and that differ in one part
    "a partial's arguments": [partial(max, 1), partial(max, 2), partial(max, 1, key=len), partial(min, 1)],
    "a method's object": [Scaler(1).scaled, Scaler(2).scaled],
    "a property": [with_part(property(each)) for each in (lambda self: 1, lambda self: 2)],
    "a cached property": [with_part(cached_property(each)) for each in (lambda self: 1, lambda self: 2)],
    "a static method": [with_part(staticmethod(each)) for each in (lambda: 1, lambda: 2)],
    "an array": [np.array([1, 2]), np.array([1.0, 2.0]), np.array([[1, 2]]), np.array([2, 1])],
    "an array of objects": [np.array(["a", None], dtype=object), np.array(["b", None], dtype=object)],
    "a collection": [[1, 2], (1, 2), {1, 2}, {1: 2}, [2, 1], [[1, 2]]],
    "a number's type": [1, 1.0, True, "1", None],
    "a class's base": [type("Part", (base,), {"__module__": "module_of_a_test"}) for base in (dict, list)],
}


@pytest.mark.parametrize("part", LIKE)
def test_a_digest_differs_with_each_part_of_a_thing(part):
    digests = [fingerprint(each) for each in LIKE[part]]
    assert None not in digests
    assert len(set(digests)) == len(digests)
    assert [fingerprint(each) for each in LIKE[part]] == digests


def test_a_digest_counts_a_librarys_version(monkeypatch):
    before = fingerprint(LogisticRegression)
    monkeypatch.setattr("sklearn.__version__", "0.0")
    assert fingerprint(LogisticRegression) != before


def losses_at(places):
    return [np.full(12, 0.5 + place) for place in places]


def test_losses_of_a_folder_are_used_if_one_of_them_is_the_same_again(ledger):
    """The first candidate is trained twice where it is missing; else one that is kept, the default if it can be."""
    trained, said, loss = [], [], as_loss("mse")

    def evaluated(first, missing=(), train=losses_at, m=4, **about):
        kept = KeptLosses(about.get("ledger", ledger), loss, ("a training", list(range(m))))
        for place in missing:
            kept._file(place).unlink()
        trained.clear(), said.clear()
        found, twice, again = kept.evaluated(m, first, lambda at: (trained.extend(at), train(at))[1], said.append)
        assert [each.tolist() for each in found] == [each.tolist() for each in train(range(m))]
        assert again.tolist() == train([twice])[0].tolist()
        return twice, trained, said

    folder = ledger_folder(ledger)
    assert evaluated(2) == (2, [0, 1, 2, 3, 2], [])
    assert evaluated(2) == (2, [2], [])
    some = f"{folder} has the public losses of 3 of 4 configurations: they are not trained."
    assert evaluated(2, [3]) == (2, [2, 3], [some])
    assert evaluated(2, [2]) == (0, [0, 2], [some])
    other = (
        f"{folder} has other public losses of a configuration that was trained again: the code, the rows or a seed "
        "differ. This is another choice. All configurations are trained."
    )
    assert evaluated(1, [], lambda at: [2 * each for each in losses_at(at)]) == (1, [1, 0, 1, 2, 3], [other])
    assert evaluated(1, range(4), lambda at: [unkept(each) for each in losses_at(at)])[1] == [0, 1, 2, 3, 1]
    assert list(folder.glob("*.npz")) == []  # what was loaded from a checkpoint is in no file
    evaluated(0)
    loss = as_loss("absolute_error")
    assert evaluated(0) == (0, [0, 1, 2, 3, 0], [])
    url = SimpleNamespace(get_backend_name=lambda: "sqlite", database=":memory:")
    for nowhere in (SimpleNamespace(url=None), SimpleNamespace(url=url)):
        for _ in range(2):
            assert evaluated(0, ledger=nowhere) == (0, [0, 1, 2, 3, 0], [])
    assert not os.path.exists(":memory:.public")


def test_small_models_are_kept_as_they_are_and_large_ones_as_copies():
    kept, lock = KeptModels(), threading.Lock()
    models = {"small": np.zeros(10), "large": np.arange(1e5), "locked": {"lock": lock, "large": np.zeros(10**6)}}
    for key, model in models.items():
        assert key not in kept
        kept.put(key, model)
        assert key in kept
    assert len(kept) == 3
    for _ in range(2):
        assert [kept.get(key) is models[key] for key in models] == [True, False, True]
        assert np.array_equal(kept.get("large"), models["large"])
