"""After SIGKILL of the driver at five points of a run, a restored run keeps its charges and releases."""

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import ray
from ray import tune

from dptune_ray.vault import REPORTED
from ray_harness import open_centred, open_ledger, open_privatizer, open_search, tuner
from ray_people import losses

pytestmark = [pytest.mark.slow, pytest.mark.ray, pytest.mark.usefixtures("cluster")]
HERE = Path(__file__).parent
DRIVER = """
    import os, signal, sys
    from pathlib import Path
    import ray
    from dptune_ray import SpaceSearch
    from ray_harness import open_privatizer, {opened} as opened, tuner
    from ray_people import losses
    from ray_killer import KillingPrivatizer

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
        SpaceSearch.suggest = dying(SpaceSearch.suggest)
    elif where == "on_trial_complete":
        SpaceSearch.on_trial_complete = dying(SpaceSearch.on_trial_complete)
    else:
        privatizer = open_privatizer(folder, kind=KillingPrivatizer)
        privatizer.where, privatizer.at, privatizer.pid = where, at, os.getpid()
        privatizer.armed = str(folder / "armed")
        Path(privatizer.armed).touch()
    search = opened(privatizer, n_trials=8)
    tuner(search.trainable(losses), search, folder, max_concurrent_trials={limit}).fit()
"""


@pytest.mark.parametrize(
    ("opened", "where", "at", "limit"),
    [
        (open_search, "between charge and draw", 2, None),
        (open_search, "suggest", 6, 2),
        (open_search, "after record", 5, None),
        (open_centred, "between read and record", 1, None),
        (open_centred, "on_trial_complete", 7, 2),
    ],
)
def test_after_the_driver_is_killed_a_restored_run_stays_within_its_budget(fast_path, opened, where, at, limit):
    address = ray.get_runtime_context().gcs_address
    code = textwrap.dedent(DRIVER).format(
        folder=str(fast_path), opened=opened.__name__, where=where, at=at, limit=limit, address=address
    )
    killed = subprocess.run([sys.executable, "-c", code], capture_output=True, env=os.environ, timeout=900)
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()[-2000:]
    before = open_ledger(fast_path).charges()
    assert before
    assert [c.value for c in before].count(None) == where.startswith("between")

    search = opened(open_privatizer(fast_path), n_trials=8)
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
    assert search.vault_run().begin().complete
    reported = {r.metrics["trial_id"]: r for r in results if r.metrics and r.metrics["loss"] == r.metrics["loss"]}
    assert reported
    if opened is open_search:
        assert {r.metrics["loss"] for r in reported.values()} <= {c.value[0] for c in released if c.key[:6] == "value/"}
    else:
        told = {trial: float(ledger.fact("run", REPORTED + trial)["value"]) for trial in reported}
        assert {trial: r.metrics["loss"] for trial, r in reported.items()} == told
    assert search.recommend()
