"""The samplers pass Optuna's own conformance suite, unmodified."""

import pytest
from optuna.testing.pytest_samplers import BasicSamplerTestCase, RelativeSamplerTestCase, SingleOnlySamplerTestCase
from test_dpfts_sampler import SETTINGS, Silent

import dptune
from dptune_optuna import CentredSampler, DPFTSSampler, DPGIBOSampler, LDPTGPSampler
from harness import SPACE, open_privatizer

# The suite's objectives are ordinary ones: their values are public, and the sampler warns of each.
pytestmark = pytest.mark.filterwarnings("ignore::dptune_optuna.sampler.UnprotectedValueWarning")
REPLIES = dptune.local.LDPSettings(dptune.local.LaplaceReplies(1.0, B=1.0, R=0.5), plays=2)
COMMON = {f"common {name}": distribution for name, distribution in SPACE.items()}  # what the suite does not suggest


def private(kind):
    return lambda folder: kind(privatizer=open_privatizer(folder), seed=0, unprotected="allow")


MADE = {
    "DP-GIBO": private(DPGIBOSampler),
    "centred": private(CentredSampler),
    "TGP": lambda folder: LDPTGPSampler(settings=REPLIES, seed=0),  # ATA and MoMA differ in the algorithm only
    "DP-FTS": lambda folder: DPFTSSampler(Silent(), SETTINGS, COMMON, agent=0, seed=0),
}


@pytest.mark.parametrize("name", MADE)
class TestSampler(BasicSamplerTestCase, RelativeSamplerTestCase, SingleOnlySamplerTestCase):
    @pytest.fixture
    def sampler(self, name, tmp_path):
        return lambda: MADE[name](tmp_path)
