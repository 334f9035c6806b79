"""The centred race: joint answers about fewer and fewer candidates, each clipped to a ball that fits its people.

An example is hard for all models or for none. Take from each person's losses their mean over the candidates, and what
is left is short; it is shortest among the best candidates, where the choice is made.

    s                 survivors of round t, of T: m, m/4, m/16, ..., until at most 4
    h_i = H L_i       one person's centred losses at the survivors, (s,); H = I - 11'/s
    C_t               radius, by bisection: LOOKS noisy shares of people with |h_i| <= r, for SHARE of mu_t^2
    v_t               (1/n) sum_i clip(h_i, C_t) + N(0, sigma_t^2 I), sigma_t = 2 C_t / (n mu_t sqrt(1 - SHARE))
    estimate          sum_t v_t / sigma_t^2; of its entries the smallest quarter survives, in the end the smallest

mu_t = mu / sqrt(T) and the number of questions are fixed before the first, so the race is mu-GDP by composition.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from dptune.privacy.query import Ball, MeanQuery, NormQuery, Question

Vector = npt.NDArray[np.float64]

KEPT = 4  # one in so many survives a round
LOOKS = 4  # at the radius, in a round
SHARE = 0.15  # of a round's mu^2, for the looks
QUANTILE = 0.5  # share of people that the radius leaves unclipped
REACH = 100.0  # the largest radius of a round, in units of the smallest


def sizes(m: int) -> tuple[int, ...]:
    """Return how many candidates each round of a race among ``m`` compares."""
    return (m,) if m <= KEPT else (m, *sizes(math.ceil(m / KEPT)))


class Race:
    """A public algorithm: it states questions about candidates, and learns released answers.

    Args:
        points: names of the candidates, m >= 2.
        mu: GDP price of the whole race.
        loss_range: high - low of the clipped loss.

    Attributes:
        alive: names of the survivors; one when the race is over.

    Example::

        race = Race(points, mu=0.5, loss_range=privatizer.loss_range)
        while (asked := race.question()) is not None:
            released = privatizer.release(asked.query, scope="race", key=asked.key)
            race.learn(released.value, released.sigma)
        winner = points.index(race.alive[0])

    Guarantee: the questions together cost ``mu`` under replacing one person, by composition of Gaussian mechanisms.
    """

    def __init__(self, points: Sequence[str], *, mu: float, loss_range: float) -> None:
        self.alive = tuple(points)
        self._sizes = (*sizes(len(points)), 1)
        mu_t = mu / math.sqrt(len(self._sizes) - 1)
        self._look_mu, self._mean_mu = mu_t * math.sqrt(SHARE / LOOKS), mu_t * math.sqrt(1 - SHARE)
        self._range = loss_range
        self._estimate = np.zeros(len(points))  # (s,), times the precision
        self._round = 0
        self._begin()

    def _begin(self) -> None:
        self._looks = 0
        self._high = self._range * math.sqrt(len(self.alive)) / 2  # no centred vector is longer
        self._low = self._high / REACH

    def question(self) -> Question | None:
        """Return what to ask next; None when the race is over."""
        s = len(self.alive)
        if s == 1:
            return None
        looking = self._looks < LOOKS
        radius = self._radius if looking else self._high
        H, where = np.eye(s) - 1 / s, {"round": self._round + 1}
        above = radius / math.sqrt(s)  # what a failure counts as: it loses, and does not fill the clipped vectors
        if looking:
            query = NormQuery(self.alive, H, radius, self._look_mu, above)
            return Question(f"radius/{self._round + 1}/{self._looks + 1}", query, where)
        return Question(f"means/{self._round + 1}", MeanQuery(self.alive, H, Ball(radius), self._mean_mu, above), where)

    @property
    def _radius(self) -> float:
        return math.sqrt(self._low * self._high)

    def learn(self, answer: Vector, sigma: float) -> None:
        """Learn the released answer to the last question.

        Args:
            answer: a share of people (1,), or means (s,).
            sigma: standard deviation of the noise per coordinate.
        """
        if self._looks < LOOKS:
            if answer[0] > QUANTILE:
                self._high = self._radius
            else:
                self._low = self._radius
            self._looks += 1
            return
        self._estimate = self._estimate + answer / sigma**2
        self._round += 1
        best = np.argsort(self._estimate, kind="stable")[: self._sizes[self._round]]
        self.alive, self._estimate = tuple(self.alive[j] for j in best), self._estimate[best]
        self._begin()
