"""No logger, result or ledger on Ray differs between neighbours. Trials run in this process."""

import itertools
import logging

import numpy as np
import pytest

import dptune
from by_hand import begin, local, open_private, played
from every_logger import every_logger, without_clocks
from noises import CannedNoise
from ray_harness import open_centred, open_ledger, open_privatizer, open_search

pytestmark = local
ROWS, ODD, SECRET = 12, 5, 4711.25
FRONTS = {
    "centred": open_centred,
    "gibo": open_search,
    "values": open_private,
}
MOST = {"centred": 5, "gibo": 5, "values": 3}  # trials


class Model:
    """Predicts its constant; fails on a row beyond 1000."""

    n_features_in_, classes_ = 2, np.array([0, 1])

    def __init__(self, constant):
        self.constant = constant

    def predict(self, rows):
        if (np.asarray(rows, dtype=float) > 1000).any():
            raise ValueError(f"{np.asarray(rows).max()} is too large")
        return np.full(len(rows), int(self.constant > 0))


def with_cell(cell):
    """A search with data, of which one cell is this: NaN, text, or what the model raises on."""
    rows = np.linspace(0.0, 1.0, 2 * ROWS).reshape(ROWS, 2).tolist()
    rows[ODD][1] = cell
    X = np.array(rows, dtype=object if isinstance(cell, str) else float)
    return {"function": lambda config: Model(config["x"]), "loss": "zero_one_loss", "data": (X, [0, 1] * (ROWS // 2))}


def with_loss(entry):
    """A search whose function returns the losses itself, one of them this."""
    return {"function": lambda config: [config["x"] ** 2] * ODD + [entry] + [0.5] * (ROWS - ODD - 1)}


def raising(secret):
    """A search whose function raises half the time, and says what."""

    def losses(config):
        if config["x"] > 0:
            raise ValueError(f"person 7 has {secret}")
        return np.full(ROWS, 0.5)

    return {"function": losses}


@pytest.fixture
def audit(fast_path, local_actors):
    """With canned answers, neighbours make the same lines, and not few, results and charges."""

    def audited(front, *halves, kind=dptune.LossPrivatizer, answer=0.25, mu=1.0):
        transcripts, left = [], []
        for half in halves:
            local_actors.clear()
            folder = fast_path / str(len(transcripts))
            folder.mkdir()
            with every_logger() as lines:
                canned = CannedNoise(5, answer=answer)
                search = begin(FRONTS[front](open_privatizer(folder, mu=mu, n=ROWS, noise=canned, kind=kind)))
                results = played(search, search.trainable(half.pop("function"), **half), MOST[front])
            transcripts.append(without_clocks(lines, folder))
            charges = [(c.key, c.mu, c.value, dict(c.note)) for c in open_ledger(folder, mu).charges("run")]
            left.append((repr(results), charges))
        for a, b in itertools.zip_longest(*transcripts):
            assert a == b, "a log line depends on private data"
        assert left[0] == left[1]
        assert not any(str(SECRET) in line for line in transcripts[1])
        assert len(transcripts[0]) > 100
        return charges

    return audited


@pytest.mark.parametrize(
    ("front", "half", "odd"),
    [
        ("values", with_cell, np.nan),
        ("gibo", with_cell, "n/a"),
        ("centred", with_cell, SECRET),
        ("values", with_loss, "n/a"),
        ("centred", with_loss, None),
        ("values", raising, SECRET),
    ],
)
def test_no_logger_tells_neighbours_apart(audit, front, half, odd):
    audit(front, half(0.5), half(odd))


class Leaking(dptune.LossPrivatizer):
    """Says how many losses are NaN."""

    def observe(self, point, losses):
        logging.getLogger("ray.made.just.now").debug("%d losses are NaN", np.isnan(losses).sum())
        return super().observe(point, losses)


def test_a_line_about_private_data_is_found(audit):
    with pytest.raises(AssertionError, match="depends on private data"):
        audit("values", with_loss(0.5), with_loss(np.nan), kind=Leaking)
