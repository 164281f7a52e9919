"""An attempt's usage: its own processes, those that record, its engine, its programs."""

import asyncio
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from unittest.mock import Mock

import pytest

from ratchet.rollout.v1 import rollout_pb2
from ratchet_kit import cpu_time
from ratchet_kit.times import duration_to_proto
from ratchet_kit.usage import Prices
from ratchet_policies import EngineShare, PolicySpec, Sampling
from ratchet_policies.fleet import Fleet
from trainer_service.job.policy.policy import RunPolicy
from trainer_service.job.policy.stream_transport import StreamTransport
from trainer_service.job.run.process_usage import EVERY_S, FOLDER, recorded_gpus
from trainer_service.job.session import Session
from trainer_service.job.usage import UsageMeter

from .rollouts import Rollouts, served

RANK = """
import atexit, subprocess, sys, time
from trainer_service.job.run import process_usage
def take_apart():
    until = time.process_time() + 0.5
    while time.process_time() < until: pass
atexit.register(take_apart)
process_usage.EVERY_S = {every_s}
process_usage.record()
burn = "import time\\nwhile time.process_time() < 0.8: pass"
subprocess.run([sys.executable, "-c", burn], check=True)
begun = time.process_time()
while time.process_time() < begun + {burn}: pass
print("done", flush=True)
sys.stdin.read()
"""

NVML = """
from types import SimpleNamespace
class NVMLError(Exception): pass
def nvmlInit(): pass
def nvmlShutdown(): pass
def nvmlDeviceGetHandleByIndex(index): return index
def nvmlDeviceGetUUID(handle): return f"GPU-{handle}"
def nvmlDeviceGetUtilizationRates(handle): return SimpleNamespace(gpu=50)
"""


class Silent:
    """The policy of a job whose engine is not there."""

    share = EngineShare()

    async def look(self) -> None:
        pass


def meter(folder: Path, policy: object = None, ranks: int = 0, prices: Prices | None = None) -> UsageMeter:
    programs, workspaces = Mock(cpu_time=timedelta(seconds=4)), Mock(cpu_time=timedelta(seconds=3))
    return UsageMeter(folder, policy or Silent(), programs, workspaces, ranks, prices)  # type: ignore[arg-type]


def of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@contextmanager
def ranks(folder: Path, *burns: float, every_s: float = EVERY_S) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Processes that record, used these seconds and 0.8 more, and wait. `every_s`: the pause between two writes."""
    environment, pipe = os.environ | {FOLDER: str(folder)}, subprocess.PIPE
    running = [
        subprocess.Popen(
            [sys.executable, "-c", RANK.format(burn=burn, every_s=every_s)], env=environment, stdin=pipe, stdout=pipe
        )
        for burn in burns
    ]
    for rank in running:
        assert rank.stdout is not None
        rank.stdout.readline()
    try:
        yield running
    finally:
        for rank in running:
            rank.communicate()


@pytest.mark.integration
def test_ranks_count_as_the_kernel_accounts_for_them_also_one_that_was_killed(tmp_path: Path):
    """Here they are the job's children, as where Ray is its own: none is counted twice."""
    before, own = of_children(), cpu_time.used_by()
    counted = meter(tmp_path)
    with ranks(tmp_path, 2.5, 1.5) as running:
        living = asyncio.run(counted.read()).cpu_time - own
        running[1].kill()
        running[1].wait()
    accounted = of_children() - before
    assert living.total_seconds() == pytest.approx(accounted, rel=0.02)


@pytest.mark.integration
def test_a_process_leaves_its_processor_time_behind_and_ends_at_once(tmp_path: Path):
    """Python is not there to take it apart."""
    before = of_children()
    with ranks(tmp_path, 2.5, every_s=3600):
        pass
    (file,) = tmp_path.glob("*.seconds")
    assert float(file.read_text().split()[0]) == pytest.approx(of_children() - before, rel=0.02)


@pytest.mark.integration
def test_time_since_a_process_wrote_last_counts_also_once_it_was_killed(tmp_path: Path):
    """No write comes after the first, and the last step is the last look at it. Unlike this process, no process of a
    job waits for a rank that ends, and has its time from the kernel."""
    counted = meter(tmp_path)
    with ranks(tmp_path, 0.5, every_s=3600) as (rank,):
        Session(*(Mock() for _ in range(9)), usage=counted).end_step(1)
        rank.kill()
        rank.wait()
        waited_for = cpu_time.used_by()
    assert asyncio.run(counted.read()).cpu_time - waited_for > timedelta(seconds=1.3)


