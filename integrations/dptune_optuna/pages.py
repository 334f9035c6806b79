"""What Optuna's pages show of a study: what its values are, the noise beside each, a note with budget and answer.

Everything here is a function of released values and public facts, written to the study's storage, where plots, data
frames and optuna-dashboard find it.
"""

from __future__ import annotations

from inspect import unwrap

import optuna
from optuna.trial import Trial

from dptune.search.recommendation import listed
from dptune.search.run import SearchRun

ATTRIBUTE = "dptune:"  # begins the name of every user attribute that is written here: released facts only
MARK = ATTRIBUTE + "ledger"  # of a study: which ledger paid for it, and up to which charge
VALUE_IS = ATTRIBUTE + "value_is"  # of a study: what a trial's value is
SIGMA = ATTRIBUTE + "sigma"  # of a trial: the standard deviation in its value
_BAR = 30  # cells of the bar of the budget
_TITLE = "## Private search"
_NOTE, _PART = (
    "dashboard:note_",
    2045,
)  # where optuna-dashboard keeps a study's note (save_note), in parts of this length


def show(study: optuna.Study, run: SearchRun, loss: str) -> None:
    """Write what has changed to the study, one short attribute for each fact: dashboards cut long ones off."""
    stored, progress = study.user_attrs, run.progress()
    facts = {ATTRIBUTE + fact: value for fact, value in progress.items()}
    for name, value in {**facts, VALUE_IS: run.value_is(loss), MARK: run.ledger.mark()}.items():
        if name not in stored or stored[name] != value:
            study.set_user_attr(name, value)
            if name == VALUE_IS and study.metric_names is None:
                unwrap(optuna.Study.set_metric_names)(study, [str(value)])
    _write_note(study, note(run, progress, run.value_is(loss)))


def show_sigma(trial: Trial, run: SearchRun) -> None:
    """Write the standard deviation in the trial's value beside it, if anything was released about it."""
    sigma = run.sigma(str(trial.number), trial.params)
    if sigma is not None:
        trial.set_user_attr(SIGMA, sigma)


def note(run: SearchRun, progress: dict[str, object], value_is: str) -> str:
    """Return what a study's note says, in Markdown: the budget as a bar, what a value is, the recommendation."""
    spent, budget = (float(str(progress[name])) for name in ("mu_spent", "mu_budget"))
    share = min((spent / budget) ** 2, 1.0)  # squares add up
    bar = "█" * round(_BAR * share) + "░" * (_BAR - round(_BAR * share))
    lines = [
        f"{_TITLE}: {run.method.name}" + ("" if progress["private"] else " — NOT PRIVATE, its noise is seeded"),
        f"**Budget of the ledger** `{bar}` {100 * share:.0f}%: mu = {spent:.3g} of {budget:.3g} is spent",
        f"**A trial's value** is the {value_is}; `inf` as long as nothing is released about it. `{SIGMA}` is its "
        "standard deviation. The smallest value is small mostly by its noise: it is not the recommendation.",
        f"**Trials** {run.trials} planned, {progress['trials_failed']} failed in the process that wrote this",
        f"**Recommended** {_recommended(run, progress)}",
    ]
    return "\n\n".join(lines)


def _recommended(run: SearchRun, progress: dict[str, object]) -> str:
    if run.plan.monitor_mu > 0 and not run.complete:  # a model of all values, at every trial, would take too long
        known = progress.get("recommended")
        so_far = f"so far: {listed(known, '`')}; how sure that is" if isinstance(known, dict) else "so far:"
        return f"{so_far} `dptune watch` works out from the ledger"
    found = run.so_far()
    if found is None:
        return "when something is released that says where to look"
    return f"{'' if run.complete else 'so far: '}{listed(found, '`')}\n\n{found.summary()}"


def _write_note(study: optuna.Study, text: str) -> None:
    """Write the study's note for optuna-dashboard, which need not be installed; a note of the user's stays."""
    storage, identity = study._storage, study._study_id
    stored = storage.get_study_system_attrs(identity)
    parts = {key: part for key, part in stored.items() if key.startswith(f"{_NOTE}str:")}
    before = "".join(str(parts[f"{_NOTE}str:{i}"]) for i in range(len(parts)))
    if before == text or (before and not before.startswith(_TITLE)):
        return
    new = {f"{_NOTE}str:{i}": text[i * _PART : (i + 1) * _PART] for i in range(-(-len(text) // _PART))}
    version = {f"{_NOTE}ver": stored.get(f"{_NOTE}ver", 0) + 1}
    for key, part in {**version, **dict.fromkeys(parts, ""), **new}.items():
        storage.set_study_system_attr(identity, key, part)
