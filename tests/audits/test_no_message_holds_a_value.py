"""No message quotes an argument: errors, logs, warnings and streams name only types, shapes and settings.

A table lists how each public function is called. Each of its arguments in turn is replaced by each container of
`marked_values`. An argument of private data is also replaced by numbers and texts, which are not quoted either.
"""

import importlib
import inspect
import re
import tempfile
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

import dptune
from every_logger import every_logger, without_clocks
from marked_values import SEEN, everything, few, scalars, words_of
from public_functions import Case, N, cases

ROOT = Path(__file__).parents[2]


def odd_values(case: Case, argument: str, made: dict[str, Any]) -> dict[str, Any]:
    """What is put into an argument: into a private one also numbers and texts, into a setting containers only."""
    if argument not in case.private.split():
        return few(N)
    return {**scalars(), **(few(N) if case.slow else made)}


def heard(call: Callable[[], object]) -> tuple[BaseException | None, str]:
    """What is raised, and all that it and warnings say."""
    raised: BaseException | None = None
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            call()
        except BaseException as error:  # noqa: BLE001 - whatever is raised is shown
            raised = error
    return raised, "\n".join([words_of(raised), *(str(each.message) for each in warned)])


def names(error: BaseException, argument: str) -> bool:
    return re.search(rf"\b{argument}\b", str(error), re.IGNORECASE) is not None


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Case]]:
    with warnings.catch_warnings(action="ignore"):
        yield cases(tmp_path_factory.mktemp("marked"))


with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(action="ignore"):
    CASES = list(cases(Path(folder)))


@pytest.mark.parametrize("containers", [few, pytest.param(everything, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", CASES)
def test_no_error_log_warning_or_stream_quotes_what_was_given(
    table: dict[str, Case], name: str, containers: Callable[[int], dict[str, Any]], capfd: pytest.CaptureFixture[str]
) -> None:
    """Whatever is refused is refused by dptune, and a setting by its name."""
    case, leaks = table[name], []
    with warnings.catch_warnings(action="ignore"):
        if case.works:  # or the test would look at one refusal only
            case.call(**case.given)
    capfd.readouterr()
    with every_logger() as lines:
        for argument, what, value in (
            (a, what, value) for a in case.given for what, value in odd_values(case, a, containers(N)).items()
        ):
            lines.clear()
            raised, said = heard(partial(case.call, **{**case.given, argument: value}))
            text = "\n".join(without_clocks([said, *lines, *capfd.readouterr()], Path("/nowhere")))
            if not isinstance(raised, dptune.DptuneError | None):
                leaks.append(f"{argument}= {what}: not refused, but {raised!r}")
            elif raised and argument not in case.private.split() and not names(raised, argument):
                leaks.append(f"{argument}= {what}: is not named by {raised}")
            if found := SEEN.search(text):
                leaks.append(f"{argument}= {what}: {text[max(0, found.start() - 200) : found.end() + 50]!a}")
    if leaks:
        pytest.fail("\n".join(leaks), pytrace=False)


# ---- the table is whole --------------------------------------------------------------------------------------

ROOMS = sorted(".".join(path.parent.relative_to(ROOT).parts) for path in ROOT.glob("dptune/**/__init__.py"))
FRONTS = ["dptune_mlflow", "dptune_optuna", "dptune_ray", "dptune_sklearn"]
PRIVATE_WORDS = {"X_val", "by", "codes", "data", "groups", "like", "losses", "person_weights", "user", "y", "y_val"}
PUBLIC = """
    CentredSampler CentredSearch Charge DPFTSSampler DPFTSSearch DPGIBO DPGIBOSampler DPGIBOSearch AdaGradNorm
    FTSServer FTSSettings GIBOSettings HybridReplies InProcess InsecureHybrid InsecureRandomizer LDPATA
    LDPATASampler LDPATASearch LDPMoMA LDPMoMASampler LDPMoMASearch LDPRun LDPTGP LDPTGPSampler LDPTGPSearch
    LaplaceReplies MLflowCallback Method OutsourcedModeler OutsourcedModeler.tell POGPUCBSampler PlanLedger
    PrivateSampler PrivateSearcher PublicFacts Question RayTransport Released Report Risk RoundSettings Rounds
    Rounds.difference RunPlan SeededNoise Selection SpaceSearch Statement StopsEarly StopsEarly.fit
    SubsampledGaussian Tuning log_run quasi_random report_public join noise_multipliers main SelectionPlan
"""  # settings, released values and public rows only
ELSEWHERE = """
    Exchange.publish Federation RayPlace dptune_ray.choose dptune_ray.repeat_and_select
"""  # what needs a cluster of Ray, is called with what these already refuse, or reads after the charge


def exported() -> Iterator[str]:
    """Public functions and classes, and the methods of classes that have an argument of a private name."""
    seen: set[Any] = set()
    for room in map(importlib.import_module, [*ROOMS, *FRONTS]):
        for name in getattr(room, "__all__", ()):
            thing = getattr(room, name)
            if not isinstance(thing, type | FunctionType) or thing in seen or "search.gp" in thing.__module__:
                continue
            seen.add(thing)
            if not (isinstance(thing, type) and issubclass(thing, BaseException)):
                yield f"{room.__name__}.{name}"
            for method, function in vars(thing).items() if isinstance(thing, type) else ():
                names = inspect.signature(function).parameters if inspect.isfunction(function) else {}
                if method[0] != "_" and PRIVATE_WORDS & set(names):
                    yield f"{room.__name__}.{name}.{method}"


def test_every_public_function_is_in_the_table() -> None:
    called = {name.partition(":")[0] for name in CASES}
    called |= {name.rpartition(".")[0] for name in called}  # a class whose method is called
    others = {name: {name, re.sub(r"^[a-z_.]*\.", "", name)} for name in exported() if name not in called}
    known = {*PUBLIC.split(), *ELSEWHERE.split()}
    assert {name for name, words in others.items() if not known & words} == set()
    assert known - set().union(*others.values()) == set()
