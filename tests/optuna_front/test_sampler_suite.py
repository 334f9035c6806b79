"""Optuna's own conformance suite for samplers, unmodified."""

from __future__ import annotations

from collections.abc import Callable

import optuna
import pytest
from optuna.testing.pytest_samplers import BasicSamplerTestCase, RelativeSamplerTestCase, SingleOnlySamplerTestCase

import dptune
from dptune_optuna import CentredCMASampler, DPGIBOSampler, LDPATASampler, LDPMoMASampler, LDPTGPSampler
from dptune_optuna.local import LDPSampler

# The suite's objectives are ordinary ones: their values are public, and the sampler warns of each.
pytestmark = pytest.mark.filterwarnings("ignore::dptune_optuna.UnprotectedValueWarning")


class TestDPGIBOSampler(BasicSamplerTestCase, RelativeSamplerTestCase, SingleOnlySamplerTestCase):
    @pytest.fixture
    def sampler(self, tmp_path) -> Callable[[], optuna.samplers.BaseSampler]:
        ledger = dptune.PrivacyLedger(tmp_path / "ledger.db", dptune.Budget.gdp(mu=1.0))
        privatizer = dptune.LossPrivatizer(ledger, n=100, clip=(0.0, 1.0))
        return lambda: DPGIBOSampler(privatizer=privatizer, seed=0, unprotected="allow")


class TestCentredCMASampler(BasicSamplerTestCase, RelativeSamplerTestCase, SingleOnlySamplerTestCase):
    @pytest.fixture
    def sampler(self, tmp_path) -> Callable[[], optuna.samplers.BaseSampler]:
        ledger = dptune.PrivacyLedger(tmp_path / "ledger.db", dptune.Budget.gdp(mu=1.0))
        privatizer = dptune.LossPrivatizer(ledger, n=100, clip=(0.0, 1.0))
        return lambda: CentredCMASampler(privatizer=privatizer, seed=0, unprotected="allow")


SETTINGS = dptune.bandits.LDPSettings(dptune.bandits.LaplaceReplies(1.0, B=1.0, R=0.5), plays=2)


class _LDPSuite(BasicSamplerTestCase, RelativeSamplerTestCase, SingleOnlySamplerTestCase):
    kind: type[LDPSampler]

    @pytest.fixture
    def sampler(self) -> Callable[[], optuna.samplers.BaseSampler]:
        return lambda: self.kind(settings=SETTINGS, seed=0)


class TestLDPTGPSampler(_LDPSuite):
    kind = LDPTGPSampler


class TestLDPATASampler(_LDPSuite):
    kind = LDPATASampler


class TestLDPMoMASampler(_LDPSuite):
    kind = LDPMoMASampler
