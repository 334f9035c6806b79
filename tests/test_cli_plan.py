"""``dptune plan``: what noise to expect, from public numbers alone."""

from __future__ import annotations

import json
import math

import pytest
from scipy.stats import norm
from typer.testing import CliRunner

from dptune.cli import app, main
from dptune.ledger.approximate import largest_plan
from dptune.ledger.gdp import mu_from_pure

CHOICE = "one private choice on public rows"


def plan(*words: str) -> str:
    done = CliRunner().invoke(app, ["plan", *words])
    assert done.exit_code == 0, done.output
    return done.output


def test_plan_prints_a_table_and_says_what_is_too_noisy() -> None:
    table = plan("--n", "300", "--clip", "0", "3", "--mu", "0.5", "--trials", "100")
    assert "too noisy" in table
    assert "values: trials must differ by 19% of the clip's width" in table
    assert "without default=" in table
    assert ", with default=" in plan("--n", "300", "--clip", "0", "3", "--default")
    assert len([line for line in table.splitlines() if line.startswith("│")]) <= 8
    rows = json.loads(plan("--n", "300", "--clip", "0", "3", "--mu", "0.5", "--format", "json"))
    assert {row["method"] for row in rows} == {"values", "CMA-ES on centred releases", CHOICE}
    assert {row["mu"] for row in rows} == {0.25, 0.5, 1.0}


def test_plan_says_what_a_choice_on_public_rows_shows_for_a_pair_and_a_typical_loss() -> None:
    words = ("--n", "400", "--loss", "hinge", "--epsilon", "4", "--format", "json")
    half, here, _ = (row for row in json.loads(plan(*words)) if row["method"] == CHOICE)
    assert (half["budget"], here["budget"]) == ("epsilon=2", "epsilon=4")
    assert here["mu"] > 1.3  # the pair buys a choice more than the mu of .92 through it
    mu = math.sqrt(0.2) * largest_plan(0.8, 4.0, 1e-5)  # of the estimate
    sigma = 2 * 1.5 / (400 * mu)  # cut at half of the clip
    assert here["sigma"] == pytest.approx(sigma, rel=1e-5)
    assert here["shows"] == pytest.approx((norm.ppf(0.975) + norm.ppf(0.95)) * sigma, rel=1e-5)
    scale = 2 * 1.5 / (400 * 0.1 * 2.0)  # pure
    assert half["mu"] == pytest.approx(mu_from_pure(2.0))
    assert half["sigma"] == pytest.approx(math.sqrt(2) * scale, rel=1e-5)
    assert half["shows"] == pytest.approx((math.log(20) + math.log(10)) * scale, rel=1e-5)


def test_a_mistake_is_one_line_that_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for words, name in (
        (("--n", "9"), "--clip"),
        (("--n", "9", "--loss", "hinge", "--clip", "0", "1"), "--clip"),
        (("--n", "9", "--loss", "r2"), "log_loss"),
        (("--n", "9", "--loss", "hinge", "--mu", "1", "--epsilon", "1"), "--mu"),
        (("--n", "0", "--clip", "0", "3"), "n must"),
        (("--n", "9", "--clip", "3", "0"), "clip must"),
    ):
        monkeypatch.setattr("sys.argv", ["dptune", "plan", *words])
        with pytest.raises(SystemExit, match=name) as ended:
            main()
        assert len(str(ended.value.code).splitlines()) == 1


def test_with_categories_the_search_has_less_of_the_budget_and_their_choices_count_as_dimensions() -> None:
    def noise(*space: str) -> float:
        rows = json.loads(plan("--n", "300", "--clip", "0", "3", "--trials", "100", *space, "--format", "json"))
        rows = [row for row in rows if row["method"] == "CMA-ES on centred releases" and row["mu"] == 1]
        (sigma,) = (row["sigma"] for row in rows if 50 < row["trials"] <= 100)
        return float(sigma)

    numbers, mixed = noise("--dimensions", "3"), noise("--dimensions", "1", "--choices", "2")
    assert mixed == pytest.approx(numbers / math.sqrt(0.3), rel=0.15)  # 70% is kept for the choice
