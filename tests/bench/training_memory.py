"""What a training job takes: the peak of all its processes' memory and the time of its steps, on this machine.

    .venvs/light/bin/python tests/bench/training_memory.py --model ~/.ratchet/models/smollm2 --problems mbpp-train.jsonl

It starts sandbox and rollout service, runs one job beside them, and looks twice a second. A process counts with its
PSS, where a page that several share counts once in all (proc(5), smaps_rollup); RSS is printed beside it. The rollout
engine is counted apart. `ratchet benchmarks verify mbpp/train --out mbpp-train.jsonl` makes such a file.
"""

import argparse
import asyncio
import contextlib
import json
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import grpc
import psutil

from ratchet.trainer.v1 import job_report_pb2 as pb
from ratchet.trainer.v1 import job_report_pb2_grpc
from ratchet_kit.allowed_sources import Places
from ratchet_kit.client import wait_healthy
from ratchet_kit.names import Location
from ratchet_rewards import Component, Reward
from ratchet_testing.ports import free_port
from ratchet_testing.processes import process
from ratchet_testing.services import serving
from trainer_service.adapters.folders import FsspecModelFolders
from trainer_service.domain.create import defaults
from trainer_service.domain.inputs.found import Found
from trainer_service.domain.spec.hyperparameters import Hyperparameters
from trainer_service.domain.spec.limits import Limits
from trainer_service.domain.spec.spec import ProblemSetRef, Resources, RunSpec
from trainer_service.job.run.config import JobConfig

ROOT = Path(__file__).parents[2]
GIB = 1 << 30
LOOK_S = 0.5


@dataclass
class Peak:
    """Bytes of all processes of one kind together."""

    pss: int = 0
    rss: int = 0
    parts: dict[str, int] = field(default_factory=dict)
    """The PSS of each process when their sum was largest, by what the process is."""


class Watched(job_report_pb2_grpc.JobReportServiceServicer):
    """Takes the job's reports, and prints each step with the peak up to it."""

    def __init__(self, trainer: Peak) -> None:
        self.phase = ""
        self.ended = False
        self.steps: list[dict[str, float]] = []
        self._trainer = trainer

    async def ReportStarted(self, request: Any, context: Any) -> pb.ReportStartedResponse:
        return pb.ReportStartedResponse()

    async def ReportHeartbeat(self, request: Any, context: Any) -> pb.ReportHeartbeatResponse:
        return pb.ReportHeartbeatResponse()

    async def ReportPhase(self, request: Any, context: Any) -> pb.ReportPhaseResponse:
        print(f"{time.strftime('%H:%M:%S')} phase {request.phase} peak {self._trainer.pss / GIB:.2f} GiB", flush=True)
        return pb.ReportPhaseResponse()

    async def ReportStep(self, request: Any, context: Any) -> pb.ReportStepResponse:
        self.steps.append(dict(request.step.metrics))
        shown = {name: round(value, 4) for name, value in sorted(request.step.metrics.items())}
        print(f"step {request.step.number}: peak {self._trainer.pss / GIB:.2f} GiB {json.dumps(shown)}", flush=True)
        return pb.ReportStepResponse()

    async def FollowProblems(self, request: Any, context: Any) -> pb.FollowProblemsResponse:
        return pb.FollowProblemsResponse()

    async def ReportCheckpoint(self, request: Any, context: Any) -> pb.ReportCheckpointResponse:
        return pb.ReportCheckpointResponse()

    async def ReportFinished(self, request: Any, context: Any) -> pb.ReportFinishedResponse:
        print(f"ended: {request.failure.message or 'all steps are done'}", flush=True)
        self.ended = True
        return pb.ReportFinishedResponse()


async def look(root: int, peak: Peak) -> None:
    """Follows the process `root` and all below it."""
    while True:
        await asyncio.to_thread(_look, root, peak)
        await asyncio.sleep(LOOK_S)


def _look(root: int, peak: Peak) -> None:
    parts: dict[str, int] = {}
    rss = 0
    for one in _tree(root):
        with contextlib.suppress(psutil.Error, OSError, ValueError):
            memory = dict(_rollup(one.pid))
            name = _name(one.cmdline())
            parts[name] = parts.get(name, 0) + memory["Pss"]
            rss += memory["Rss"]
    peak.rss = max(peak.rss, rss)
    if sum(parts.values()) > peak.pss:
        peak.pss, peak.parts = sum(parts.values()), parts


def _tree(root: int) -> Sequence[psutil.Process]:
    try:
        first = psutil.Process(root)
        return [first, *first.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def _rollup(pid: int) -> Iterable[tuple[str, int]]:
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]:
        name, value, *_ = line.split()
        yield name.rstrip(":"), int(value) * 1024


