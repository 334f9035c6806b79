"""A small private problem for Ray Tune, its searches, and a search for private values in files."""

import contextlib
import os
import re
import time
from pathlib import Path

import numpy as np
import optuna
from ray import tune
from ray.tune.search import ConcurrencyLimiter
from ray.tune.search.optuna import OptunaSearch

import dptune
from dptune_ray import CentredSearch, DPGIBOSearch
from ray_people import N

SPACE = {"x": tune.uniform(-1.0, 1.0), "y": tune.loguniform(1e-3, 1e1)}


def open_ledger(folder, mu=1.0):
    return dptune.PrivacyLedger(folder / "ledger.db", dptune.Budget.gdp(mu=mu))


def open_privatizer(folder, *, mu=1.0, kind=dptune.LossPrivatizer, n=N, dtype=np.float32, clip=(0.0, 4.0), **sources):
    return kind(open_ledger(folder, mu), n=n, clip=clip, dtype=dtype, **sources)


def open_search(privatizer, kind=DPGIBOSearch, param_space=SPACE, **settings):
    return kind(privatizer, param_space, **{"n_trials": 12, "seed": 1, "name": "run", **settings})


def open_centred(privatizer, **settings):
    return open_search(privatizer, CentredSearch, **settings)


def random_search(seed=0):
    """Return a searcher that draws every parameter independently."""
    return OptunaSearch(sampler=optuna.samplers.RandomSampler(seed=seed))


def tuner(trainable, search, folder, **settings):
    """Return a Tuner; one process at a time runs its trials, since starting one takes longer than the trials."""
    config = {
        "search_alg": search,
        "metric": "loss",
        "mode": "min",
        "num_samples": -1,
        "reuse_actors": True,
        "max_concurrent_trials": None if isinstance(search, ConcurrencyLimiter) else 1,
        **settings,
    }
    space = config.pop("param_space", SPACE)
    run = {"name": "experiment", "storage_path": str(folder), "verbose": 0, **config.pop("run", {})}
    return tune.Tuner(
        trainable, param_space=space, tune_config=tune.TuneConfig(**config), run_config=tune.RunConfig(**run)
    )


def wait_until(condition, seconds=300.0):
    """Wait for what another process does some time; a slow machine takes longer, and does not fail."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it has not come"
        time.sleep(0.05)


def folder_bytes(*folders):
    """Yield every file below the folders, its path as part of its content."""
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and not path.is_symlink():
                with contextlib.suppress(OSError):  # removed meanwhile
                    yield str(path), str(path).encode() + b"\n" + path.read_bytes()


def descendants(pid):
    """Return the processes that ``pid`` and its children started."""
    parents = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parents[int(status.parent.name)] = int(status.read_text().rsplit(")", 1)[1].split()[1])
    found = [pid]
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    return found[1:]


def object_store_bytes():
    """Yield the shared memory that this process's own cluster, whose processes it started, uses as object store."""
    for pid in [os.getpid(), *descendants(os.getpid())]:
        maps = Path(f"/proc/{pid}/maps")
        with contextlib.suppress(OSError):
            for line in maps.read_text().splitlines():
                if "/dev/shm/plasma" in line and " r" in line:
                    span = line.split()[0]
                    yield f"{maps.parent.name}:{span}", _used((maps.parent / "map_files" / span).read_bytes())


def _used(memory, page=4096):
    pages = np.frombuffer(memory, dtype=np.uint8)[: len(memory) // page * page].reshape(-1, page)
    return pages[pages.any(axis=1)].tobytes()


def spellings(value):
    """Return how a number could be written: text of eight digits or more, float64, its hexadecimal digits."""
    raw = np.float64(value).tobytes()
    return [
        repr(float(value)).encode()[:10],
        f"{value:.8g}".encode(),
        raw,
        raw.hex().encode(),
        raw[::-1].hex().encode(),
    ]


def found(values, contents):
    """Return where any of the values is written."""
    needles = [spelling for value in values for spelling in spellings(value)]
    pattern = re.compile(b"|".join(re.escape(needle) for needle in needles))
    return [name for name, content in contents if pattern.search(content)]
