"""The federation on a cluster: killed hosts and servers, and a tuner for every agent."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
import ray

from dptune_ray import Federation, RayTransport
from federation_harness import (
    LONG,
    SECRET,
    SETTINGS,
    open_plan,
    serve,
    value,
)
from ray_harness import SPACE, folder_bytes, found

# ---- on a cluster --------------------------------------------------------------------------------------


@pytest.mark.ray
@pytest.mark.slow
def test_a_federation_whose_server_and_host_are_killed_in_mid_round_loses_no_round(cluster, fast_path):
    marks = fast_path / "marks"
    marks.mkdir()

    def slow(agent, config):
        (marks / f"{agent}-{time.time_ns()}").touch()
        print("an agent's", SECRET, flush=True)
        time.sleep(0.05)
        return value(agent, config)

    transport = serve(fast_path)
    federation = Federation(slow, SPACE, transport, SETTINGS, hosts=2, mode="min", seed=1)
    try:
        federation.advance(SETTINGS.initial + 1)
        running = [host.call.remote("advance", SETTINGS.initial + 3) for host in federation.hosts]
        ray.kill(federation.hosts[1], no_restart=False)
        ray.kill(transport._client.actor(), no_restart=False)
        assert [ray.get(one, timeout=900).value for one in running] == [SETTINGS.initial + 3] * 2
        assert transport.open_round() == 3
        charges = open_plan(fast_path).charges()
        assert [c.key for c in charges] == ["round/0", "round/1", "round/2"]
        assert all(c.value is not None for c in charges)
        federation.advance(SETTINGS.initial + 3)
        ray.kill(federation.hosts[0], no_restart=False)
        best = federation.best()
    finally:  # they hold all of the cluster's CPUs
        federation.stop()
        transport.stop()
    assert list(best) == [0, 1, 2, 3]
    assert all(result == pytest.approx(value(n, config)) for n, (config, result) in best.items())
    assert len(list(marks.iterdir())) > SETTINGS.agents * (SETTINGS.initial + 3)  # the lost hosts' agents repeated
    assert found([SECRET], folder_bytes(cluster)) == []


AGENT = """
    import sys, ray
    from pathlib import Path
    from ray import tune
    from dptune_ray import DPFTSSearch, RayTransport
    sys.path.insert(0, {here!r})
    from federation_harness import ROUNDS, SETTINGS, SPACE, value

    n, folder = int(sys.argv[1]), Path({folder!r})
    ray.init(address={address!r}, namespace={namespace!r}, log_to_driver=False)
    search = DPFTSSearch(RayTransport("tuners"), SETTINGS, SPACE, agent=n, trials=folder / f"agent{{n}}.db", seed=1)
    config = dict(search_alg=search, metric="value", mode="min", num_samples=SETTINGS.initial + 2)
    tuning = tune.TuneConfig(max_concurrent_trials=1, reuse_actors=True, **config)
    storage = tune.RunConfig(name=f"agent{{n}}", storage_path=str(folder), verbose=0)
    trainable = tune.with_resources(lambda config: {{"value": value(n, config)}}, {{"cpu": 0.1}})
    tune.Tuner(trainable, param_space=SPACE, tune_config=tuning, run_config=storage).fit()
    print(search.recommend())
"""


@pytest.mark.ray
@pytest.mark.slow
@pytest.mark.usefixtures("cluster")
def test_every_agent_has_a_tuner_of_its_own(fast_path):
    transport = RayTransport.serve(open_plan(fast_path), SETTINGS, timeout=LONG, name="tuners")
    context = ray.get_runtime_context()
    code = textwrap.dedent(AGENT).format(
        here=str(Path(__file__).parent),
        folder=str(fast_path),
        address=context.gcs_address,
        namespace=context.namespace,
    )
    command = [sys.executable, "-c", code]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    agents = [subprocess.Popen([*command, str(n)], **pipes) for n in range(SETTINGS.agents)]
    ended = [(*agent.communicate(timeout=900), agent.returncode) for agent in agents]
    assert [code for *_, code in ended] == [0] * SETTINGS.agents, ended[0][1][-2000:]
    assert all("'x'" in output for output, *_ in ended)
    assert transport.open_round() == 2
    assert len(open_plan(fast_path).charges()) == 2
