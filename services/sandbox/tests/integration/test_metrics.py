"""What the service tells Prometheus, and whether Grafana's dashboard asks for what there is."""

import asyncio
import re
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import grpc
import httpx
import pytest
import pytest_asyncio
from prometheus_client.parser import text_string_to_metric_families

from ratchet.common.v1 import problem_pb2 as common
from ratchet.sandbox.v1 import program_pb2 as pb
from ratchet_kit.client import channel
from ratchet_testing import boards, free_port
from sandbox_service.settings import Settings

from ..node import Stubs, serving

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="module")]

DEPLOY = Path(__file__).parents[4] / "deploy"
CALLER = "caller-that-nobody-should-see"
CALL = common.Test(call=common.CallTest(args="[1]", expected="2"))
SHORT = common.Limits(output_bytes=1000)
SHORT.cpu_time.FromTimedelta(timedelta(seconds=0.1))
FORGED = "import os\ndef f(x):\n    os.write(3, b'forged')\n    return 2"
PROGRAMS = {
    "passed": pb.Program(source="def f(x): return 2", entry_point="f", tests=[CALL]),
    "failed": pb.Program(source="def f(x): return 3", entry_point="f", tests=[CALL]),
    "runtime_error": pb.Program(source="def f(x): return 1 / 0", entry_point="f", tests=[CALL]),
    "compile_error": pb.Program(source="def f(x:", entry_point="f", tests=[CALL]),
    "time_limit": pb.Program(source="while True: pass", limits=SHORT),
    "memory_limit": pb.Program(source="x = bytearray(2 ** 40)"),
    "output_limit": pb.Program(source="print('x' * 5000)", limits=SHORT),
    "tampered": pb.Program(source=FORGED, entry_point="f", tests=[CALL]),
}


class Samples(dict[tuple[str, frozenset[tuple[str, str]]], float]):
    """The samples of a /metrics page, by name and labels."""

    def of(self, name: str, **labels: str) -> float:
        """The sum of those that have these labels."""
        return sum(value for (one, has), value in self.items() if one == name and has >= set(labels.items()))

    def labels(self, name: str) -> set[str]:
        return {label for one, has in self if one == name for label, _ in has}

    @property
    def names(self) -> set[str]:
        return {name for name, _ in self}


class Door:
    def __init__(self, channel: grpc.aio.Channel, url: str) -> None:
        self.stub = Stubs.of(channel)
        self._url = url

    async def execute(self, *programs: pb.Program) -> list[pb.Execution]:
        requests = [pb.ExecuteRequest(program=program, caller=CALLER) for program in programs]
        return [reply.execution for reply in await asyncio.gather(*map(self.stub.programs.Execute, requests))]

    async def page(self) -> str:
        async with httpx.AsyncClient() as client:
            return (await client.get(self._url)).text

    async def samples(self) -> Samples:
        families = text_string_to_metric_families(await self.page())
        return Samples(
            {(one.name, frozenset(one.labels.items())): one.value for family in families for one in family.samples}
        )


def _level(execution: pb.Execution) -> str:
    return pb.IsolationLevel.Name(execution.level).removeprefix("ISOLATION_LEVEL_")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def door() -> AsyncIterator[Door]:
    settings = Settings(port=0, metrics_port=free_port(), lanes=2)
    async with serving(settings, queue_limit=6) as address:
        async with channel(address) as opened:
            yield Door(opened, f"http://127.0.0.1:{settings.metrics_port}/metrics")


@pytest.mark.parametrize("verdict", PROGRAMS)
async def test_each_verdict_is_counted_with_its_times(door: Door, verdict: str) -> None:
    before = await door.samples()
    (execution,) = await door.execute(PROGRAMS[verdict])
    after = await door.samples()

    def more(name: str, **labels: str) -> float:
        return after.of(name, **labels) - before.of(name, **labels)

    assert more("ratchet_sandbox_programs_total") == 1
    assert more("ratchet_sandbox_programs_total", verdict=verdict, runtime="python", level=_level(execution)) == 1
    for phase in ("queue", "run", "cpu", "judge"):
        assert more("ratchet_sandbox_program_seconds_count", phase=phase, verdict=verdict) == 1
    took = {"run": execution.wall_time.ToTimedelta(), "cpu": execution.cpu_time.ToTimedelta()}
    for phase, time in took.items():
        seconds = more("ratchet_sandbox_program_seconds_sum", phase=phase, verdict=verdict)
        assert seconds == pytest.approx(time.total_seconds(), abs=1e-5)
    assert more("ratchet_sandbox_signs_total", sign="unasked bytes") == (verdict == "tampered")


