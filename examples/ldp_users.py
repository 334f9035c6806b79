"""A population of phones tunes one public setting: each phone tries it once and sends one epsilon=1 reply."""

import sys
from pathlib import Path

import numpy as np

from dptune.local import CapReached, HybridRandomizer, UserLedger
from dptune.local.bandits.bandit import LDPSettings
from dptune.local.bandits.replies import HybridReplies
from dptune.local.bandits.tgp import LDPTGP
from dptune.search.gp.kernels import RBF

folder, phones = Path(sys.argv[1] if len(sys.argv) > 1 else "."), 20_000
taste = np.random.default_rng(0).normal(0.62, 0.1, phones + 1)  # private: the brightness each user likes best


def satisfaction(phone: int, brightness: float) -> float:
    """Private, measured on the phone: between -1 and 1."""
    return float(1 - 4 * abs(brightness - taste[phone]))


randomizer = HybridRandomizer(epsilon=1.0, bound=1.0, invalid=-1.0)  # on each phone: clamp to [-1, 1], draw a reply
candidates = np.linspace(0, 1, 51)[:, None]  # public: brightness of the screen
curator = LDPTGP(candidates, LDPSettings(HybridReplies(1.0, B=0.8, R=0.2), RBF(0.2), horizon=phones))
for phone in range(phones):  # each is asked once, so epsilon=1 is all that it pays
    j = curator.ask()
    curator.tell(j, randomizer.randomize(satisfaction(phone, float(candidates[j, 0]))))  # all that leaves the phone
average = [np.clip(1 - 4 * np.abs(x - taste[:phones]), -1, 1).mean() for x in candidates[:, 0]]
print(f"recommended brightness {candidates[curator.recommend(), 0]:.2f}, best {candidates[np.argmax(average), 0]:.2f}")

ledger, me = UserLedger(folder / "phone.db", cap=2.0), phones  # one more phone with a record of its own: two replies
for reply in ("Monday", "Tuesday", "Wednesday"):
    try:
        sent = ledger.reply(randomizer, lambda: satisfaction(me, 0.5), user="me", key=reply)
        print(f"{reply}: sent {sent:+.2f}, spent epsilon={ledger.spent('me'):g}")
    except CapReached as refused:
        print(f"{reply}: refused. {refused}")
