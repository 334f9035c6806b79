"""Phones tune two public settings through Optuna: a trial is one phone's epsilon=1 reply. Stop it and run it again."""

import sys

import numpy as np
import optuna
from optuna.distributions import FloatDistribution, IntDistribution

import dptune
from dptune_optuna import LDPTGPSampler

folder, phones = sys.argv[1] if len(sys.argv) > 1 else ".", 300
taste = np.random.default_rng(0).normal(0.62, 0.1, phones)  # private: the brightness each user likes best
space = {"brightness": FloatDistribution(0, 1), "refresh": IntDistribution(1, 60, log=True)}


def satisfaction(phone, brightness, refresh):
    """Private, measured on the phone: between 0 and 10."""
    return 10 - 20 * abs(brightness - taste[phone]) - 4 * abs(np.log10(refresh / 8))


def on_the_phone(phone, params):
    """Measure, clamp, add noise: the only function that sees the user's value."""
    return randomizer.randomize(satisfaction(phone, **params))


randomizer = dptune.local.HybridRandomizer(epsilon=1.0, bound=(0.0, 10.0), invalid=0.0)  # public; a failure counts as 0
replies = dptune.local.HybridReplies(epsilon=1.0, B=4.0, R=1.0)  # B + R is half of the interval, 5 its centre
sampler = LDPTGPSampler(dptune.local.LDPSettings(replies, horizon=phones, exploration=0.1), space, centre=5.0)
optuna.logging.set_verbosity(optuna.logging.WARNING)
storage = f"sqlite:///{folder}/phones.db"
study = optuna.create_study(
    storage=storage, study_name="phones", sampler=sampler, direction="maximize", load_if_exists=True
)
for phone in range(len(study.get_trials(deepcopy=False)), phones):
    trial = study.ask(space)  # the curator: public parameters
    study.tell(trial, on_the_phone(phone, trial.params))  # all that leaves the phone
best = sampler.recommend(study)
print("recommended:", best, f"mean satisfaction {np.mean([satisfaction(i, **best) for i in range(phones)]):.2f} of 10")
print("each phone replied once and has paid epsilon=1")
