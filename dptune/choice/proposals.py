"""One private choice among configurations of a public search: the part that front ends share.

A front end lists its search's proposals and trains in its own way. The rest is here: options, cross-validated losses,
finalists, their training, and one private choice.

Guarantee: that of :class:`dptune.PublicChoice`. Candidates, their order, finalists and everything that is shown before
the choice are functions of public rows. Private rows are read in this process only, after the plan is fixed, and the
model that is returned was never asked about them.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

import dptune
from dptune._checks import Checked, at_least, attempt, boolean, check, kind
from dptune.choice.averages import (
    Group,
    averages_in_words,
    check_averages,
    have_average,
    in_words,
    parameters_of,
    with_averages,
)  # fmt: skip
from dptune.choice.configurations import (
    Candidate,
    Parameters,
    as_parameters,
    digest_of,
    key_of,
    numeric_key,
    without_twins,
)  # fmt: skip
from dptune.choice.crossval import Answers, as_losses, refuse_unseeded
from dptune.choice.finalists import Finalists
from dptune.choice.kept_losses import KeptLosses
from dptune.choice.outlook import Outlook, future_people, in_front
from dptune.choice.payer import Meaning, Payer, check_affordable, check_earlier, privatizer_of
from dptune.choice.places import AskLoss, as_it_is, asker_of, refuse_reaching
from dptune.choice.public import rounded, weight_of
from dptune.choice.workers import NoCheckpoint, failures, told
from dptune.errors import InputError
from dptune.losses.named import NamedLoss, as_loss
from dptune.losses.user_function import Data
from dptune.privacy.places import Places
from dptune.results import left_in_words

SETTINGS = ("mu", "public_weight", "estimate_share", "finalists", "report_share", "even_if_hopeless")  # PublicChoice's
Say = Callable[[str], object]  # prints a public line
CANDIDATES = 200  # number of a search's best candidates that are cross-validated


@dataclass(frozen=True, kw_only=True)
class ChoiceOptions(Checked):
    """The options of every front end's ``choose``, whose docstrings say what each of them is.

    Attributes:
        name: default ``"<search> (choice)"``. For a search without a name, a digest of its proposals and public losses:
            a rerun with the same seed is the same choice.
        averages: whether the candidates are averages of what configurations predict: of the best 3, 10, 30 and half,
            and of each one with the best 10. With a small ``public_weight`` those like it take the place of the best.
            Their loss is smaller, but the model is a voting ensemble; ``params["members"]`` and ``["weights"]`` list
            its configurations. For losses of probabilities or numbers. Default False.
    """

    data: Data | Callable[[], Data] | Places
    loss: str | NamedLoss
    ledger: Payer
    public: tuple[Any, Any] | None = None
    default: Parameters | None = None
    groups: npt.ArrayLike | None = None
    n: int | None = None
    budget: dptune.Budget | None = None
    name: str | None = None
    cv: Any = 5
    public_losses: npt.ArrayLike | None = None
    candidates: int = CANDIDATES
    mu: float | None = None
    public_weight: float = 1.0
    estimate_share: float | None = None
    finalists: int | None = None
    report_share: float | None = None
    even_if_hopeless: bool = field(default=False, metadata=check(boolean))
    dry_run: bool = field(default=False, metadata=check(boolean))
    averages: bool = field(default=False, metadata=check(boolean))


@dataclass(frozen=True)
class Proposals:
    """The proposals of a finished public search.

    Attributes:
        candidates: the best first.
        searched: number of configurations that were searched.
        name: of the search; None: it has none that stays when the script is run again.
        kind: begins the name of a choice where the search has none.
        usual: the user's present configuration, unless ``default=`` is given; the reference if it can be trained.
        told: facts about the search for messages, such as its seed.
        excluded: a sentence about trials that are not candidates, and a space; empty if there are none.
        earlier: :attr:`Choice.kept` of earlier choices, as the search has stored it.
    """

    candidates: Sequence[Candidate]
    searched: int
    name: str | None
    kind: str = "choice"
    usual: Parameters | None = None
    told: Mapping[str, object] = field(default_factory=dict)
    excluded: str = ""
    earlier: Sequence[Mapping[str, Any]] = ()

    def with_default(
        self, default: Parameters | None, most: int, *, trained: bool = True
    ) -> tuple[list[Candidate], int | None]:
        """Return the best ``most`` candidates without repetitions, the default among them, and its place.

        Unless candidates can be ``trained``, a default that was not searched is the first with equal numbers.
        """
        distinct: dict[str, Candidate] = {}
        for each in self.candidates:
            distinct.setdefault(key_of(each.parameters), each)
        candidates = dict(list(distinct.items())[:most])
        if default is None:
            return list(candidates.values()), None
        key = key_of(as_parameters(default))
        if key not in distinct and not trained:
            equal = numeric_key(default)
            key = next((own for own, each in distinct.items() if numeric_key(each.parameters) == equal), key)
        candidates.setdefault(key, distinct.get(key, Candidate(default, None)))
        return list(candidates.values()), list(candidates).index(key)


class Trainer(Protocol):
    """Trains on public rows, in any processes; a failed candidate's result is its exception.

    Attributes:
        inputs: the user's inputs, which must not reach the private rows.
        lasting: whether ``models`` returns the same models again, such as those of checkpoints.
    """

    inputs: object

    @property
    def lasting(self) -> bool: ...

    def evidence(self, candidates: Sequence[Candidate]) -> tuple[object, Sequence[object]] | None:
        """Return what all losses depend on, and what each candidate's depend on; None if nothing can be kept."""

    def losses(self, candidates: Sequence[Candidate]) -> Iterable[npt.ArrayLike | Answers | Exception]:
        """Return the losses of the public rows (N,) under each candidate, by cross-validation.

        With ``averages=True`` it returns what the models answer instead.
        """

    def models(self, candidates: Sequence[Candidate]) -> Iterable[Any]:
        """Return the models of the candidates, trained on all public rows, one by one or a batch at a time.

        No training runs while a model is asked about private rows, in silence.
        """


