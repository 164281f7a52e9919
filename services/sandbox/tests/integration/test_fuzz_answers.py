"""Whatever a program says, on whatever channel: a verdict for it, and its neighbours keep theirs.

RATCHET_FUZZ_CASES: how many programs (500; `make soak` takes 10,000).
"""

import asyncio
import json
import os
from collections import Counter
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
import pytest_asyncio
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from ratchet.common.v1 import problem_pb2 as common
from ratchet.common.v1 import verdict_pb2
from ratchet.sandbox.v1 import program_pb2 as pb
from ratchet_kit.client import channel
from sandbox_service import convert
from sandbox_service.adapters.lanes import protocol
from sandbox_service.domain import grading
from sandbox_service.domain.jobs import Command, CommandJob, Report
from sandbox_service.domain.levels import Level
from sandbox_service.domain.plan import plan
from sandbox_service.domain.program import CallTest, CheckTest, Limits, Program, StdioTest
from sandbox_service.settings import Settings

from ..node import Stubs, serving

CASES = int(os.environ.get("RATCHET_FUZZ_CASES", "500"))
TOGETHER = 10
LIMIT = 120  # seconds: nothing here may come near it

pytestmark = pytest.mark.timeout(300 + CASES // 5)

fuzz = settings(
    deadline=None,
    derandomize=CASES == 500,  # `make test` takes the same each time
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)

# What a program may say

texts = st.one_of(
    st.text(max_size=8),
    st.sampled_from(["\ud800", "\0", "é" * 9, "f" * 3000, "ValueError", "MemoryError", "int", "nan"]),
)
scalars = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), texts, st.sampled_from([2, 10**400, -(2**63), 1e308, "2"])
)
tags = st.sampled_from(["t", "d", "i", "s", "f", "b", "c", "l", "o", "r", "a", "n", "", "x" * 50])
libraries = st.sampled_from(
    [
        "Decimal",
        "Fraction",
        "Counter",
        "OrderedDict",
        "namedtuple",
        "bytearray",
        "dict_keys",
        "UserList",
        "datetime",
        "x",
    ]
)
forms = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.builds(lambda tag, body: {tag: body}, tags, inner),
        st.builds(lambda tag, body: {tag: body}, tags, st.lists(inner, max_size=3)),
        st.builds(lambda pairs: {"d": pairs}, st.lists(st.lists(inner, min_size=2, max_size=2), max_size=3)),
        st.builds(lambda name, parts: {"l": [name, *parts]}, libraries, st.lists(inner, max_size=3)),
        st.dictionaries(texts, inner, max_size=2),
    ),
    max_leaves=12,
)
DEEP: Any = 1
for _ in range(150):
    DEEP = [DEEP]
values = st.one_of(forms, st.sampled_from([2, DEEP, {"i": "f" * 9999}, {"i": "zz"}, {"b": "0"}, {"o": ["int", "2"]}]))
places = st.one_of(st.integers(0, 3), st.sampled_from([-1, True, 1.0, "0", None, 10**30]))
kinds = st.sampled_from(["compiled", "loaded", "end", "value", "raised", "error", "tests", "passed", "gone", "x"])
frames = st.one_of(
    st.builds(lambda place, value: ["value", place, value], places, values),
    st.builds(lambda place, *parts: ["raised", place, *parts], places, texts, texts, st.lists(texts, max_size=3)),
    st.builds(lambda kind, parts: [kind, *parts], kinds, st.lists(st.one_of(places, values), max_size=4)),
    st.builds(lambda kind: [kind], kinds),
)
noise = st.one_of(
    st.binary(max_size=30),
    st.sampled_from([b"\n", b"[", b"[" * 3000 + b"\n", b"x" * 70_000 + b"\n", b'["', b"\xff\n", b"{}\n", b"null\n"]),
)
said = st.lists(st.one_of(frames, noise), max_size=6)
ends = st.sampled_from(
    ["return 2", "os._exit(0)", "os._exit(3)", "raise ValueError", "os.kill(os.getpid(), 9)", "exit()"]
)
HOSTILE = """
import json, os, sys
def own(depth=1):
    while True:
        try:
            frame = sys._getframe(depth)
        except ValueError:
            return '["none", "'
        if hasattr(frame.f_locals.get("frames"), "_start"):
            return frame.f_locals["frames"]._start
        depth += 1
def say(descriptor):
    start = json.loads(own(2) + '"]')[0]
    for one in SAID:
        data = one if isinstance(one, bytes) else (json.dumps([start, *one]) + "\\n").encode()
        try:
            os.write(descriptor, data)
        except OSError:
            pass
"""


def hostile(said: list[Any], descriptor: int, end: str, at_load: bool, tests: list[common.Test]) -> pb.Program:
    # inf and nan are names that a program has not
    start = f"inf = float('inf')\nnan = float('nan')\nSAID = {said!r}{HOSTILE}"
    body = f"say({descriptor})\n{end if not end.startswith('return') else ''}\n" if at_load else ""
    source = f"{start}\n{body}def f(x):\n    say({descriptor})\n    {end}\n"
    made = pb.Program(source=source.encode("utf-8", "replace").decode(), entry_point="f", tests=tests)
    made.limits.cpu_time.FromTimedelta(timedelta(seconds=2))
    return made


