"""Optuna's own conformance suite for samplers, unmodified."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from optuna.samplers import BaseSampler
from optuna.testing.pytest_samplers import BasicSamplerTestCase, RelativeSamplerTestCase, SingleOnlySamplerTestCase

import dptune
from dptune_optuna import CentredSampler, DPFTSSampler, DPGIBOSampler, LDPATASampler, LDPMoMASampler, LDPTGPSampler
from harness import SPACE, open_privatizer
from test_dpfts_sampler import SETTINGS, Silent

# The suite's objectives are ordinary ones: their values are public, and the sampler warns of each.
pytestmark = pytest.mark.filterwarnings("ignore::dptune_optuna.UnprotectedValueWarning")
REPLIES = dptune.local.LDPSettings(dptune.local.LaplaceReplies(1.0, B=1.0, R=0.5), plays=2)
COMMON = {f"common {name}": distribution for name, distribution in SPACE.items()}  # what the suite does not suggest


def private(kind: type) -> Callable[[Path], BaseSampler]:
    return lambda folder: kind(privatizer=open_privatizer(folder), seed=0, unprotected="allow")


def local(kind: type) -> Callable[[Path], BaseSampler]:
    return lambda folder: kind(settings=REPLIES, seed=0)


MADE = {
    "DP-GIBO": private(DPGIBOSampler),
    "centred": private(CentredSampler),
    "TGP": local(LDPTGPSampler),
    "ATA": local(LDPATASampler),
    "MoMA": local(LDPMoMASampler),
    "DP-FTS": lambda folder: DPFTSSampler(Silent(), SETTINGS, COMMON, agent=0, seed=0),
}


ALIKE = ("ATA", "MoMA")  # TGP in all but the algorithm


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in ALIKE else name for name in MADE]
)
class TestSampler(BasicSamplerTestCase, RelativeSamplerTestCase, SingleOnlySamplerTestCase):
    @pytest.fixture
    def sampler(self, name: str, tmp_path: Path) -> Callable[[], BaseSampler]:
        return lambda: MADE[name](tmp_path)
