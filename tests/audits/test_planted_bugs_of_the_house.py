"""An audit of whole runs fails on each bug that no earlier test had caught, planted alone.

``SearchRun`` and ``LossPrivatizer`` make the releases. tests/ledger/test_connection.py has SQLite's settings and their
planted bugs.
"""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from opendp.measurements import make_gaussian

from audit_tools import Bug, noisy, planted, small_sensitivity
from dptune import CENTRED, GIBO, Budget, Float, LossPrivatizer, PrivacyLedger, SearchRun, Space
from dptune.privacy import noise as noise_module
from dptune.privacy.noise import _unit_gaussian
from dptune.search import VALUES
from dptune.search import run as run_module
from noises import NoNoise

SPACE = Space({"a": Float(0.0, 1.0), "b": Float(0.0, 1.0)})
DEFAULT = {"a": 0.25, "b": 0.75}
GROUPS = [0, 0, 0, 0, 1, 2, 3, 4, 4, 5]  # ten rows of six people
PEOPLE: dict[str, dict[str, Any]] = {
    "n": {"n": 10},
    "groups": {"groups": GROUPS},
    "weights": {"n": 10, "person_weights": [1.0] * 9 + [3.0]},
}
LARGEST_SHARE = {"n": 1 / 10, "groups": 1 / 6, "weights": 3 / 12}  # of one person in a mean
METHODS: dict[str, tuple[Any, dict[str, Any]]] = {
    "values": (VALUES, {"trials": 3}),
    "gibo": (GIBO, {"steps": 2, "batch": 3, "starts": 4, "start_clip": 1.5, "clip": 0.5}),
    "centred": (CENTRED, {"trials": 8, "population": 4}),
}
KEYS = ["value/", "start", "step/", "share/", "generation/", "final"]
GRID = 2.0**-40  # the grid of the noise, in standard deviations


def make_run(
    folder: Path, method: str, people: str, *, default: bool = False, clip: Any = (-1.0, 2.0), noise: Any = None
) -> SearchRun:
    """Return a run of a method on a ledger of its own."""
    ledger = PrivacyLedger(folder / f"{method} {people} {default}.db", Budget.gdp(4.0))
    privatizer = LossPrivatizer(ledger, clip=clip, noise=noise, **PEOPLE[people])
    kind, settings = METHODS[method]
    space = None if kind is VALUES else SPACE
    chosen = DEFAULT if default else None
    return SearchRun(kind, privatizer, scope="run", space=space, seed=1, default=chosen, **settings)


def play(run: SearchRun) -> None:
    """Make every release that the run planned, the final estimate included."""
    rng = np.random.default_rng(0)
    for i in range(3 * run.plan.trials):
        if run.complete:
            break
        x = {"a": 0.1 * (i % 10), "b": 0.5} if run.space is None else run.ask()
        run.finish(str(i), x, rng.random(run.privatizer.rows) + x["a"])
    rows = rng.random(run.privatizer.rows)
    if run.ledger.find("run", "final") is None:  # a run that ends with a choice makes it by itself
        run.estimate({"a": 0.5, "b": 0.5}, rows, default=rows if run.default else None)


# ---- sensitivity ---------------------------------------------------------------------------------------


def expected_sensitivity(run: SearchRun, charge: Any, share: float) -> float:
    """The largest move of a statistic under replacing one person, from the paper's formulas and the public plan."""
    settings, width = run.plan.settings, 3.0
    kind = charge.key.partition("/")[0]
    if kind == "final" and run.default is not None:
        return math.sqrt(2) * width * share
    diameters = {
        "start": lambda: 2 * settings.start_clip,
        "step": lambda: 2 * settings.clip,
        "share": lambda: 1.0,
        "generation": lambda: 2 * charge.note["radius"],
    }
    return float(diameters.get(kind, lambda: width)()) * share


def audit_sensitivity(folder: Path, method: str, people: str, *, default: bool = False) -> set[str]:
    """Every charge states the sensitivity and noise that its key must have, and was drawn so; return the keys."""
    noise = NoNoise()
    run = make_run(folder, method, people, default=default, noise=noise)
    play(run)
    charges = run.ledger.charges("run")
    sizes = [sigma for _, sigma in noise.seen]
    assert sizes == [c.description["sigma"] for c in charges], "noise of another size than the charge says"
    for charge in charges:
        found, p = charge.description, len(charge.value or ())
        delta = expected_sensitivity(run, charge, LARGEST_SHARE[people])
        assert math.isclose(found["sensitivity"], delta, rel_tol=1e-12), (
            f"{charge.key}: {found['sensitivity']} for {delta}"
        )
        if charge.key == "choice":
            continue  # tests/choice audits its law
        sigma = delta * (1 + 1e-6) / (charge.mu - math.sqrt(p) * GRID)
        assert math.isclose(found["sigma"], sigma, rel_tol=1e-12), f"{charge.key}: sigma {found['sigma']} for {sigma}"
    return {key for key in KEYS for charge in charges if charge.key.startswith(key)}


ROWS_FOR_PEOPLE = ("groups", lambda p: p.n / p.rows)
EQUAL_FOR_LARGEST_WEIGHT = ("weights", lambda p: 1 / p.n / LARGEST_SHARE["weights"])