def _name(command: Sequence[str]) -> str:
    """What a process of a job is, for people: Ray gives its workers' titles."""
    text = " ".join(command)
    for known in ("ray::", "raylet", "gcs_server", "trainer_service.verl", "EngineCore"):
        if known in text:
            return text.split()[0] if known == "ray::" else known
    return Path(command[0]).name if command else "?"


def _spec(wanted: argparse.Namespace) -> RunSpec:
    hyper = Hyperparameters(**{key: json.loads(value) for key, value in (pair.split("=") for pair in wanted.set)})
    return RunSpec(
        base=Location(str(wanted.model)),
        algorithm=wanted.algorithm,
        problems=ProblemSetRef(wanted.problems),
        steps=wanted.steps,
        reward=Reward() if wanted.algorithm == "sft" else Reward(components=(Component(wanted.reward),)),
        hyperparameters=hyper,
        resources=Resources(accelerators_per_node=wanted.ranks),
        verl_overrides=tuple(wanted.verl),
    )


async def main(wanted: argparse.Namespace) -> int:
    folder = Path(tempfile.mkdtemp(prefix="rat-fit-"))
    print(f"logs are in {folder}", flush=True)
    trainer, rollout = Peak(), Peak()
    watched = Watched(trainer)

    def add(server: grpc.aio.Server) -> list[str]:
        job_report_pb2_grpc.add_JobReportServiceServicer_to_server(watched, server)
        return ["ratchet.trainer.v1.JobReportService"]

    base = await FsspecModelFolders(folder, Places(["/"], 1 << 40)).inspect(str(wanted.model))
    spec = defaults.complete(
        _spec(wanted),
        Found(base),
        Limits(accelerators=wanted.ranks, memory_bytes=int(wanted.memory * GIB)),
    )
    print(json.dumps(asdict(spec.hyperparameters)), flush=True)
    async with AsyncExitStack() as stack:
        targets, groups = {}, {}
        for name, env in (("rollout", "rollout"), ("sandbox", "light")):
            port = free_port()
            variables = {f"RATCHET_{name.upper()}_PORT": str(port), f"RATCHET_{name.upper()}_METRICS_PORT": "0"}
            variables |= {"RATCHET_ROLLOUT_WORK_DIR": str(folder / "rollout"), "RATCHET_SOURCES": "/"}
            command = (str(ROOT / f".venvs/{env}/bin/python"), "-m", f"{name}_service.main")
            groups[name] = await stack.enter_async_context(process(folder / f"{name}.log", *command, **variables))
            targets[name] = f"127.0.0.1:{port}"
        for target in targets.values():
            await wait_healthy(target, timedelta(minutes=2))
        target = await stack.enter_async_context(serving(add))
        job = JobConfig(
            run_id="fit", attempt=1, spec=spec, base_path=base.uri, base_uri=base.uri, work_dir=folder / "run",
            trainer_target=target, rollout_target=targets["rollout"], sandbox_target=targets["sandbox"],
            registry_target="",
        )  # fmt: skip
        python = str(ROOT / ".venvs/trainer/bin/python")
        started = time.monotonic()
        group = await stack.enter_async_context(
            process(folder / "job.log", python, "-m", "trainer_service.verl", **job.to_env())
        )
        looks = [
            asyncio.create_task(look(group.pid, trainer)),
            asyncio.create_task(look(groups["rollout"].pid, rollout)),
        ]
        status = await group.wait()
        seconds = time.monotonic() - started
        for one in looks:
            one.cancel()
    for kind, peak in (("trainer", trainer), ("rollout", rollout)):
        print(f"{kind}: peak {peak.pss / GIB:.2f} GiB PSS, {peak.rss / GIB:.2f} GiB RSS")
        for part, size in sorted(peak.parts.items(), key=lambda item: -item[1])[:8]:
            print(f"    {size / GIB:6.2f} GiB  {part}")
    print(f"{len(watched.steps)} steps, {seconds:.0f} s in all, exit status {status}")
    return 0 if watched.ended and len(watched.steps) == wanted.steps else 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--problems", default="composed/train")
    parser.add_argument("--algorithm", default="grpo")
    parser.add_argument("--reward", default="similarity", help="a component that tells completions apart")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--memory", type=float, default=6, help="GiB that the run may take")
    parser.add_argument("--set", action="append", default=[], metavar="HYPERPARAMETER=VALUE")
    parser.add_argument("--verl", action="append", default=[], metavar="SETTING=VALUE")
    sys.exit(asyncio.run(main(parser.parse_args())))
