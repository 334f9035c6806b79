"""kill -9 of the driver at five points of a run, then restore: what was paid stands, what was released is kept."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import ray
from ray import tune

from ray_harness import losses, open_ledger, open_privatizer, open_search, tuner

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("cluster")]
HERE = Path(__file__).parent
DRIVER = """
    import os, signal, sys
    from pathlib import Path
    import ray
    from dptune_ray import DPGIBOSearch
    from ray_harness import KillingPrivatizer, losses, open_privatizer, open_search, tuner

    folder, where, at = Path({folder!r}), {where!r}, {at}
    ray.init(address={address!r}, log_to_driver=False)

    def dying(method):
        count = 0
        def call(self, *args, **kwargs):
            nonlocal count
            count += 1
            if count == at:
                os.kill(os.getpid(), signal.SIGKILL)
            return method(self, *args, **kwargs)
        return call

    privatizer = open_privatizer(folder)
    if where == "suggest":
        DPGIBOSearch.suggest = dying(DPGIBOSearch.suggest)
    elif where == "on_trial_complete":
        DPGIBOSearch.on_trial_complete = dying(DPGIBOSearch.on_trial_complete)
    else:
        privatizer = open_privatizer(folder, kind=KillingPrivatizer)
        privatizer.where, privatizer.at, privatizer.pid = where, at, os.getpid()
        privatizer.armed = str(folder / "armed")
        Path(privatizer.armed).touch()
    search = open_search(privatizer)
    tuner(search.trainable(losses), search, folder, max_concurrent_trials={limit}).fit()
"""


@pytest.mark.parametrize(
    ("where", "at", "limit"),
    [
        ("suggest", 6, 2),
        ("between charge and draw", 2, None),
        ("between read and record", 6, 2),
        ("after record", 5, None),
        ("on_trial_complete", 7, 2),
    ],
)
def test_after_kill_9_of_the_driver_the_restored_run_finishes_within_its_budget(fast_path, where, at, limit):
    code = textwrap.dedent(DRIVER).format(
        folder=str(fast_path), where=where, at=at, limit=limit, address=ray.get_runtime_context().gcs_address
    )
    killed = subprocess.run([sys.executable, "-c", code], capture_output=True, env=os.environ, timeout=120)
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()[-2000:]
    before = open_ledger(fast_path).charges()
    assert before
    assert [c.value for c in before].count(None) == where.startswith("between")

    search = open_search(open_privatizer(fast_path))
    trainable, experiment = search.trainable(losses), str(fast_path / "experiment")
    if tune.Tuner.can_restore(experiment):
        results = tune.Tuner.restore(experiment, trainable, resume_unfinished=True, restart_errored=True).fit()
    else:
        results = tuner(trainable, search, fast_path).fit()

    ledger = open_ledger(fast_path)
    after = ledger.charges()
    for old, new in zip(before, after, strict=False):
        assert (new.seq, new.key, new.mu) == (old.seq, old.key, old.mu)
        assert old.value is None or new.value == old.value
    released = [c for c in after if c.value is not None]
    assert ledger.spent() <= 1.0
    assert search.progress()["steps_done"] == search.progress()["steps"]
    reported = {r.metrics["loss"] for r in results if r.metrics and r.metrics["loss"] == r.metrics["loss"]}
    assert reported <= {c.value[0] for c in released if c.key.startswith("value/")}
    assert search.recommend()
