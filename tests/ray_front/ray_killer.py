"""A privatizer that kills its process. A vault imports this module, so it needs only dptune."""

import os
import signal
import time
from typing import Any

import numpy as np

import dptune
from dptune.privacy.mechanism import GaussianMechanism, Mechanism
from dptune.privacy.noise import NoiseSource


class KillingPrivatizer(dptune.LossPrivatizer):
    """Kills the driver at one stage of a release, once, and waits there until Ray ends its own process too."""

    where = ""
    at = 0
    pid = 0
    armed = ""  # a file that exists until the kill

    _releases = _draws = 0

    def _strike(self, where: str, count: int) -> None:
        if where == self.where and count == self.at and os.path.exists(self.armed):
            os.unlink(self.armed)
            os.kill(self.pid, signal.SIGKILL)
            time.sleep(600)

    def release(
        self, query: dptune.privacy.MeanQuery, *, mechanism: Any = GaussianMechanism, **where: Any
    ) -> dptune.Released:
        def struck(noise: NoiseSource) -> Mechanism:
            usual = mechanism(noise)
            draw = usual.draw

            def struck_draw(mean: np.ndarray, scale: float) -> np.ndarray:
                self._draws += 1
                self._strike("between charge and draw", self._draws)
                drawn = draw(mean, scale)
                self._strike("between read and record", self._draws)
                return drawn

            usual.draw = struck_draw
            return usual

        released = super().release(query, **where, mechanism=struck)
        self._releases += 1
        self._strike("after record", self._releases)
        return released
