"""The curator's half of local privacy: bandits that learn from noisy replies.

Example::

    randomizer = HybridRandomizer(1.0, (0.0, 1.0), invalid=0.0)               # on every user's device
    settings = LDPSettings(HybridReplies(epsilon=1.0, B=0.4, R=0.1), horizon=10_000)
    run = LDPRun(LDPTGP, space, settings, maximize=True, centre=0.5)          # at the curator
    for number, user in enumerate(users):
        parameters = run.ask()
        run.tell(number, parameters, randomizer.randomize(user.measure(parameters)))
    run.recommend()

Guarantee: the curator sees privatised replies only. :class:`dptune.local.HybridRandomizer` on the user's device makes
each reply epsilon-LDP, without a trusted party.
"""
