"""No raw value is in a file of a Tune run, on the console, in Ray's session logs or in its object stores.

The private values are markers: a secret that the user's code puts into exceptions, output and the configuration, and
losses of every trial. The test looks for them as text of eight digits, as float64 and in hexadecimal.
"""

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import ray
from ray import tune
from ray.tune import TuneError

from by_hand import open_private
from ray_harness import folder_bytes, found, object_store_bytes, open_centred, open_privatizer, tuner, wait_until
from ray_people import BIG, SECRET, N, big_losses, losses_of_others, refused, talking

pytestmark = [pytest.mark.ray, pytest.mark.slow]


def markers(configs):
    rows = [big_losses(c) for c in configs]
    means = [mean for row in rows for mean in (row.mean(), np.clip(row, 0, 4).mean())]
    return [SECRET, *(float(v) for row in rows for v in row[1:10]), *map(float, means)]


@pytest.mark.parametrize(("function", "n", "samples"), [(talking, BIG, 8), (refused, N, 4)])
def test_no_private_value_leaves_the_vault(cluster, fast_path, capfd, function, n, samples):
    privatizer = open_privatizer(fast_path, n=n, dtype=np.float64)
    search = open_centred(privatizer, n_trials=8)
    at_end = {"checkpoint_config": tune.CheckpointConfig(checkpoint_at_end=True), "verbose": 2}
    at_end["log_to_file"] = function is not refused  # trials of an actor that is used again reopen the files
    begun = tuner(search.trainable(function), search, fast_path, num_samples=samples, run=at_end)
    if function is refused:  # what is the same for all trials ends the experiment at the first
        with pytest.raises(TuneError, match=f"expected {N} per-example losses"):
            begun.fit()
        results: Any = ()
        assert privatizer.ledger.charges() == []
    else:
        results = begun.fit()
        assert results.num_errors == 0
        assert search.vault_run().begin().complete
        assert len({r.metrics["loss"] for r in results}) > 4  # the second generation's know of the first
        assert len({r.config["x"] < 0 for r in results}) == 2  # some have failed
    time.sleep(2)  # late threads, log rotation
    values = markers([{k: r.config[k] for k in ("x", "y")} for r in results])
    console = "".join(capfd.readouterr()).encode()
    assert b"Trial" in console
    assert found(values, [("console", console)]) == []
    files = [*folder_bytes(fast_path, cluster)]
    names = {Path(name).name for name, _ in files}
    assert names >= {"tuner.pkl", "ledger.db", "raylet.out", "params.json"} | (
        {"error.txt"} if function is refused else {"result.json", "progress.csv", "_dict_checkpoint.pkl"}
    )
    assert found(values, files) == []
    events = [content for name, content in files if "events.out.tfevents" in name]  # scalars in float32
    assert events
    assert not [value for value in (SECRET, *values[-1:]) for e in events if np.float32(value).tobytes() in e]
    stores = [*object_store_bytes()]
    assert len({name.split(":")[0] for name, _ in stores}) > 1  # the driver's and others' view of it
    assert found(values, stores) == []


def test_the_scan_finds_what_an_ordinary_trainable_leaks(cluster, fast_path):
    def ordinary(config):
        print("raw", SECRET, flush=True)
        tune.report({"loss": float(losses_of_others(config).mean())})

    search = open_private(open_privatizer(fast_path), n_trials=2, unprotected="allow")
    results = tuner(ordinary, search, fast_path, num_samples=1).fit()
    wait_until(lambda: found([SECRET], folder_bytes(cluster / "logs")))
    assert found([float(losses_of_others(results[0].config).mean())], folder_bytes(fast_path))
    reference = ray.put(np.full(BIG, SECRET))
    assert found([SECRET], object_store_bytes())
    del reference
