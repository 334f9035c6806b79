"""Statistics, scales and public numbers of a privatizer are those that a few lines of arithmetic give."""

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from audit_tools import noiseless
from dptune import InputError, LossPrivatizer
from dptune.errors import PlanComplete
from dptune.ledger.entries import Quota
from dptune.privacy.mechanism import LaplaceMechanism, NoisyMin
from dptune.privacy.noise import SLACK, SeededNoise, SeededSample, noise_scale
from dptune.privacy.places import HeldAtPlaces, ModelToAsk, PlaceQuestion, Places, table_mean
from dptune.privacy.query import LARGEST, SMALLEST, Ball, Box, Interval, MeanQuery, NormQuery
from dptune.privacy.stored_losses import Grid, People, StoredLosses
from dptune.privacy.table import TableQuery
from noises import NoNoise

Make = Callable[..., LossPrivatizer]
RNG = np.random.default_rng(3)
CLIP = (-1.0, 4.0)
L, W = RNG.uniform(*CLIP, (4, 7)), RNG.normal(size=(2, 4))
WEIGHTS = np.array([3.0, 1.0, 2.0, 1.0, 5.0, 1.0, 4.0])
NAMES = ("a", "b", "c", "d")


def told(query: Any, failed: str = "", **settings: Any) -> Any:
    """Return the statistic plus its level, which is added after the noise."""
    statistic, _ = noiseless(query, L, failed=failed, clip=CLIP, dtype=np.float64, **settings)
    return statistic + query.middle


@pytest.mark.parametrize("clip", [Ball(1.5), Box(-1.0, 0.5, 2)], ids=["ball", "box"])
@pytest.mark.parametrize("failed", ["", "b", "bd"])
def test_losses_above_each_persons_median_are_cut(clip: Any, failed: str) -> None:
    """A failed point is each person's mean over the others plus 0.3, or the upper clip, before the cut."""
    for above in (None, 0.3):
        total = np.zeros(2)
        for i, weight in enumerate(WEIGHTS):
            mine = L[:, i].copy()
            usual = [mine[j] for j in range(4) if NAMES[j] not in failed]
            for j in range(4):
                if NAMES[j] in failed:
                    mine[j] = CLIP[1] if above is None else sum(usual) / len(usual) + above
            g = W @ np.minimum(mine, np.median(mine) + 0.7)
            g = g * min(1.0, 1.5 / np.linalg.norm(g)) if isinstance(clip, Ball) else np.clip(g, -1.0, 0.5)
            total += weight * g
        query = MeanQuery(NAMES, W, clip, 1.0, above, 0.7)
        assert told(query, failed, person_weights=WEIGHTS) == pytest.approx(total / WEIGHTS.sum(), abs=1e-9)


def test_a_failed_point_is_the_upper_clip_of_people_who_are_centred() -> None:
    rows = L.copy()
    rows[2] = CLIP[1]
    centred = np.clip(W @ (rows - np.median(rows[:3], axis=0)), -1.0, 0.5)
    query = MeanQuery(NAMES, W, Box(-1.0, 0.5, 2), 1.0, centred_on=3)
    assert told(query, "c") == pytest.approx(centred.mean(axis=1), abs=1e-9)


def test_weights_follow_their_people_beyond_the_first_chunk() -> None:
    n = 8195
    losses, weights = np.linspace(0, 1, n)[::-1], np.arange(1.0, n + 1)
    query = MeanQuery(("a",), np.ones((1, 1)), Interval(0.0, 1.0), 1.0)
    found, _ = noiseless(query, losses[None], clip=(0.0, 1.0), dtype=np.float64, person_weights=weights)
    assert found + 0.5 == pytest.approx((losses * weights).sum() / weights.sum(), abs=1e-9)
    table = TableQuery((np.eye(2),), 1.0, "a table", "test")
    shares = table.mean(People.of(n, None, weights), (losses > 0.5) * 1.0)
    assert shares == pytest.approx([weights[losses <= 0.5].sum(), weights[losses > 0.5].sum()] / weights.sum())


def test_public_numbers_of_a_privatizer_are_those_of_its_weights(privatizer: Make) -> None:
    mine = privatizer(n=7, clip=CLIP, person_weights=WEIGHTS)
    assert mine.largest_weight == pytest.approx(5 / 17)
    assert mine.squared_weights == pytest.approx((WEIGHTS**2).sum() / 17**2)
    assert (mine.loss_range, mine.knows_clip) == (5.0, True)
    mean, means = mine.mean_query("a", 0.5), mine.means_query(["a", "b", "c"], 0.5)
    assert (mine.sensitivity(mean), mine.sensitivity(means)) == pytest.approx((25 / 17, math.sqrt(3) * 25 / 17))
    assert mine.sigma(mean) == pytest.approx(50 / 17, rel=2e-6)
    assert (mean.middle, mean.clip, means.clip) == (1.5, Interval(*CLIP), Box(*CLIP, 3))
    assert (mean.weights.tolist(), means.weights.tolist()) == ([[1.0]], np.eye(3).tolist())
    assert repr(mine) == "LossPrivatizer(n=7, clip=(-1.0, 4.0))"
    assert repr(privatizer(clip=None)) == "LossPrivatizer(n=4, clip=unknown)"
    assert repr(privatizer(noise=NoNoise())) == "LossPrivatizer(n=4, clip=(0.0, 1.0), NOT PRIVATE)"


