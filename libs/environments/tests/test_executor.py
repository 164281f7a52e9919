import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta

import pytest

from ratchet.common.v1 import verdict_pb2
from ratchet.sandbox.v1 import program_pb2 as pb
from ratchet_environments.executor import Executor
from ratchet_kit.errors import (
    FailedPrecondition,
    FieldViolation,
    Internal,
    InvalidArgument,
    RatchetError,
    ResourceExhausted,
    Unavailable,
    Unimplemented,
)

Script = Callable[[Sequence[pb.Program], int], Awaitable[Sequence[pb.ExecutionItem]]]


class ScriptedSandbox:
    """Answers as the script says, which is given the programs and the number of the call."""

    def __init__(self, script: Script | None = None) -> None:
        self.batches: list[int] = []
        self._script = script

    async def execute_batch(self, programs: Sequence[pb.Program]) -> Sequence[pb.ExecutionItem]:
        self.batches.append(len(programs))
        if self._script:
            return await self._script(programs, len(self.batches))
        await asyncio.sleep(0)
        return [passed(program) for program in programs]


def program(source: str) -> pb.Program:
    return pb.Program(id="p", source=source)


def passed(program: pb.Program) -> pb.ExecutionItem:
    return pb.ExecutionItem(
        execution=pb.Execution(id=program.id, verdict=verdict_pb2.VERDICT_PASSED, stdout=program.source)
    )


