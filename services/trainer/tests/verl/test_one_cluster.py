"""Two jobs on one Ray: each has its own queue of samples, also in its workers, and waits for room."""

import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ray", reason="needs the trainer environment")

import ray

from trainer_service.domain.spec import Resources
from trainer_service.job.verl import ray_start, runtime

pytestmark = [pytest.mark.verl, pytest.mark.timeout(900)]

JOB = """
import sys, time
from pathlib import Path
from trainer_service.job.config import JobConfig
from trainer_service.job.verl import engine
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


@pytest.fixture
def cluster() -> Iterator[str]:
    ray_start.wait_longer()
    ray.init(num_cpus=8, num_gpus=1, include_dashboard=False, _node_ip_address=runtime.LOOPBACK)
    yield ray.get_runtime_context().gcs_address
    ray.shutdown()


def test_each_job_has_its_own_samples(cluster: str, make_job: Any, tmp_path: Path) -> None:
    marks = [str(tmp_path / "one"), str(tmp_path / "two")]
    jobs = []
    for number, files in ((1, marks), (2, marks[::-1])):
        job = make_job(run_id=f"run_{number}")
        environment = os.environ | {"RAY_ADDRESS": cluster} | job.to_env()
        jobs.append(subprocess.Popen([sys.executable, "-c", JOB, *files], env=environment, stdout=subprocess.PIPE))
    said = [job.communicate()[0].decode().splitlines()[-1] for job in jobs]
    assert said == ["driver ['one'] worker ['one']", "driver ['two'] worker ['two']"]


def test_a_job_waits_until_there_are_free_accelerators_for_its_ranks(
    cluster: str, make_job: Any, make_complete_spec: Any
) -> None:
    runtime.wait_for_room(make_job())
    holder = ray.remote(num_gpus=1)(type("Holder", (), {"there": lambda self: True})).remote()
    assert ray.get(holder.there.remote())
    with pytest.raises(runtime.NoRoom, match="no room on the cluster for 1 ranks: it has 0 free accelerators"):
        runtime.wait_for_room(make_job(patience=timedelta(seconds=3)))
    ray.kill(holder)
    runtime.wait_for_room(make_job())
    two = make_complete_spec(resources=Resources(accelerators_per_node=2))
    with pytest.raises(runtime.NoRoom):
        runtime.wait_for_room(make_job(two, patience=timedelta(seconds=1)))