def test_every_kind_of_release_has_the_sensitivity_of_its_formula(fast_path: Path) -> None:
    pairs = [("values", "n"), ("values", "groups"), ("gibo", "groups"), ("gibo", "weights"), ("centred", "groups")]
    found = [audit_sensitivity(fast_path, *pair) for pair in [*pairs, ("centred", "weights")]]
    found += [audit_sensitivity(fast_path, method, "n", default=True) for method in ("gibo", "centred")]
    assert set().union(*found) == set(KEYS)


@pytest.mark.parametrize(
    ("key", "method", "bug", "default"),
    [
        ("value/", "values", ROWS_FOR_PEOPLE, False),
        ("start", "gibo", EQUAL_FOR_LARGEST_WEIGHT, False),
        ("step/", "gibo", ROWS_FOR_PEOPLE, False),
        ("share/", "centred", EQUAL_FOR_LARGEST_WEIGHT, False),
        ("generation/", "centred", ROWS_FOR_PEOPLE, False),
        ("final", "centred", EQUAL_FOR_LARGEST_WEIGHT, False),
        ("final", "centred", ROWS_FOR_PEOPLE, True),
    ],
)
def test_a_sensitivity_that_is_too_small_in_one_kind_of_release_is_found(
    fast_path: Path, monkeypatch: pytest.MonkeyPatch, key: str, method: str, bug: Any, default: bool
) -> None:
    people, factor = bug
    small_sensitivity(key, factor)(monkeypatch)
    with pytest.raises(AssertionError) as found:
        audit_sensitivity(fast_path, method, people, default=default)
    assert str(found.value).startswith(key)


# ---- the grid and the source of the noise ----------------------------------------------------------------


def audit_source(folder: Path) -> None:
    """Every released number is one that OpenDP drew, of standard deviation 1 on the grid 2^-40, times sigma."""
    drawn: list[list[float]] = []

    def watched(domain: Any, distance: Any, *, scale: float, k: int) -> Any:
        assert (scale, k) == (1.0, -40), f"OpenDP was asked for scale {scale} on the grid 2^{k}"
        mechanism = make_gaussian(domain, distance, scale=scale, k=k)

        def draw(statistic: Any) -> Any:
            drawn.append(mechanism(statistic))
            return drawn[-1]

        return draw

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dptune.privacy.noise.make_gaussian", watched)
        patch.setattr("dptune.privacy.noise._unit_gaussian", _unit_gaussian.__wrapped__)  # mechanisms that are kept
        charges = []
        for method in METHODS:
            run = make_run(folder, method, "n", clip=(-1.0, 1.0))
            play(run)
            charges += run.ledger.charges("run")
    assert len(charges) > 10
    assert [(c.key, c.value) for c in charges] == [
        (c.key, tuple(np.multiply(d, c.description["sigma"]) + 0.5 * c.key.startswith("share/")))
        for c, d in zip(charges, drawn, strict=False)
    ], "a released value is not what OpenDP drew"


GENERATOR = np.random.default_rng()
NUMPYS = noisy(lambda _, s, sigma: s + GENERATOR.normal(0, sigma, len(s)))
NUMPYS_ON_THE_GRID = noisy(
    lambda _, s, sigma: np.round((s / sigma + GENERATOR.normal(size=len(s))) / GRID) * GRID * sigma
)
COARSE_GRID = planted(noise_module, "GRID_EXPONENT", lambda _: -20)


def test_every_released_number_of_a_run_is_what_opendp_drew_on_its_grid(fast_path: Path) -> None:
    audit_source(fast_path)


@pytest.mark.parametrize("bug", [NUMPYS, NUMPYS_ON_THE_GRID, COARSE_GRID])
def test_other_noise_is_found(fast_path: Path, monkeypatch: pytest.MonkeyPatch, bug: Bug) -> None:
    bug(monkeypatch)
    with pytest.raises(AssertionError):
        audit_source(fast_path)


# ---- names of points -------------------------------------------------------------------------------------


def audit_names(folder: Path) -> None:
    """Two runs, and two parameter sets of one name, never see each other's losses."""
    folder.mkdir()
    privatizer = make_run(folder, "centred", "n", noise=NoNoise()).privatizer
    kind, settings = METHODS["centred"]
    for level, scope in enumerate(("one", "other")):  # same seed: same points
        run = SearchRun(kind, privatizer, scope=scope, space=SPACE, seed=1, mu=1.0, **settings)
        run.finish("0", {"a": 0.5, "b": 0.5}, np.full(10, float(level)))
        run.finish("0", {"a": 0.25, "b": 0.5}, np.full(10, level + 0.25))
    held = privatizer.points()
    assert len(held) == 4, f"{len(held)} names for four evaluations"
    queries = {point: privatizer.mean_query(point, 0.01) for point in held}
    levels = [privatizer.release(query, scope="look", key=point).scalar for point, query in queries.items()]
    assert np.allclose(sorted(levels), [0.0, 0.25, 1.0, 1.25]), f"losses were shared: {levels}"


@pytest.mark.parametrize("without", ["scope", "parameters"])
def test_no_run_and_no_parameters_see_the_losses_of_others(
    fast_path: Path, monkeypatch: pytest.MonkeyPatch, without: str
) -> None:
    def named(true: Any) -> Any:
        return lambda s, t, x: true("" if without == "scope" else s, t, {} if without == "parameters" else x)

    audit_names(fast_path / "right")
    planted(run_module, "point_name", named)(monkeypatch)
    with pytest.raises(AssertionError):
        audit_names(fast_path / "planted")