class Waits:
    """Sleeps no time at all, and remembers how long it should have."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


async def test_concurrent_callers_share_calls_and_get_their_own_answers() -> None:
    sandbox = ScriptedSandbox()
    async with Executor(sandbox) as executor:
        executions = await asyncio.gather(*(executor.execute(program(f"f = {i}")) for i in range(200)))
    assert [one.stdout for one in executions] == [f"f = {i}" for i in range(200)]
    assert all(one.verdict == verdict_pb2.VERDICT_PASSED for one in executions)
    assert len(sandbox.batches) <= 5
    assert max(sandbox.batches) <= 64


async def test_equal_programs_under_way_are_run_once_where_that_is_wanted() -> None:
    sandbox = ScriptedSandbox()
    async with Executor(sandbox, equal_once=True) as executor:
        runs = [asyncio.create_task(executor.execute(program(f"f = {i % 3}"))) for i in range(12)]
        await asyncio.sleep(0)
        runs[0].cancel()  # the others still wait for it
        executions = await asyncio.gather(*runs[1:])
        assert [one.stdout for one in executions] == [f"f = {i % 3}" for i in range(1, 12)]
        assert sum(sandbox.batches) == 3
        await executor.execute(program("f = 0"))
        assert sum(sandbox.batches) == 4, "what is over is run anew"
    async with Executor(apart := ScriptedSandbox()) as executor:
        await asyncio.gather(*(executor.execute(program("f = 0")) for _ in range(5)))
    assert sum(apart.batches) == 5


async def test_all_who_wait_for_an_equal_program_are_told_its_fault() -> None:
    async def script(programs: Sequence[pb.Program], call: int) -> Sequence[pb.ExecutionItem]:
        raise Unavailable("away")

    sandbox = ScriptedSandbox(script)
    async with Executor(sandbox, equal_once=True, attempts=2, sleep=Waits()) as executor:
        found = await asyncio.gather(*(executor.execute(program("f = 0")) for _ in range(3)), return_exceptions=True)
    assert [type(one) for one in found] == [Unavailable] * 3
    assert sandbox.batches == [1, 1]


async def test_an_item_that_the_platform_failed_is_tried_again_alone() -> None:
    async def script(programs: Sequence[pb.Program], call: int) -> Sequence[pb.ExecutionItem]:
        items = [passed(program) for program in programs]
        return [pb.ExecutionItem(platform_error="lost"), *items[1:]] if call == 1 else items

    sandbox, waits = ScriptedSandbox(script), Waits()
    async with Executor(sandbox, calls=1, sleep=waits) as executor:
        executions = await asyncio.gather(*(executor.execute(program(f"f = {i}")) for i in range(3)))
    assert [one.verdict for one in executions] == [verdict_pb2.VERDICT_PASSED] * 3
    assert sandbox.batches == [3, 1]


async def test_gives_up_as_unavailable_and_never_as_a_score() -> None:
    async def script(programs: Sequence[pb.Program], call: int) -> Sequence[pb.ExecutionItem]:
        raise Unavailable("no sandbox")

    sandbox, waits = ScriptedSandbox(script), Waits()
    async with Executor(sandbox, attempts=4, backoff=timedelta(seconds=1), sleep=waits) as executor:
        with pytest.raises(Unavailable, match="4 times: no sandbox"):
            await executor.execute(program("f = 1"))
    assert len(sandbox.batches) == 4
    assert [round(wait / 2**i) in (0, 1, 2) for i, wait in enumerate(waits.seconds)] == [True] * 3


async def test_a_call_that_breaks_ends_no_worker() -> None:
    async def script(programs: Sequence[pb.Program], call: int) -> Sequence[pb.ExecutionItem]:
        if call == 1:
            raise ValueError("nobody foresaw this")
        return [passed(program) for program in programs]

    async with Executor(ScriptedSandbox(script), calls=1) as executor, asyncio.timeout(5):
        with pytest.raises(Internal, match="nobody foresaw this"):
            await executor.execute(program("f = 1"))
        assert (await executor.execute(program("f = 2"))).stdout == "f = 2"


async def test_waits_as_long_as_a_full_queue_asks() -> None:
    async def script(programs: Sequence[pb.Program], call: int) -> Sequence[pb.ExecutionItem]:
        if call == 1:
            raise ResourceExhausted("full", retry_after=timedelta(seconds=7))
        return [passed(program) for program in programs]

    waits = Waits()
    async with Executor(ScriptedSandbox(script), sleep=waits) as executor:
        await executor.execute(program("f = 1"))
    assert waits.seconds == [7.0]


async def test_a_bad_program_does_not_take_its_neighbours_along() -> None:
    async def script(programs: Sequence[pb.Program], call: int) -> Sequence[pb.ExecutionItem]:
        bad = [i for i, program in enumerate(programs) if program.source == "bad"]
        if bad:
            raise InvalidArgument("bad", [FieldViolation(f"programs[{i}].source", "too long") for i in bad])
        return [passed(program) for program in programs]

    async with Executor(ScriptedSandbox(script), calls=1) as executor:
        results = await asyncio.gather(
            *(executor.execute(program(text)) for text in ("a", "bad", "b")), return_exceptions=True
        )
    assert isinstance(results[1], InvalidArgument)
    assert not isinstance(results[0], Exception)
    assert not isinstance(results[2], Exception)


async def test_a_short_answer_is_a_fault() -> None:
    async def script(programs: Sequence[pb.Program], call: int) -> Sequence[pb.ExecutionItem]:
        return [] if call == 1 else [passed(program) for program in programs]

    async with Executor(ScriptedSandbox(script), sleep=Waits()) as executor:
        assert (await executor.execute(program("f = 1"))).verdict == verdict_pb2.VERDICT_PASSED


async def test_leaving_ends_those_who_still_wait() -> None:
    async def script(programs: Sequence[pb.Program], call: int) -> Sequence[pb.ExecutionItem]:
        await asyncio.Event().wait()
        return []

    async with Executor(ScriptedSandbox(script)) as executor:
        waiting = asyncio.create_task(executor.execute(program("f = 1")))
        await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_a_call_that_fails_as_a_whole_costs_no_neighbour_its_answer() -> None:
    async def script(programs: Sequence[pb.Program], call: int) -> Sequence[pb.ExecutionItem]:
        if any(program.source == "bad" for program in programs):
            raise Internal("internal error")
        return [passed(program) for program in programs]

    async with Executor(ScriptedSandbox(script), attempts=2, calls=1, sleep=Waits()) as executor:
        sources = ["f = 1", "bad", "f = 2"]
        outcomes = await asyncio.gather(*(executor.execute(program(one)) for one in sources), return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [pb.Execution, Unavailable, pb.Execution]


async def test_what_is_large_goes_alone_and_what_no_message_holds_is_refused() -> None:
    sizes: list[int] = []

    async def script(programs: Sequence[pb.Program], call: int) -> Sequence[pb.ExecutionItem]:
        sizes.append(sum(one.ByteSize() for one in programs))
        return [pb.ExecutionItem(execution=pb.Execution(verdict=verdict_pb2.VERDICT_PASSED)) for _ in programs]

    async with Executor(ScriptedSandbox(script), calls=1) as executor:
        with pytest.raises(InvalidArgument, match=r"with its tests it has 671088[0-9]+ bytes, of 66060288 at most"):
            await executor.execute(program("z" * (64 << 20)))
        await asyncio.gather(*(executor.execute(program(text)) for text in ("x" * (40 << 20), "a", "y" * (40 << 20))))
    assert max(sizes) < 64 << 20
    assert len(sizes) == 3


async def test_needs_to_be_open() -> None:
    with pytest.raises(Internal):
        await Executor(ScriptedSandbox()).execute(program("f = 1"))


@pytest.mark.parametrize("kind", [Unimplemented, FailedPrecondition, InvalidArgument])
async def test_a_program_that_is_not_for_this_sandbox_fails_alone(kind: type[RatchetError]) -> None:
    async def refuses(programs: Sequence[pb.Program], call: int) -> Sequence[pb.ExecutionItem]:
        if any(one.runtime == "absent" for one in programs):
            raise kind("a program is not for this node, and which one is not said")
        return [passed(one) for one in programs]

    asked = [pb.Program(id=str(i), runtime="absent" if i == 3 else "") for i in range(8)]
    async with Executor(ScriptedSandbox(refuses), calls=1) as executor:
        found = await asyncio.gather(*map(executor.execute, asked), return_exceptions=True)
    assert [isinstance(one, kind) for one in found] == [one.runtime == "absent" for one in asked]