@pytest.mark.parametrize(
    ("kind", "source"),
    [
        ("unasked bytes", FORGED),
        ("early exit", "import os\ndef f(x): os._exit(0)"),
        ("disguised object", "int = type('int', (), {})\ndef f(x): return int()"),
    ],
)
async def test_each_sign_is_counted(door: Door, kind: str, source: str) -> None:
    before = await door.samples()
    (execution,) = await door.execute(pb.Program(source=source, entry_point="f", tests=[CALL]))
    after = await door.samples()
    for labels, count in (({"sign": kind}, 1), ({}, len(execution.signs)), ({"sign": "other"}, 0)):
        more = after.of("ratchet_sandbox_signs_total", **labels) - before.of("ratchet_sandbox_signs_total", **labels)
        assert more == count, (labels, execution.signs)


async def test_lanes_level_and_queue(door: Door) -> None:
    sleeper = pb.Program(source="import time; time.sleep(2)")
    running = asyncio.create_task(door.execute(*[sleeper] * 6))
    samples = await door.samples()
    # two run, and one waits at the lanes
    wanted = {"busy": 2, "waiting": 3}
    for _ in range(80):
        busy, waiting = samples.of("ratchet_sandbox_lanes", state="busy"), samples.of("ratchet_sandbox_queue_waiting")
        if (seen := {"busy": busy, "waiting": waiting}) == wanted:
            break
        await asyncio.sleep(0.02)
        samples = await door.samples()
    assert seen == wanted
    assert samples.of("ratchet_sandbox_lanes", state="limit") == 2
    assert samples.of("ratchet_sandbox_lanes", state="up") == 2
    assert samples.of("ratchet_sandbox_queue_waiting", priority="normal") == 3
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await door.execute(PROGRAMS["passed"])
    assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    executions = await running
    later = await door.samples()
    assert later.of("ratchet_sandbox_refused_total") - samples.of("ratchet_sandbox_refused_total") == 1
    assert later.of("ratchet_sandbox_queue_waiting") == 0
    assert later.of("ratchet_sandbox_lanes", state="busy") == 0
    assert f"L{later.of('ratchet_sandbox_level'):.0f}" == _level(executions[0])
    waited = later.of("ratchet_sandbox_program_seconds_sum", phase="queue")
    assert waited - samples.of("ratchet_sandbox_program_seconds_sum", phase="queue") > 1


async def test_nothing_of_the_callers_choosing_is_a_label(door: Door) -> None:
    odd = pb.Program(source="raise SystemExit('word-of-a-program')", id="id-of-a-program", entry_point="word")
    await door.execute(odd)
    for unknown in (
        pb.Program(source="1", language="lingo"),
        pb.Program(source="1", runtime="runtime-nobody-has"),
    ):
        with pytest.raises(grpc.aio.AioRpcError):
            await door.execute(unknown)
    page = await door.page()
    for word in (CALLER, "word-of-a-program", "id-of-a-program", "lingo", "runtime-nobody-has"):
        assert word not in page


# The dashboard

DASHBOARD = DEPLOY / "grafana" / "dashboards" / "sandbox.json"
EXPRESSIONS = boards.expressions_of(DASHBOARD)


async def test_the_dashboard_asks_for_what_there_is(door: Door) -> None:
    await door.execute(*list(PROGRAMS.values())[:4])
    await door.execute(PROGRAMS["tampered"])
    samples = await door.samples()
    asked = boards.metrics_in(DASHBOARD.read_text())
    assert len(asked) > 10
    assert asked <= samples.names
    for expression in EXPRESSIONS:
        for name, label in boards.labels_in(expression):
            assert label in samples.labels(name) | boards.FROM_PROMETHEUS, (name, label, expression)


async def test_the_dashboard_shows_every_metric_of_programs(door: Door) -> None:
    await door.execute(PROGRAMS["tampered"])
    exported = {re.sub(r"_(bucket|sum|count|created)$", "", name) for name in (await door.samples()).names}
    own = {
        name for name in exported if re.match(r"ratchet_sandbox_(program|signs|lanes|queue|level|refused|plat)", name)
    }
    text = " ".join(EXPRESSIONS)
    assert [name for name in own if name not in text and not name.endswith("_created")] == []
