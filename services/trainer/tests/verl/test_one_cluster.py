"""Two jobs on one Ray: each has its own queue of samples, also in its workers, and waits for room."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ray", reason="needs the trainer environment")

from ratchet_testing.ports import free_block
from trainer_service.adapters.ray_head import LocalRay, RayHeadOptions

pytestmark = [pytest.mark.verl, pytest.mark.timeout(900)]

JOB = """
import sys, time
from pathlib import Path
from trainer_service.job.run.config import JobConfig
from trainer_service.verl import engine
job = JobConfig.from_env()
engine.set_environment(job)
engine.connect(job)
import ray, torch, verl
import transfer_queue as tq
from omegaconf import OmegaConf
tq.init(OmegaConf.create({"backend": {"SimpleStorage": {"num_data_storage_units": 1}}}))
tq.kv_put("one" if job.run_id == "run_1" else "two", "train", {"x": torch.ones(2)})
here, other = (Path(name) for name in sys.argv[1:])
here.touch()
while not other.exists():
    time.sleep(0.1)

@ray.remote(num_cpus=0)
class Worker:
    def keys(self):
        import verl
        import transfer_queue as tq
        tq.init()
        return sorted(tq.kv_list("train")["train"])

print("driver", sorted(tq.kv_list("train")["train"]), "worker", ray.get(Worker.remote().keys.remote()))
tq.close()
"""


WAITS = """
import time
from dataclasses import replace
from datetime import timedelta
from trainer_service.domain.spec.spec import Resources
from trainer_service.job.run.config import JobConfig
from trainer_service.verl import engine, runtime
job = JobConfig.from_env()
engine.set_environment(job)
engine.connect(job)
import ray
from ray._private import state

def found(job):
    try:
        runtime.wait_for_room(job)
        return "there is room"
    except runtime.NoRoom as error:
        return str(error)

@ray.remote(num_gpus=1, num_cpus=0)
class Holder:
    def there(self):
        return True

assert found(job) == "there is room"
holder = Holder.remote()
assert ray.get(holder.there.remote())
while any(node.get("GPU") for node in state.available_resources_per_node().values()):
    time.sleep(0.1)  # nodes report what they have left a moment later
print(found(job.model_copy(update={"patience": timedelta(seconds=3)})))
ray.kill(holder)
print(found(job))
two = replace(job.spec, resources=Resources(accelerators_per_node=2))
print(found(job.model_copy(update={"spec": two, "patience": timedelta(seconds=1)})))
"""


@asynccontextmanager
async def cluster(folder: Path) -> AsyncIterator[dict[str, str]]:
    """A Ray as the service has it, with one accelerator; the environment of who joins it."""
    port = free_block(9)
    local = LocalRay(RayHeadOptions(port, folder / "ray.log", accelerators=1, cpus=16), "here")
    try:
        token = (await local.ensure()).headers["Authorization"].removeprefix("Bearer ")
        yield {
            "RAY_ADDRESS": f"127.0.0.1:{port}",
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": token,
            "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
        }
    finally:
        await local.stop()


async def test_each_job_has_its_own_samples_and_waits_for_room(make_job: Any, tmp_path: Path) -> None:
    async with cluster(tmp_path) as environment:
        await asyncio.to_thread(two_jobs, environment, make_job, tmp_path)
        await asyncio.to_thread(waits_for_room, environment, make_job)


def two_jobs(environment: dict[str, str], make_job: Any, folder: Path) -> None:
    marks = [str(folder / "one"), str(folder / "two")]
    jobs = []
    for number, files in ((1, marks), (2, marks[::-1])):
        env = os.environ | environment | make_job(run_id=f"run_{number}").to_env()
        jobs.append(subprocess.Popen([sys.executable, "-c", JOB, *files], env=env, stdout=subprocess.PIPE))
    said = [job.communicate()[0].decode().splitlines()[-1] for job in jobs]
    assert said == ["driver ['one'] worker ['one']", "driver ['two'] worker ['two']"]


def waits_for_room(environment: dict[str, str], make_job: Any) -> None:
    env = os.environ | environment | make_job().to_env()  # Ray takes its token from the environment that it starts in
    said = subprocess.run([sys.executable, "-c", WAITS], env=env, stdout=subprocess.PIPE, timeout=300, check=True)
    taken, later, larger = (line for line in said.stdout.decode().splitlines() if "room" in line)  # Ray prints, too
    assert taken.startswith("no room on the cluster for 1 ranks: it has 1 accelerators, 0 of them free")
    assert later == "there is room"
    assert larger.startswith("no room on the cluster for 2 ranks")