@dataclass(frozen=True)
class Choice:
    """The configuration that private people chose.

    Attributes:
        params: the chosen configuration.
        selection: what was released: the choice, and the paired estimate against the default; public.
        model: trained at ``params`` on all public rows. It was never asked about a private row.
        name: of the choice in the ledger.
        left: what is left of the ledger's budget, in words.
        kept: name and identity of the ledger that has the choice, and the day of its charge.
        outlook: of a dry run: the plan, and what it can show. Nothing was chosen: ``selection`` and ``model`` are None.
    """

    params: Parameters
    selection: Any
    model: Any = field(repr=False)
    name: str = ""
    left: str = ""
    kept: Mapping[str, Any] = field(default_factory=dict)
    outlook: Outlook | None = None

    def summary(self) -> str:
        """Return the verdict, the parameters, what public rows predicted, the budget left and the next step."""
        if self.outlook is not None:
            return str(self.outlook)
        return str(self.selection.summary(in_words(self.params), left=self.left))

    def __str__(self) -> str:
        return self.summary()


def choose_among(proposals: Proposals, trainer: Trainer, options: ChoiceOptions, say: Say, warn: Say) -> Choice:
    """Cross-validate the candidates, train the finalists, and let private people choose.

    Raises:
        InputError: fewer than two candidates can be trained, or the default cannot, or an option is not usable;
            nothing was charged.
        UnsupportedMetric: the loss is not a mean over people.
        BudgetExhausted: the ledger has not the price left; before a model is trained.
        BudgetMismatch: the name belongs to a choice with other configurations, public losses or settings.
    """
    loss, own = options.loss, getattr(options.loss, "function", None)
    refuse_reaching({"loss=": own, "train": trainer.inputs, "public=": options.public}, options.data)
    weight = weight_of(options.public_weight)
    if options.averages:
        check_averages(as_loss(loss), given=options.public_losses is not None)
    people: Any = {"groups": options.groups, "n": options.n, "budget": options.budget}
    privatizer = (future_people if options.dry_run else privatizer_of)(options.ledger, options.data, **people)
    if not options.dry_run:
        check_earlier(privatizer.ledger, proposals.earlier, warn)
    most = at_least("candidates", options.candidates, 2)
    candidates, default = proposals.with_default(
        proposals.usual if options.default is None else options.default, most,
        trained=options.public_losses is None and not trainer.lasting,
    )  # fmt: skip
    if len(candidates) < 2:
        raise InputError(
            f"a choice needs two configurations or more; got {len(candidates)}. {proposals.excluded}"
            "One needs no private rows. Nothing was charged."
        )
    like = options.public[0] if isinstance(options.data, Places) and options.public else None
    recipe = AskLoss(loss, functools.partial(as_it_is, trainer.inputs), like)
    searched = None if proposals.name is None else f"{proposals.name} (choice)"
    name = searched if options.name is None else options.name
    proposed = digest_of(candidates, default, loss)
    facts = {"averages": options.averages, **proposals.told}
    about = _about(candidates, default, proposed, facts)
    rerun = check_affordable(privatizer.ledger, name, options.mu, about)
    asks = None if options.dry_run else asker_of(recipe, options.data, privatizer.rows, trains=not rerun)
    given = _given_losses(options.public_losses, proposals.searched, candidates)
    known = KeptLosses(privatizer.ledger, as_loss(loss), None if asks is None else trainer.evidence(candidates))
    evaluated, twice, again = (given, 0, given[0]) if given is not None else known.evaluated(
        len(candidates), default or 0, lambda places: trainer.losses([candidates[j] for j in places]), say
    )  # fmt: skip
    *losses, again = as_losses([*evaluated, again], as_loss(loss))
    refuse_unseeded(losses[twice], again)
    places, default = without_twins(candidates, losses, default)
    candidates, losses = [candidates[j] for j in places], [losses[j] for j in places]
    evaluated = [evaluated[j] for j in places]
    public, default = _matrix(losses, default, warn, needed=options.default is not None)
    singles, about = public, _about(candidates, default, proposed, facts)  # without a default that failed
    groups: list[Group] = [{j: 1.0} for j in range(len(candidates))]
    if options.averages:
        public, groups = with_averages(public, evaluated, default, as_loss(loss), weight)
        default = None if default is None else 0
    found = hashlib.sha256(proposed.encode() + rounded(public)).hexdigest()[:12]
    settings: Any = {setting: getattr(options, setting) for setting in SETTINGS}
    name = name or f"{proposals.kind} {found}"
    choice = dptune.PublicChoice(
        public, privatizer, name=name, default_place=default, loss=loss, about=about, prevalence=_prevalence(options),
        **settings,
    )  # fmt: skip
    if options.averages and choice.to_train:
        say(averages_in_words(singles, public))
    if choice.to_train or asks is None:
        average = not options.averages and have_average(as_loss(loss))
        plan = in_front(choice.outlook, average=average, unread=asks is None and callable(options.data))
        say(f"{proposals.excluded}{plan}")
        if asks is None:
            return Choice({}, None, None, name, outlook=plan)
    else:
        say(proposals.excluded + choice.announcement)
    finalists = Finalists(
        lambda places: trainer.models([candidates[j] for j in places]),
        groups, as_loss(loss), lasting=trainer.lasting,
    )  # fmt: skip
    try:
        selection = choice.choose_each(finalists.asked(choice.to_train, asks.losses))
    finally:
        finalists.warn_of_failures(warn)
    model = finalists.model(selection.index)
    if isinstance(model, Exception):
        raise model
    params = parameters_of(groups[selection.index], [each.parameters for each in candidates])
    ledger = privatizer.ledger
    day = (ledger.span(name) or ("",))[0][:10]
    kept = {"ledger": ledger.dataset, "identity": ledger.identity, "charged": day, "mark": ledger.mark()}
    return Choice(params, selection, model, name, left_in_words(ledger), kept)