def test_a_release_has_its_charge_note_and_quota_and_cannot_be_changed(privatizer: Make) -> None:
    mine = privatizer(noise=NoNoise())
    mine.submit("x", [0.25] * 4)
    mine.submit("y", None)
    query, quota = mine.mean_query("x", 0.5), Quota("value/", 1)
    done = mine.release(query, scope="s", key="value/1", note={"at": 3}, quota=quota)
    assert (done.scalar, done.charge.note, done.sigma) == (0.25, {"at": 3}, mine.sigma(query))
    assert not done.value.flags.writeable
    with pytest.raises(PlanComplete):
        mine.release(mine.mean_query("y", 0.5), scope="s", key="value/2", quota=quota)
    assert mine.release(mine.mean_query("y", 0.5), scope="s", key="other").scalar == 1.0
    table = TableQuery((np.eye(2),), 0.5, "a table", "test")
    counted = mine.release_table(table, lambda: [0.0, 1.0, 1.0, np.nan], scope="s", key="t", note={"of": "x"})
    assert (counted.value.tolist(), counted.charge.note) == ([0.25, 0.75], {"of": "x"})


def test_a_laplace_release_states_its_epsilon_scale_and_deviation(privatizer: Make) -> None:
    mine = privatizer(n=8, clip=(0.0, 2.0), noise=NoNoise())
    mine.observe("x", [0.5] * 8)
    done = mine.release(mine.mean_query("x", 1.0), scope="s", key="k", mechanism=LaplaceMechanism)
    said: Any = done.charge.description
    epsilon = 2 * math.log(math.erf(0.5 / math.sqrt(2)) + 1) - 2 * math.log(1 - math.erf(0.5 / math.sqrt(2)))
    assert said["epsilon"] == pytest.approx(epsilon / 2, rel=1e-9)
    assert said["scale"] == pytest.approx(0.25 / said["epsilon"], rel=2e-6)
    assert said["sigma"] == pytest.approx(math.sqrt(2) * said["scale"])
    assert (said["sensitivity"], done.scalar) == (0.25, 0.5)


def test_the_least_price_and_the_widest_ranges_are_allowed_and_no_more() -> None:
    least = 2000 * 2.0**-40
    scale = noise_scale(sensitivity=1.0, mu=least, dimension=4)
    assert scale == (1 + SLACK) / (1998 * 2.0**-40)
    with pytest.raises(InputError):
        noise_scale(sensitivity=1.0, mu=least * (1 - 1e-9), dimension=4)
    assert (Interval(0.0, LARGEST).middle, Interval(-LARGEST, -1.0).diameter) == (5e29, 1e30)
    assert (Interval(0.0, SMALLEST).diameter, Ball(LARGEST).diameter, Ball(SMALLEST).middle) == (1e-30, 2e30, 0.0)
    for low, high in ((0.0, 1.01e30), (-1.01e30, 0.0), (0.0, 0.99e-30)):
        with pytest.raises(InputError):
            Interval(low, high)
    assert Box(-1.0, 2.0, 4).diameter == 6.0


def test_a_prior_moves_a_choice_by_its_logarithm_in_units_of_the_noise(privatizer: Make) -> None:
    noise = NoNoise()
    mine = privatizer(noise=noise)
    query = mine.means_query("ab", 1.0)
    for point in "ab":
        mine.observe(point, [0.5] * 4)
    mine.release(query, scope="s", key="k", mechanism=lambda noise: NoisyMin(noise, [1.0, 8.0]))
    assert noise.statistic == pytest.approx([0.0, -math.log(8) * noise.sigma])


STATISTICS = {
    "mean clipped loss of one evaluated point": MeanQuery(("a",), np.ones((1, 1)), Interval(0.0, 1.0), 1.0),
    "mean clipped difference of the losses at two evaluated points": MeanQuery(
        ("a", "b"), np.array([[1.0, -1.0]]), Interval(-1.0, 1.0), 1.0
    ),
    "mean clipped losses of 3 evaluated points": MeanQuery(NAMES[:3], np.eye(3), Box(0.0, 1.0, 3), 1.0),
    "mean losses of 2 evaluated points, less each person's median, clipped": MeanQuery(
        NAMES, W, Box(0.0, 1.0, 2), 1.0, centred_on=3
    ),
    "mean clipped linear statistic of the losses": MeanQuery(NAMES, W, Ball(1.0), 1.0),
    "share of people whose linear statistic of the losses lies in a public ball": NormQuery(NAMES, W, 1.0, 1.0),
}


