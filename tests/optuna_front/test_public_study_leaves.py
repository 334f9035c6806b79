"""What a choice among a study's trials leaves behind: released and public facts only."""

import pickle

import numpy as np
import pytest
from noises import CannedNoise, NoNoise
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier

import dptune
from dptune.choice import public_choice
from harness import open_ledger, transcript
from public_studies import CS, PEOPLE, PUBLIC, N, chosen, logit, study_of

FEW = CS[1:5]  # what is searched, and how bad each is


class Counting(LogisticRegression):
    """Counts what it is asked, as scikit-learn's trees of neighbours do."""

    def predict_proba(self, X):
        self.asked_ = getattr(self, "asked_", 0) + len(X)
        return super().predict_proba(X)


def test_the_model_that_is_returned_was_never_asked_about_private_rows(tmp_path):
    choice = chosen(tmp_path, None, lambda trial, X, y: Counting(C=trial.params["C"]).fit(X, y))
    assert not hasattr(choice.model, "asked_")
    neighbours = (PEOPLE[0] + 1000.0 * (np.arange(N) == 7)[:, None], PEOPLE[1])
    models = []
    for name, data in (("a", PEOPLE), ("b", neighbours)):
        (tmp_path / name).mkdir()
        privatizer = dptune.LossPrivatizer(open_ledger(tmp_path / name), n=N, noise=CannedNoise())

        def near(trial, X, y):
            return KNeighborsClassifier(5, algorithm="kd_tree").fit(X, y)

        models.append(chosen(tmp_path, None, near, privatizer=privatizer, data=data, loss="zero_one").model)
    assert pickle.dumps(models[0]) == pickle.dumps(models[1])


def shown(folder, data, capfd, noise=CannedNoise):
    """Everything that a choice leaves: storage, ledger, log lines, console, files, and what is returned."""

    def run(storage):
        trained = []

        def train(trial, X, y):
            trained.append(f"trained C={trial.params['C']} on {len(y)} rows")
            return logit(trial, X, y)

        privatizer = dptune.LossPrivatizer(open_ledger(folder, 0.5), n=N, noise=noise())
        study = study_of([{"C": C} for C in FEW], FEW, storage=storage)
        choice = chosen(folder, study, train, privatizer=privatizer, default={"C": 1e-4}, data=data)
        returned = [choice.summary(), repr(choice), repr(pickle.dumps(choice.model))]
        files = [str(path.relative_to(folder)) for path in sorted(folder.rglob("*"))]
        return "\n".join([*trained, *returned, *files, *capfd.readouterr()])

    return transcript(folder, run)


def neighbour(kind):
    X, y = PEOPLE[0].copy(), PEOPLE[1].copy()
    if kind == "label":
        y[7] = 1 - y[7]
    elif kind == "wrong":  # the more a model is sure, the worse
        X[7] = [8.0 - 16.0 * y[7], 0.0, 0.0]
    else:
        X[7] = {"far": 1e6, "nan": np.nan}[kind]
    return X, y


def test_neighbouring_data_leave_byte_identical_transcripts_which_noise_off_would_not(tmp_path, capfd):
    mine = shown(tmp_path / "a", PEOPLE, capfd)
    for kind in ("far", "nan", "label"):
        assert shown(tmp_path / kind, neighbour(kind), capfd) == mine, kind
    assert "NOT PRIVATE" in mine  # canned noise is called what it is
    theirs = (PEOPLE[0], 1 - PEOPLE[1])
    assert shown(tmp_path / "c", PEOPLE, capfd, NoNoise) != shown(tmp_path / "d", theirs, capfd, NoNoise)


def the_vote_reads_private_rows(patch, losses):
    prior = public_choice.prior
    patch.setattr(public_choice, "prior", lambda V, w: prior(V + losses()[: len(V), None], w))


def r_from_private_rows(patch, losses):
    query = public_choice.Box
    patch.setattr(public_choice, "Box", lambda low, high, m: query(low - losses()[0], high + losses()[0], m))


def finalists_ordered_by_private_losses(patch, losses):
    order = property(lambda self: tuple(np.argsort(losses(), kind="stable").tolist()))
    patch.setattr(public_choice.PublicLosses, "order", order)


BUGS = [the_vote_reads_private_rows, r_from_private_rows, finalists_ordered_by_private_losses]


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_seen_in_the_transcripts(tmp_path, capfd, monkeypatch, bug):
    """The audit: neighbours, canned noise, byte by byte."""
    found = []
    for name, data in (("a", PEOPLE), ("b", neighbour("wrong"))):
        with monkeypatch.context() as patch:
            models = [LogisticRegression(C=C).fit(*PUBLIC) for C in (*FEW, 1e-4)]
            private = [-np.log(m.predict_proba(data[0])[np.arange(N), data[1]] + 1e-12).mean() for m in models]
            bug(patch, lambda private=private: np.array(private))
            try:
                found.append(shown(tmp_path / name, data, capfd))
            except Exception as error:  # noqa: BLE001 - it is seen, too
                found.append(repr(error))
    assert found[0] != found[1]
