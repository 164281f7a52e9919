"""What the tests are told of the program's workspace, and what is the platform's fault instead."""

import random
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from ratchet.sandbox.v1 import workspace_pb2 as pb
from ratchet_environments.folders.folder import read
from ratchet_environments.folders.subject import Subject, room
from ratchet_environments.workspaces import Done
from ratchet_kit.errors import NotFound, RatchetError, ResourceExhausted

from . import planted

RUN = {"do": "run", "argv": ["x"], "stdin": ""}
BUSY = ResourceExhausted("Concurrent RPC limit exceeded!", timedelta(seconds=1))


class Scripted:
    """A workspace whose programs end so."""

    def __init__(self, *ends: pb.ExecExit | RatchetError) -> None:
        self._ends = list(ends)

    async def exec(self, *_: Any, **__: Any) -> Done:
        end = self._ends.pop(0)
        if isinstance(end, RatchetError):
            raise end
        return Done(end, b"out", b"")


def subject(tmp_path: Path, *ends: pb.ExecExit | RatchetError) -> Subject:
    folder = read(planted.write(tmp_path / "task", planted.program(random.Random(1))))
    return Subject(Scripted(*ends), folder)  # type: ignore[arg-type]


@pytest.mark.parametrize("error", [NotFound("it was lost: the machine is short of memory"), BUSY])
async def test_what_the_platform_does_is_no_status_of_the_program(tmp_path: Path, error: RatchetError) -> None:
    with pytest.raises(type(error)):
        await subject(tmp_path, error).answer(RUN)


async def test_a_program_that_took_its_workspace_along_is_told(tmp_path: Path) -> None:
    spent = pb.ExecExit(end=pb.ExecExit.END_MEMORY_LIMIT)
    one = subject(tmp_path, spent, NotFound("no workspace"), ResourceExhausted("the workspace's limit was reached"))
    assert [(await one.answer(RUN))["status"] for _ in range(3)] == [124, 137, 126]


async def test_a_part_of_the_output_is_none(tmp_path: Path) -> None:
    cut = pb.ExecExit(end=pb.ExecExit.END_EXITED, output_cut=True)
    answer = await subject(tmp_path, cut).answer(RUN)
    assert (answer["status"], "stdout" in answer) == (126, False)


@pytest.mark.parametrize("hours", [1, 24])
def test_a_node_holds_the_longest_task(hours: int) -> None:
    """It gives a workspace a day at most."""
    limits = room(timedelta(hours=hours), 0)
    assert timedelta(hours=hours) <= limits.wall_time.ToTimedelta() <= timedelta(days=1)
    assert timedelta(hours=hours) <= limits.cpu_time.ToTimedelta() <= timedelta(days=1)


def test_files_that_a_program_holds_up_are_given_up_before_the_workspace_ends() -> None:
    """Ten minutes after the last word of the agent: what comes of it is a verdict."""
    assert room(timedelta(minutes=1), 0).wall_time.ToTimedelta() >= timedelta(minutes=1 + 10 + 5)