CALLS = [common.Test(call=common.CallTest(args=f"[{i}]", expected="2")) for i in range(2)]
HELD_OUT = [common.Test(call=common.CallTest(args="[1]", expected="2"), held_out=True)]
CHECK = [common.Test(check=common.CheckTest(code="assert f(1) == 2"))]
STDIO = [common.Test(stdio=common.StdioTest(expected_stdout="2"))]
hostiles = st.builds(
    hostile,
    said,
    st.sampled_from([3, 3, 3, 1, 2, 4]),
    ends,
    st.booleans(),
    st.sampled_from([CALLS, CALLS, [*CALLS, *HELD_OUT], HELD_OUT, CHECK, STDIO, []]),
)
HONEST = pb.Program(source="def f(x):\n    return 2\nprint(2)\n", entry_point="f", tests=[*CALLS, *CHECK, *STDIO])


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stub() -> AsyncIterator[Stubs]:
    service = Settings(port=0, lanes=2, idle_extra=timedelta(seconds=0.1), log_level="ERROR")
    async with serving(service) as address:
        async with channel(address, retries=False) as door:
            yield Stubs.of(door)


@pytest.mark.integration
@pytest.mark.asyncio(loop_scope="module")
async def test_a_program_that_says_anything_gets_a_verdict_and_its_neighbours_theirs(stub: Stubs) -> None:
    seen: Counter[str] = Counter()
    loop = asyncio.get_running_loop()

    async def ask(programs: list[pb.Program]) -> None:
        request = pb.StreamExecuteRequest(programs=[HONEST, *programs, HONEST])
        items = {}
        async for reply in stub.programs.StreamExecute(iter([request]), timeout=LIMIT):
            items |= {item.index: item for item in reply.items}
        assert len(items) == len(request.programs)
        for index, item in items.items():
            assert item.WhichOneof("outcome") == "execution", (item.platform_error, request.programs[index].source)
            verdict = verdict_pb2.Verdict.Name(item.execution.verdict).removeprefix("VERDICT_")
            assert verdict != "UNSPECIFIED", (item.execution, request.programs[index].source)
            if 0 < index <= len(programs):
                seen[verdict] += 1
            else:
                assert verdict == "PASSED", item.execution

    @given(st.lists(hostiles, min_size=TOGETHER, max_size=TOGETHER))
    @settings(fuzz, max_examples=CASES // TOGETHER)
    def drive(programs: list[pb.Program]) -> None:
        asyncio.run_coroutine_threadsafe(ask(programs), loop).result(2 * LIMIT)

    await asyncio.to_thread(drive)
    assert seen.keys() >= {"PASSED", "FAILED", "RUNTIME_ERROR", "TAMPERED"}, seen


# The same without a cage: more of it

PROGRAM = Program("p", "source", "f", (CallTest((1,), 2), CallTest((2,), 2, unordered=False)))
KINDS = [
    PROGRAM,
    Program("p", "source", "f", (CallTest((1,), [1, 2.5, {"a"}], unordered=True), CallTest((1,), {1: (2,)}))),
    Program("p", "source", "f", (CallTest((1,), raises="ValueError"), CallTest((1,), {(1, 0.1)}, held_out=True))),
    Program("p", "source", "f", (CheckTest("assert f(1) == 2"),)),
    Program("p", "source", "f", (StdioTest("", "2"),)),
    Program("p", "source"),
]
ENDS = ["exited", "cpu", "tests", "memory", "idle", "wall", "output", "result"]


def read(program: Program, said: list[Any], tests: list[Any], output: bytes, end: str, status: int) -> list[Report]:
    reports = []
    for step in plan(program):
        job = step.job(Limits())
        assert not isinstance(job, Command | CommandJob)
        sent = protocol.request(job, timedelta(seconds=1), timedelta(seconds=1), 0, 1 << 20)
        frames = b"".join(_frame(one, sent.nonce) for one in said)
        testers = b"".join(_frame(one, sent.tests_nonce) for one in tests)
        blobs = [frames, output, output, testers]
        head = {"blobs": [len(blob) for blob in blobs], "end": end, "status": status, "cpu": 0.1, "wall": 0.1}
        head |= {"max_rss": 1 << 20, "cut": False, "killed": False, "files": []}
        reports.append(protocol.report(sent, head, b"".join(blobs), ("scripted",), Level.L1))
    return reports


def _frame(one: Any, nonce: str) -> bytes:
    return one if isinstance(one, bytes) else (json.dumps([nonce, *one]) + "\n").encode()


STARTS = [["compiled"], ["loaded"]]


@settings(fuzz, max_examples=CASES)
@given(
    st.sampled_from(KINDS),
    st.builds(lambda start, more: [*STARTS[:start], *more], st.integers(0, 2), said),
    said,
    st.binary(max_size=20),
    st.sampled_from(ENDS),
    st.integers(-64, 255),
)
def test_whatever_is_reported_becomes_an_answer_that_can_be_sent(
    program: Program, said: list[Any], tests: list[Any], output: bytes, end: str, status: int
) -> None:
    reports = read(program, said, tests, output, end, status)
    outcomes = [step.outcome(report) for step, report in zip(plan(program), reports, strict=True)]
    execution = grading.conclude(program, outcomes, reports)
    message = convert.execution_to_proto(execution)
    assert pb.Execution.FromString(message.SerializeToString()) == message
    assert len(execution.results) <= len(program.tests)
