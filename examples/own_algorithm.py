"""A private search of your own, in one class: random points, compared by centred releases, in Optuna and in Ray."""

import sys

import numpy as np
import optuna
from ray.tune import TuneConfig, Tuner, uniform

from dptune import Budget, LossPrivatizer, PrivacyLedger
from dptune.privacy import Ball, MeanQuery, Question
from dptune.search import Method, Rounds, RoundSettings, RunPlan
from dptune.search.gp.grouped import Group, GroupedRegression
from dptune_optuna import PrivateSampler
from dptune_ray import SpaceSearch


class RandomPoints(Rounds):  # holds points and released answers, never a loss
    def __init__(self, settings):
        super().__init__(settings)
        self.answers, self.surface = [], GroupedRegression(settings.d)

    def ask(self, slot):
        return np.random.default_rng([self.settings.seed, self.t, slot]).random(self.settings.d)

    def next_question(self):  # by how much does the mean loss at each point differ from their average?
        names, centring, clip = self.waiting(), np.eye(self.batch) - 1 / self.batch, Ball(self.settings.clip)
        query = MeanQuery(names, centring, clip, self.settings.round_mu)
        return Question(f"round/{self.t + 1}", query, {"points": self.points_at(names).tolist()})

    def learn(self, key, note, answer, sigma, *, own):
        self.used_up(own=own, forget=True)
        if answer is not None:
            self.answers.append(Group(np.array(note["points"]), answer, sigma))
            self.surface.fit(self.answers)

    def recommend(self):  # a minimum of a smooth surface through all answers, not the luckiest point
        return self.surface.minimiser(np.full(self.settings.d, 0.5), reach=0.5)


def plan(facts, *, trials, batch=6):  # mu^2: .85 for rounds, a tenth for values, the rest for a final estimate
    clip = 0.4 * facts.loss_range
    settings = RoundSettings(facts.d, trials // batch, batch, facts.mu * 0.85**0.5, clip, seed=facts.seed)
    return RunPlan("random", facts.mu, settings, settings.rounds * batch, 0.1, final_share=0.05, spare=2 * batch)


def losses(config):  # private: how far each of 500 people is from what they would like
    return ((np.random.default_rng(0).normal(0.3, 0.1, (500, 2)) - [config["a"], config["b"]]) ** 2).mean(axis=1)


own = Method("random", plan, RandomPoints, shared_slots=True)  # all that a front end needs to know
privatizer = LossPrivatizer(PrivacyLedger(f"{[*sys.argv, '.'][1]}/own.db", Budget.gdp(mu=2.0)), n=500, clip=(0.0, 1.0))
if "ray" in sys.argv:
    search = SpaceSearch(privatizer, {x: uniform(0, 1) for x in "ab"}, method=own, n_trials=48, mode="min")
    Tuner(search.trainable(losses), tune_config=TuneConfig(search_alg=search, num_samples=48, reuse_actors=True)).fit()
    print(search.recommend())
else:
    sampler = PrivateSampler(privatizer, method=own, n_trials=48)
    study = optuna.create_study(sampler=sampler)
    study.optimize(sampler.objective(lambda t: losses({x: t.suggest_float(x, 0, 1) for x in "ab"})), n_trials=48)
    print(sampler.recommend(study))
print(privatizer.ledger.statement(delta=1e-5))
