"""One private choice among candidates that public rows have proposed, and one estimate of its gain.

Public rows propose: any search on them ranks the candidates, by losses of rows that did not train. Private people
decide: one release chooses a finalist, and one estimates its improvement over the default.

Example::

    choice = dptune.PublicChoice(V, privatizer, name="svm", default_place=0)  # V (m, N): cross-validated losses
    print(choice.outlook)                                                        # before anything is spent
    chosen = choice.choose({j: losses(train(j)) for j in choice.to_train})
    print(chosen.summary())

Guarantee: index and estimate together are mu-GDP under replacing all records of one person, n public, for a trusted
curator. The choice is the exponential mechanism with a public prior, and the estimate the Gaussian mechanism. If both
have all of an epsilon of at most 2, they are epsilon-DP: permute-and-flip and the Laplace mechanism. The ledger's
filter composes them. Finalists, prior, radii and the division of the budget are functions of public rows only, so only
the two releases cost budget (docs/privacy.md).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from dptune._checks import at_least, boolean, positive, readable, share, text
from dptune._numbers import rounded_up
from dptune.choice import planning
from dptune.choice.outlook import FuturePeople, Outlook, heavy_tails, hopeless, outlook
from dptune.choice.payer import Meaning, check_choice, explained
from dptune.choice.public import PublicLosses, prior, scales, weight_of
from dptune.choice.result import IMPROVEMENT, INDEX, OLD, PEOPLE_A_ROW, PairedEstimate, Selection
from dptune.errors import BudgetExhausted, BudgetMismatch, InputError, LedgerError
from dptune.ledger.filter import Allowance
from dptune.ledger.ledger import PLAN, Charge
from dptune.losses.named import NamedLoss, as_loss
from dptune.privacy.mechanism import GaussianMechanism, LaplaceMechanism, NoisyMin, PermuteAndFlip
from dptune.privacy.privatizer import Losses, LossPrivatizer
from dptune.privacy.query import Box, Interval, MeanQuery
from dptune.results import risk_in_words, share_in_words

_CHANGED = (
    "the ledger's budget has changed since this choice was planned: another run was charged, or the budget was raised. "
    "Plan it again, or give this choice another name= if it was charged. Nothing was charged."
)


class PublicChoice:
    """A choice that public rows have prepared. Nothing is charged before :meth:`choose`.

    Args:
        public_losses: (m, N) losses of N public rows under m candidates, each by a model that was trained without the
            row (cross-validation). It must be the loss that private people are asked for. A candidate that failed: NaN.
        privatizer: of the private people. Without ``clip=`` the range of a loss is read off ``public_losses``.
        name: of the choice in the ledger. With the same name, public losses and settings, a choice that was made is
            returned, and costs nothing.
        default_place: place, from 0, of the candidate that you have today. It is what the estimate compares with.
        loss: name of the loss, or a ``NamedLoss``; zero-one and Brier losses have a known range.
        mu: GDP price of choice and estimate together; default all that the ledger has not planned otherwise.
        public_weight: as how many rows a public row counts: in the prior, in who is a finalist, and in both radii.
            Give .5 for public rows of another region, age or year; with 0 public rows only propose.
        estimate_share: share of mu^2 for the estimate; default by what public rows say it will show. Where choice and
            estimate have all of an epsilon of 2 at most, it is a share of epsilon.
        finalists: number of finalists at most; default by n and the price.
        prevalence: share of the second of two labels among public rows, for the report's line of the plan.
        report_share: share of mu^2 of all that is left, which the choice leaves for :func:`dptune.report`; instead of
            ``mu``. Default 0.
        even_if_hopeless: whether the budget may be spent where no verdict on the default can come out. Default False:
            then such a choice is refused, and nothing is charged.
        about: what the name stands for in addition; front ends give it.

    Attributes:
        finalists: places of the candidates among which people choose, the best public loss first, the far ones last.
        outlook: what can be said before anything is spent; ``announcement`` says one line if the answer is recorded.

    Raises:
        InputError: an argument is not usable. Nothing was charged.
        BudgetExhausted: the ledger has not ``mu`` left.
        BudgetMismatch: the name belongs to another choice or to a search.
    """

    def __init__(
        self,
        public_losses: npt.ArrayLike,
        privatizer: LossPrivatizer,
        *,
        name: str,
        default_place: int | None = None,
        loss: str | NamedLoss | None = None,
        mu: float | None = None,
        public_weight: float = 1.0,
        estimate_share: float | None = None,
        finalists: int | None = None,
        report_share: float | None = None,
        prevalence: float | None = None,
        even_if_hopeless: bool = False,
        about: Meaning | None = None,
    ) -> None:
        if not isinstance(privatizer, LossPrivatizer | FuturePeople):
            raise InputError(f"a LossPrivatizer must come after the losses; got {type(privatizer).__name__}.")
        if privatizer.n < 2:
            raise InputError("a choice needs two private people or more; got 1. Nothing was charged.")
        self._privatizer = privatizer
        self.name = text("name", name)
        self.public = PublicLosses.of(public_losses, _known_range(privatizer, loss))
        self._loss = None if loss is None else as_loss(loss)
        self.default = None if default_place is None else self._place(default_place)
        asked = planning.Wanted(
            mu=None if mu is None else positive("mu", mu),
            public_weight=weight_of(public_weight),
            estimate_share=None if estimate_share is None else share("estimate_share", estimate_share),
            finalists=None if finalists is None else at_least("finalists", finalists, 2),
            report_share=0.0 if report_share is None else share("report_share", report_share),
        )
        if asked.mu is not None and asked.report_share:
            raise InputError(
                "mu= says already how much the choice leaves: give mu= or report_share=. Nothing was charged."
            )
        self._reported = asked.report_share, None if prevalence is None else share("prevalence", prevalence)
        m, rows = self.public.values.shape
        asked_loss = None if self._loss is None else self._loss.name
        of_public = {"candidates": m, "public rows": rows, "public losses": self.public.digest, "loss": asked_loss}
        about = about or Meaning({})
        told = {"clip": [privatizer.interval.low, privatizer.interval.high] if privatizer.clip_given else None}
        means = {**of_public, "default": self.default, **about.asked, **vars(asked)}
        self._means = Meaning(means, {**told, **about.told})
        self._rest: Allowance | None = None  # the allowance of the plan, until it is stored
        self._plan = self._agree(asked, boolean("even_if_hopeless", even_if_hopeless))
        self.finalists = self._plan.finalists
        privatizer.use_clip((self.public.low, self.public.high))

    def _place(self, default: object) -> int:
        place = at_least("default_place", default, 0)
        if place not in self.public.order:
            raise InputError(
                f"default_place={place} must be the place of one of the {self.public.m} candidates, from 0, that has "
                "public losses. Nothing was charged."
            )
        return place

    def _agree(self, wanted: planning.Wanted, even_if_hopeless: bool) -> planning.ChoicePlan:
        """Return the ledger's plan under the choice's name, or make one, which is not binding yet."""
        ledger = self._privatizer.ledger
        stored: Any = ledger.fact(self.name, PLAN)
        self._planned = partial(
            planning.plan, self.public, wanted=wanted, n=self._privatizer.n, weight=self._privatizer.largest_weight,
            default=self.default,
        )  # fmt: skip
        if stored is None:
            with explained(ledger, self._means, wanted.mu):
                check_choice(ledger, self.name, wanted.mu, choice_share=1 - (wanted.estimate_share or 0.0))
                self._rest = ledger.allowance()
                plan = self._planned(rest=self._rest)
                if plan.choice_mu <= 0 and ledger.fact(self.name, PLAN) is not None:
                    return self._agree(wanted, even_if_hopeless)  # another thread or process has charged it by now
                if plan.choice_mu <= 0:
                    raise BudgetExhausted(wanted.mu or ledger.budget.mu, self._rest.left, ledger.budget.mu)
            weight = self._privatizer.largest_weight
            about: Any = {"n": self._privatizer.n, "weight": weight, "default": self.default, "loss": self._loss}
            why = hopeless(self.public, plan, **about)
            if why and not even_if_hopeless and isinstance(self._privatizer, LossPrivatizer):  # else it is a dry run
                raise InputError(
                    f"{why[0].upper()}{why[1:]} Or give estimate_share=0 to choose without a verdict, or "
                    "even_if_hopeless=True. Nothing was charged."
                )
            return plan
        self._means.refuse_other(self.name, stored, recorded=self._made(INDEX) is not None)
        plan = planning.ChoicePlan.read(stored)
        rest = ledger.allowance()
        if plan.pure and rest.pair is not None and plan.epsilon != rest.pure:
            raise BudgetMismatch(_CHANGED)
        return plan

    def _bind(self) -> None:
        """Store the plan under the choice's name, immediately before the first charge."""

        def make(rest: Allowance) -> dict[str, object]:
            if rest != self._rest and self._planned(rest=rest) != self._plan:
                raise BudgetMismatch(_CHANGED)
            return self._plan.describe(self._means.asked, self._means.told)

        stored: Any = self._privatizer.ledger.fix_plan(self.name, make)
        self._means.refuse_other(self.name, stored, recorded=False)
        if planning.ChoicePlan.read(stored) != self._plan:
            raise BudgetMismatch(_CHANGED)
        self._rest = None

    # ---- before ----------------------------------------------------------------------------------

    @property
    def clip(self) -> tuple[float, float]:
        """Return the range of a loss."""
        return self.public.low, self.public.high

    @cached_property
    def outlook(self) -> Outlook:
        """Return the forecast before anything is spent, which prints as a few lines."""
        ledger = self._privatizer.ledger
        plan = self._plan
        limits = ledger.filter_for(self.name, plan=plan.describe({})).limits  # after the division to charge
        return outlook(
            self.public,
            plan,
            n=self._privatizer.n,
            default=self.default,
            loss=self._loss,
            weight=self._privatizer.largest_weight,
            name=self.name,
            spends=share_in_words(ledger.budget, limits, plan.mu),
            risk=risk_in_words(self._privatizer, limits),
            recorded="" if self.to_train else self._day(),
            tails=heavy_tails(self.public, self.public.order[0], self._loss),
            report=self._worth_of_the_report(),
        )

    def _worth_of_the_report(self) -> str:
        """Return in words the half-widths of a report with the share that is kept; "" if they are not known."""
        kept, prevalence = self._reported
        if not kept or prevalence is None or not self._plan.mu:
            return ""
        from dptune.choice.report.forecast import Expected  # a choice without a report loads none of it

        mu = self._plan.mu * math.sqrt(kept / (1 - kept))
        return Expected(self._privatizer.n, mu, prevalence).words()

    @property
    def announcement(self) -> str:
        """Return the text to print before :meth:`choose`: the outlook, or one line if the answer is recorded."""
        if self.to_train:
            return str(self.outlook)
        return f"Recorded answer of {self.name!r}, from {self._day()}. Nothing is charged. {OLD}"

    def _day(self) -> str:
        first_and_last = self._privatizer.ledger.span(self.name) or ("", "")
        return first_and_last[1][:10]

    @property
    def to_train(self) -> tuple[int, ...]:
        """Places of the candidates whose private losses :meth:`choose` still needs; () if the ledger has the answer."""
        made = self._made(INDEX)
        if made is None:
            kept = () if self.default is None or self.default in self.finalists else (self.default,)
            return (*self.finalists, *kept)
        chosen = self._chosen(made)
        if chosen == self.default or self.default is None or self._plan.estimate_mu == 0 or self._made(IMPROVEMENT):
            return ()
        return (self.default, chosen)

    def recorded(self) -> Selection | None:
        """Return the selection if the ledger has all of it, else None."""
        return None if self.to_train else replace(self._selection(), recorded=self._day())

    # ---- the two releases ------------------------------------------------------------------------

    def choose(self, losses: Mapping[int, Losses | None]) -> Selection:
        """Ask the private people: which finalist, and how much better it is than the default.

        Args:
            losses: for each place of :attr:`to_train` the people's losses (rows,), in a fixed order of rows. None
                stands for a candidate that could not be trained: it drops out.

        Raises:
            InputError: losses are missing or of another length, the default failed, or fewer than two finalists are
                left. Nothing was charged.
            BudgetExhausted: another run has spent what this one planned. Nothing was read.
        """
        if (known := self.recorded()) is not None:
            return known
        given: dict[int, Losses | None] = readable("losses, one vector for each place of to_train,", dict, losses)
        return self.choose_each((j, given[j]) for j in self.to_train if j in given)

    def choose_each(self, losses: Iterable[tuple[int, Losses | None]]) -> Selection:
        """Do the same with places and losses one by one; each vector is read before the next one is asked for."""
        if (known := self.recorded()) is not None:
            return known
        needed, failed = self.to_train, dict[int, bool]()
        try:
            for j, row in losses:
                failed[j] = row is None
                if row is not None:
                    self._privatizer.observe(self._point(j), row)
                elif j == self.default:
                    raise InputError(
                        f"candidate {j}, the default, could not be trained, so nothing can be compared with it. "
                        "Correct it, or omit default_place=. Nothing was charged."
                    )
            if missing := [j for j in needed if j not in failed]:
                raise InputError(f"losses of the candidates {missing[:5]} are missing; give None for one that failed.")
            left = [j for j in self.finalists if not failed.get(j, True)]
            if self._made(INDEX) is None:
                if len(left) < 2:
                    raise InputError(
                        f"{len(left)} of {len(self.finalists)} finalists could be trained; two are needed."
                    )
                self._privatizer.ready([self._point(j) for j, without in failed.items() if not without])
                if self._rest is not None:
                    self._bind()
                self._release_index(left)
            self._release_improvement()
            return self._selection()
        finally:
            for j in failed:
                self._privatizer.forget(self._point(j))

    def _release_index(self, left: list[int]) -> None:
        """Release j ~ pi_j exp(-(eta / 4r) sum_i cut((L_ij - median_near L_i) / k_j)), or by permute-and-flip."""
        r, mu = self._plan.radius, self._plan.choice_mu
        points = tuple(map(self._point, left))
        near = len(set(left) & set(self.finalists[: self._plan.near])) or len(left)
        W = np.diag(1 / scales(len(left), near))
        query = MeanQuery(points, W, Box(-r, r, len(left)), mu, centred_on=near)
        odds = prior(self.public.clipped[left], self._plan.public_weight).tolist()
        choose = partial(PermuteAndFlip if self._plan.pure else NoisyMin, prior=odds)
        self._privatizer.release(query, scope=self.name, key=INDEX, note=self._note(left), mechanism=choose)

    def _note(self, left: list[int]) -> dict[str, object]:
        """Return public facts about the trained finalists, for readers of the ledger."""
        default = None if self.default is None else self.public.mean(self.default)
        rows = self.public.clipped.shape[1]
        means = [self.public.mean(j) for j in left]
        return {"finalists": left, "public": means, "default": default, "public_rows": rows}

    def _release_improvement(self) -> None:
        """Release (1/n) sum_i cut(L_i(default) - L_i(chosen)) + noise, unless the default was chosen."""
        made = self._made(INDEX)
        if made is None or self.default is None or self._plan.estimate_mu == 0:
            return
        if (chosen := self._chosen(made)) == self.default:
            return
        plan, weights = self._plan, self._privatizer
        sigma = plan.noise(weights.largest_weight).sigma
        r = planning.estimate_radius(
            self.public, self.default, chosen, self.finalists[: plan.near], sigma, plan.public_weight
        )
        points = (self._point(self.default), self._point(chosen))
        query = MeanQuery(points, np.array([[1.0, -1.0]]), Interval(-r, r), plan.estimate_mu)
        predicted, spread = self.public.difference(self.default, chosen, r)
        rows = self.public.values.shape[1]
        sampling = math.sqrt(1 / rows + weights.squared_weights)
        uncut = self.public.difference(self.default, chosen, math.inf)[0]
        beyond = uncut - predicted if weights.n <= PEOPLE_A_ROW * rows else None
        note = {"radius": r, "predicted": predicted, "sampling": spread * sampling, "beyond": beyond}
        noise = LaplaceMechanism if self._plan.pure else GaussianMechanism
        self._privatizer.release(query, scope=self.name, key=IMPROVEMENT, note=note, mechanism=noise)

    def _made(self, key: str) -> Charge | None:
        """Return the charge of a release if its answer is recorded."""
        charge = self._privatizer.ledger.find(self.name, key)
        return charge if charge is not None and charge.value is not None else None

    @staticmethod
    def _chosen(made: Charge) -> int:
        (place,) = made.value or ()
        return int(made.note["finalists"][int(place)])

    def _selection(self) -> Selection:
        made, estimate = self._made(INDEX), self._made(IMPROVEMENT)
        if made is None:
            raise LedgerError(
                f"the choice {self.name!r} was charged, and its answer is not recorded: call choose again."
            )
        chosen = self._chosen(made)
        if chosen == self.default and self._plan.estimate_mu > 0:
            self._privatizer.ledger.end_plan(self.name)  # a report may use the estimate's unspent mu
        improvement = None
        if estimate is not None and estimate.value is not None and self.default is not None:
            improvement = PairedEstimate.of(estimate)
        method = "permute-and-flip" if self._plan.pure else "exponential selection"
        return Selection(
            chosen, self.public.m, None, self._plan.mu, method,
            all(charge.private for charge in self._privatizer.ledger.charges(self.name)),
            improvement=improvement, finalists=len(made.note["finalists"]), default=self.default,
            public_loss=self.public.mean(chosen), people=self._privatizer.n, cost=self._cost(),
        )  # fmt: skip

    def _cost(self) -> str:
        if self._plan.pure:
            return f"epsilon={rounded_up(self._plan.epsilon)}"
        ledger = self._privatizer.ledger
        limits = ledger.filter_for(self.name).limits
        epsilon = ledger.budget.stated_epsilon
        whole = limits.divided and self._plan.mu >= limits.gdp * (1 - 1e-6)
        return f"epsilon={rounded_up(epsilon)}" if whole and epsilon is not None else ""

    def _point(self, j: int) -> str:
        return json.dumps([self.name, self.public.digest, j])


def _known_range(privatizer: LossPrivatizer, loss: str | NamedLoss | None) -> tuple[float, float] | None:
    """Return the given range or the loss's own; None if public rows determine it."""
    if privatizer.clip_given:
        return privatizer.interval.low, privatizer.interval.high
    return None if loss is None else as_loss(loss).own_range