@pytest.mark.integration
def test_a_later_process_with_the_pid_of_one_that_recorded_is_another(tmp_path: Path):
    counted = meter(tmp_path)
    with ranks(tmp_path, 0.1, every_s=3600) as (rank,):
        (file,) = tmp_path.glob("*.seconds")
        file.write_text(f"7.0 {cpu_time.born(rank.pid) - 1}")
        found = asyncio.run(counted.read()).cpu_time - cpu_time.used_by(without=[rank.pid])
    assert found.total_seconds() == pytest.approx(7, abs=0.1)


async def test_the_use_of_ranks_gpus_is_counted_once_for_each_gpu(tmp_path: Path):
    for name, text in (("a-1", "GPU-a 9.0 10.0"), ("a-2", "GPU-a 1.0 2.0"), ("b-1", "GPU-b 3.0 20.0")):
        (tmp_path / f"{name}.gpu").write_text(text)
    found = await meter(tmp_path, ranks=2).read()
    assert (found.gpu_busy_time, found.gpu_watched_time) == (timedelta(seconds=12), timedelta(seconds=30))
    assert (await meter(tmp_path, ranks=0).read()).gpu_watched_time == timedelta()


@pytest.mark.integration
def test_a_process_with_one_gpu_records_its_use(tmp_path: Path):
    """NVML stands in a module of its name."""
    (tmp_path / "pynvml.py").write_text(NVML)
    path = os.pathsep.join([str(tmp_path), *sys.path])
    environment = os.environ | {FOLDER: str(tmp_path / "usage"), "CUDA_VISIBLE_DEVICES": "0", "PYTHONPATH": path}
    rank = "from trainer_service.job.run import process_usage as p; import sys; p.record(); sys.stdin.read()"
    running = subprocess.Popen([sys.executable, "-c", rank], env=environment, stdin=subprocess.PIPE)
    try:
        while not (found := recorded_gpus(tmp_path / "usage")).watched:
            assert running.poll() is None
            time.sleep(0.1)
    finally:
        running.communicate()
    assert found.busy == found.watched / 2


async def test_an_engine_counts_from_its_start_until_it_is_unloaded(tmp_path: Path):
    service = Rollouts()
    async with served(service) as target, Fleet.of(target) as engine:
        spec = PolicySpec("run-1", "/models/starter", dtype="float32", max_model_len=160)
        policy = RunPolicy(engine, StreamTransport(engine), spec, patience=timedelta(seconds=5), at_once=2)
        counted = meter(tmp_path, policy, prices=Prices(currency="EUR", sandbox_hour=3600, million_prompt_tokens=1e6))
        await policy.ensure_loaded()
        assert service.policy is not None
        service.policy.usage.CopyFrom(
            rollout_pb2.EngineUsage(
                cpu_time=duration_to_proto(timedelta(hours=3)), gpu_time=duration_to_proto(timedelta(hours=2)), tokens=9
            )
        )
        generation = await policy.generate([1, 2], Sampling(), "sha256:base")
        await policy.unload()
        found = await counted.read()
    assert found.cpu_time > timedelta(hours=3)
    assert (found.gpu_time, found.sandbox_time) == (timedelta(hours=2), timedelta(seconds=7))
    assert (found.prompt_tokens, found.completion_tokens) == (
        generation.prompt_tokens,
        sum(len(one.token_ids) for one in generation.completions),
    )
    assert found.cost == pytest.approx(7 + found.prompt_tokens)


async def test_ranks_hold_their_gpus_from_when_they_have_them(tmp_path: Path):
    counted = meter(tmp_path, ranks=4)
    await asyncio.sleep(0.2)
    assert (await counted.read()).gpu_time == timedelta()
    counted.hold()
    await asyncio.sleep(0.2)
    counted.wait(0.1)
    found = await counted.read()
    assert timedelta(seconds=0.8) <= found.gpu_time < timedelta(seconds=4)
    assert found.wall_time >= timedelta(seconds=0.4)
    assert found.wait_time == timedelta(seconds=0.1)
