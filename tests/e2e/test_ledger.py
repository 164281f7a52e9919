"""What runs and evaluations are charged, held against what the kernel has counted for the same processes.

A cgroup has the processor time of all that was ever in it, however short it lived and whoever waited for it. The
platform starts in one; jobs, engines and the sandbox are moved to their own, and what they start is born there.
"""

import os
import re
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import timedelta
from pathlib import Path

import pytest

from ratchet.common.v1 import model_pb2, problem_pb2, usage_pb2
from ratchet.eval.v1 import eval_pb2
from ratchet.trainer.v1 import trainer_pb2

from .conftest import running
from .test_main_job import grpo

pytestmark = [pytest.mark.e2e, pytest.mark.full, pytest.mark.timeout(900)]

PROMISED = 0.02
JOBS, ENGINES, SANDBOX = "jobs", "engines", "sandbox"
LOOK_S = 0.05
SURE_S = 0.002
ENGINE = re.compile(r"ratchet-engine (run|eval)-")


class Accounts:
    """The kernel's, each with a name. Not of processes that end within LOOK_S of their parent's start."""

    def __init__(self, top: Path) -> None:
        self._top = top
        self._of: dict[int, str] = {}
        self._before: dict[str, float] = defaultdict(float)
        """Seconds of processes before they were moved."""
        self._stopped = threading.Event()

    def __enter__(self) -> "Accounts":
        for name in ("", JOBS, ENGINES, SANDBOX):
            (self._top / name).mkdir()
        self._sorting = threading.Thread(target=self._sort)
        self._sorting.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._sorting.join()
        for name in (*(f"{name}/{pid}" for pid, name in self._of.items()), JOBS, ENGINES, SANDBOX, ""):
            (self._top / name).rmdir()

    @contextmanager
    def entered(self) -> Iterator[None]:
        """What this process starts meanwhile is born in them."""
        _put(self._top, os.getpid())
        try:
            yield
        finally:
            _put(self._top.parent, os.getpid())

    def seconds(self, name: str) -> float:
        """Once all of it has ended; of the sandbox now, without what waits there for programs."""
        while name != SANDBOX and self._members(name):
            time.sleep(LOOK_S)
        waiting = sum(_clock(pid) for pid in self._members(name))
        return self._before[name] + _used(self._top / name) - waiting

    def _members(self, name: str) -> list[int]:
        files = (self._top / name).rglob("cgroup.procs") if name else [self._top / "cgroup.procs"]
        return [int(pid) for file in files for pid in file.read_text().split()]

    def _sort(self) -> None:
        while not self._stopped.wait(LOOK_S):
            for pid in self._members(""):
                with suppress(OSError):  # it has ended
                    if name := self._name(pid):
                        self._move(pid, name)

    def _name(self, pid: int) -> str:
        """Where a process belongs; that of its parent, if it was born before the parent was moved."""
        about = Path(f"/proc/{pid}")
        command = (about / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        if ENGINE.match(command):
            return ENGINES
        if " -m sandbox_service.main" in command:
            return SANDBOX
        if " -m trainer_service.verl " in command or b"RATCHET_JOB_USAGE=" in (about / "environ").read_bytes():
            return JOBS
        return self._of.get(int((about / "stat").read_text().rpartition(")")[2].split()[1]), "")

    def _move(self, pid: int, name: str) -> None:
        group = self._top / name / str(pid)
        group.mkdir()
        self._of[pid] = name
        _put(group, pid)
        while True:  # until nothing came between the two
            clock = _clock(pid)
            used = _used(group)
            if _clock(pid) - clock < SURE_S:
                self._before[name] += clock - used
                return


def _put(group: Path, pid: int) -> None:
    (group / "cgroup.procs").write_text(str(pid))


def _used(group: Path) -> float:
    label, microseconds, *_ = (group / "cpu.stat").read_text().split()
    assert label == "usage_usec"
    return int(microseconds) / 1e6


def _clock(pid: int) -> float:
    """Seconds of a process, with its threads that have ended: clock_getcpuclockid(3)."""
    return time.clock_gettime((~pid << 3) | 2)


def accounts() -> Accounts:
    mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    tops = [Path(point) for _, point, kind, *_ in mounts if kind == "cgroup2" and os.access(point, os.W_OK)]
    if not tops:
        pytest.skip("the kernel's accounts need cgroups of version 2, and the right to make some")
    (own,) = re.findall(r"^0::/(.*)$", Path("/proc/self/cgroup").read_text(), re.MULTILINE)
    return Accounts(tops[0] / own / f"ratchet-ledger-{os.getpid()}")


@contextmanager
def charged(kernel: Accounts, *, examined: bool) -> Iterator[usage_pb2.Usage]:
    """Holds the usage that the block fills in against what the kernel has counted meanwhile. `examined`: the problems'
    references were tried before; else that is part of the sandbox's account, and nobody's."""
    began = {name: kernel.seconds(name) for name in (JOBS, ENGINES, SANDBOX)}
    usage = usage_pb2.Usage()
    yield usage
    counted = {name: kernel.seconds(name) - before for name, before in began.items()}
    cpu, sandbox = (length.ToTimedelta() / timedelta(seconds=1) for length in (usage.cpu_time, usage.sandbox_time))
    print(f"charged {cpu:.2f} s and {sandbox:.3f} s in the sandbox, of {counted}")
    assert cpu == pytest.approx(counted[JOBS] + counted[ENGINES], rel=PROMISED)
    if examined:
        assert sandbox == pytest.approx(counted[SANDBOX], rel=PROMISED)


def test_runs_and_evaluations_are_charged_what_the_kernel_has_counted() -> None:
    """The second ones find their problems examined."""
    with accounts() as kernel, ExitStack() as stack:
        with kernel.entered():
            platform = stack.enter_context(running())
        client = stack.enter_context(platform.client())
        for again in (False, True):
            with charged(kernel, examined=again) as usage:
                run = client.runs.wait(client.runs.create(grpo(steps=10)).id)
                assert run.state == trainer_pb2.Run.STATE_SUCCEEDED, run.failure
                usage.CopyFrom(run.usage)
            with charged(kernel, examined=again) as usage:
                spec = eval_pb2.EvaluationSpec(
                    model=model_pb2.ModelRef(version=model_pb2.VersionRef(model="starter", number=1)),
                    problems=problem_pb2.ProblemSetRef(name="composed/test", limit=150),
                    samples_per_problem=8,
                    temperature=0.9 if again else 1.0,
                    max_tokens=72,
                )
                evaluation = client.evaluations.wait(client.evaluations.create(spec).id)
                assert evaluation.state == eval_pb2.Evaluation.STATE_SUCCEEDED, evaluation.failure
                usage.CopyFrom(evaluation.usage)