def test_each_statistic_has_its_words() -> None:
    assert [query.statistic for query in STATISTICS.values()] == [*STATISTICS]


def test_everything_in_a_table_is_part_of_its_digest() -> None:
    one = TableQuery((np.eye(3),), 1.0, "a table", "test")
    others = [
        TableQuery((np.eye(3)[::-1],), 1.0, "a table", "test"),
        TableQuery((np.eye(3), np.eye(3)), 1.0, "a table", "test"),
        TableQuery((np.eye(3),), 2.0, "a table", "test"),
        TableQuery((np.eye(3),), 1.0, "another", "test"),
        TableQuery((np.eye(3),), 1.0, "a table", "other"),
    ]
    assert len({each.digest() for each in (one, *others)}) == 6


def test_seeded_choices_follow_losses_and_samples_are_not_the_noise() -> None:
    means = np.array([3.0, 2.0, 1.0, 2.5])
    for draw in (SeededNoise(0).noisy_argmin, SeededNoise(0).permute_and_flip):
        assert {draw(means, 1e-3) for _ in range(50)} == {2}
        assert {draw(means, 1e3) for _ in range(200)} == {0, 1, 2, 3}
    assert SeededSample(3).draw(50, 0.4).tolist() == SeededSample(3).draw(50, 0.4).tolist()
    uniform = np.random.default_rng(3).random(50) < 0.4
    assert SeededSample(3).draw(50, 0.4).tolist() != uniform.tolist()


# ---- places ----------------------------------------------------------------------------------------------


def question(**change: Any) -> PlaceQuestion:
    query = MeanQuery(("a", "b"), np.eye(2), Box(-1.0, 4.0, 2), 1.0, 0.25)
    usual = {"query": query, "recipe": None, "models": (), "clip": Interval(*CLIP), "dtype": np.float64}
    return PlaceQuestion(**{**usual, "grid": Grid.of(7, query), **change})


def test_a_model_that_failed_counts_at_a_place_as_in_one_process() -> None:
    held, people = StoredLosses(People.of(7, None, None), Interval(*CLIP), np.float64), People.of(7, None, None)
    held.add("a", held.clean(L[0]))
    held.add("b", held.clean(np.full(7, np.nan)), failed=True)
    asked = question()
    answer = asked.answer(people, [L[0], None])
    assert (answer.sums, answer.n) == (tuple(held.sums(asked.query, asked.grid).tolist()), 7)
    assert asked.grid.mean(np.array(answer.sums), 1 / 7) + 1.5 == pytest.approx([L[0].mean(), L[0].mean() + 0.25])


def test_everything_in_a_question_to_places_is_part_of_its_digest() -> None:
    changes: list[dict[str, Any]] = [
        {}, {"clip": Interval(-1.0, 5.0)}, {"dtype": np.float32}, {"grid": Grid(5.0, 40)}, {"grid": Grid(2.5, 39)},
        {"query": MeanQuery(("a", "b"), np.eye(2), Box(-1.0, 4.0, 2), 2.0, 0.25)},
    ]  # fmt: skip
    assert len({question(**change).digest for change in changes}) == len(changes)


def test_places_try_out_only_models_that_were_trained() -> None:
    tried: list[Any] = []
    stand_in: Any = SimpleNamespace(ready=lambda recipe, models, n: tried.append((recipe, [m() for m in models], n)))
    held = HeldAtPlaces(stand_in, 9, Interval(0.0, 1.0), np.float32)
    held.add("x", None, failed=True)
    held.add("y", ModelToAsk("how", lambda: "a model"))
    held.ready(["x", "y"])
    assert tried == [("how", ["a model"], 9)]
    assert (held.points(), "x" in held, "z" in held) == (("x", "y"), True, False)


def test_the_table_of_all_places_is_a_mean_over_all_their_people() -> None:
    asked: list[PlaceQuestion] = []

    class Place:
        def __init__(self, name: str, *codes: float) -> None:
            self.name, self.codes = name, np.array(codes)

        def ready(self, recipe: Any, models: Any) -> Any:
            return lambda: len(self.codes)

        def answer(self, question: PlaceQuestion) -> Any:
            asked.append(question)
            return lambda: question.answer(People.of(len(self.codes), None, None), [self.codes])

    places = Places([Place("north", 0.0, 1.0, 1.0), Place("south", np.nan)])
    query = TableQuery((np.array([[1.0, 0.0, 0.0], [0.0, 2.0, 1.0]]),), 1.0, "a table", "test")
    assert table_mean(places, query, ModelToAsk("how", str)).tolist() == [0.25, 1.25]
    assert {(each.recipe, each.models, each.clip, each.entries) for each in asked} == {("how", (str,), None, 3)}
    assert (repr(places), places.people, places.n) == ("Places('north', 'south')", {"north": 3, "south": 1}, 4)