def not_candidates(searched: int, counts: Mapping[str, int]) -> str:
    """Return a sentence on the trials that are not candidates, and a space; "" if all are candidates.

    Args:
        counts: what happened to trials, such as "failed", and to how many.
    """
    said = ", ".join(f"{count} {what}" for what, count in counts.items() if count)
    return f"Of {searched} trials {said} and are not candidates. " if said else ""


def _about(candidates: Sequence[Candidate], default: int | None, proposed: str, told: Mapping[str, Any]) -> Meaning:
    usual = None if default is None else numeric_key(candidates[default].parameters)
    return Meaning({"configurations": proposed, "default configuration": usual}, told)


def _prevalence(options: ChoiceOptions) -> float | None:
    """Return the share of the second of two public labels, if a report's budget is kept and labels are known."""
    if options.report_share is None or options.public is None or not as_loss(options.loss).uses_labels:
        return None
    _, counts = np.unique(np.asarray(options.public[1]), return_counts=True)
    return float(counts[1] / counts.sum()) if len(counts) == 2 else None


def _given_losses(
    losses: npt.ArrayLike | None, searched: int, candidates: Sequence[Candidate]
) -> list[npt.NDArray[np.float64]] | None:
    """Return the candidates' rows of ``public_losses=``; None if it was not given."""
    if losses is None:
        return None
    matrix = attempt(functools.partial(np.asarray, dtype=np.float64), losses, failed=np.empty(0))
    rows = [each.row for each in candidates if each.row is not None]
    if matrix.ndim != 2 or len(matrix) != searched or len(rows) < len(candidates):
        raise InputError(
            f"public_losses= must be ({searched}, N), one row for each configuration that was searched, the default= "
            f"among them; got {kind(losses)}. Nothing was charged."
        )
    return [matrix[row] for row in rows]


def _matrix(
    evaluated: Sequence[Any], default: int | None, warn: Say, *, needed: bool
) -> tuple[npt.NDArray[np.float64], int | None]:
    """Return the public losses (m, N), NaN in the rows of candidates that failed, and the default's place.

    A default that is ``needed`` must not fail; if another default failed, there is no comparison.
    """
    failed = {place: each for place, each in enumerate(evaluated) if isinstance(each, Exception)}
    if default in failed and needed:
        saved = not isinstance(failed[default], NoCheckpoint)
        what = "the default= failed on public rows" if saved else "no trial with a checkpoint has the default="
        raise InputError(f"{what}. Nothing was charged. {told(failed[default])}")
    why = failures(list(failed.values()), len(evaluated))
    if len(evaluated) - len(failed) < 2:
        raise InputError(f"a choice needs two configurations or more. Nothing was charged. {why}")
    if default in failed:
        default = None
        warn(
            "What is searched failed as it was given, so the choice is compared with nothing. Give default=, the "
            "parameters that you use today."
        )
    if failed:
        warn(why)
    rows = {len(np.asarray(each)) for place, each in enumerate(evaluated) if place not in failed}
    if len(rows) > 1:
        raise InputError(
            f"the configurations have public losses of {sorted(rows)} rows; all must be of the same rows. "
            "Nothing was charged."
        )
    public = np.full((len(evaluated), rows.pop()), np.nan)
    for place, each in enumerate(evaluated):
        if place not in failed:
            public[place] = each
    return public, default
