"""Whatever is sent to Execute, StreamExecute and Grade: a verdict, or whose fault it is. Never a hang, never our fault.

Real gRPC, real lanes. `make test` takes the same examples each time.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import grpc
import pytest
import pytest_asyncio
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from ratchet.common.v1 import problem_pb2 as common
from ratchet.common.v1 import verdict_pb2
from ratchet.sandbox.v1 import program_pb2 as pb
from ratchet_kit.client import channel
from ratchet_kit.errors import InvalidArgument, RatchetError
from ratchet_kit.grpc_errors import rpc_errors
from sandbox_service.settings import Settings

from ..node import SERVICE, Stubs, serving

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(180)]

LIMIT = 60  # seconds: nothing here may come near it
# Of a caller's fault. FAILED_PRECONDITION: processes, at L1.
ITS_FAULT = {
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.UNIMPLEMENTED,
    grpc.StatusCode.FAILED_PRECONDITION,
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def door() -> AsyncIterator[grpc.aio.Channel]:
    service = Settings(port=0, lanes=2, idle_extra=timedelta(seconds=0.1), log_level="WARNING")
    async with serving(service) as address:
        async with channel(address, retries=False) as door:
            yield door


@pytest.fixture
def stub(door: grpc.aio.Channel) -> Stubs:
    return Stubs.of(door)


# What is sent

LINES = [
    "def f(x): return x", "def f(*a): return a", "def f(x=1): return x + 1", "f = 1", "f = lambda x: x / 0",
    "class f:\n    def __eq__(self, other): return True", "async def f(x): return x", "def f(x):\n    yield x",
    "def f(x): return f(x)", "def f(x): raise SystemExit", "def f(x): x.append(x); return x",
    "def f(x): return '\\ud800' * 9", "def f(x): return 10 ** 5000", "def f(x): return float('nan')",
    "print(1)", "print(input())", "print('x' * 100_000)", "print('\\ud800\\0')", "import sys; sys.exit(3)",
    "import os; os._exit(0)", "import os; os.kill(os.getpid(), 9)", "import os; os.write(3, b'x')", "import numpy",
    "import nothing_of_that_name", "from . import f", "import time; time.sleep(9)", "while True: pass",
    "open('a.txt', 'w').write('x')", "print(open('data/a.txt', 'rb').read())", "raise ValueError('é' * 5000)",
    "return", "await f()", "yield 1", "x = (", "x = '\\N{no such}'", "\tx = 1", "  y = 2", "# coding: latin-1",
    "from __future__ import braces", "from __future__ import annotations", "exit()", "\0", "\ufeff", "\x0c", "\\",
    "match f:\n    case _: pass", "global f", "del f", "import gc; gc.disable()", "f'{'", "assert f(1) == 1",
    "def check(candidate): assert candidate(1) == 1", "import unittest", "echo 1", "int main() { return 0; }",
]  # fmt: skip
LITERALS = [
    "[1]", "[]", "[[1, 2], {3: 4}]", "['a']", "1", "None", "nan", "[inf]", "-inf", "{1, 2}", "f()", "[f]", "", " [1]",
    "(1,)", "1 +", "[b'\\xff']", "'\\ud800'", "[" * 90 + "]" * 90, "[" * 150 + "]" * 150, "1j", "0x" + "f" * 9999,
    "[1e999]", "{[]}", "...", "{**{}}", "[*()]", "[1] * 9", "'''", "\0", "1" * 5000,
]  # fmt: skip
NAMES = ["f", "Solution.f", "", "f.g.h.i", "def", "1", "__import__", "f ", "ﬁ", "check", "f" * 3000, "\0"]


def usually(good: st.SearchStrategy[Any], odd: st.SearchStrategy[Any], of: int = 12) -> st.SearchStrategy[Any]:
    """One odd thing makes a request invalid, and the rest of it unseen: so there are few of them."""
    return st.integers(1, of).flatmap(lambda n: odd if n == of else good)


def limits(seconds: int, nanos: int, memory: int | None, output: int | None) -> common.Limits:
    made = common.Limits(memory_bytes=memory, output_bytes=output)
    made.cpu_time.seconds, made.cpu_time.nanos = seconds, nanos
    return made


any_source = st.one_of(
    st.lists(st.sampled_from(LINES), min_size=1, max_size=3).map("\n".join),
    st.sampled_from(["def f(x): return 1", "def f(x): return x", "print(1)", "while True: pass", "input('x' * 10**6)"]),
    st.text(max_size=200),
    st.binary(max_size=60).map(lambda data: data.decode("latin-1")),
)
odd_literal = st.one_of(st.sampled_from(LITERALS), st.text(max_size=20))
any_literal = usually(st.one_of(st.just("1"), st.integers().map(repr), st.floats().map(repr)), odd_literal)
any_args = usually(st.lists(st.integers(0, 9), max_size=2).map(repr), odd_literal)
any_name = usually(st.just("f"), st.one_of(st.sampled_from(NAMES), st.text(max_size=9)))
any_call = st.builds(
    common.CallTest,
    args=any_args,
    expected=any_literal,
    tolerance=usually(st.floats(0, 1), st.floats()),
    raises=usually(st.just(""), st.sampled_from(["ValueError", "1", "é"])),
    unordered=usually(st.just(False), st.just(True)),
)
any_stdio = st.builds(
    common.StdioTest, stdin=st.text(max_size=20), expected_stdout=st.one_of(st.just("1"), st.text(max_size=20))
)
any_check = st.builds(
    common.CheckTest,
    code=usually(
        st.sampled_from(["assert f(1) == 1", "def check(g): assert g(1) == 1"]),
        st.one_of(st.sampled_from(["f(2)", "def check(g): g()"]), any_source),
        4,
    ),
)
any_test = st.one_of(
    st.builds(common.Test, call=any_call, held_out=st.booleans()),
    st.builds(common.Test, stdio=any_stdio, held_out=st.booleans()),
    st.builds(common.Test, check=any_check, held_out=st.booleans()),
)
any_tests = usually(st.lists(any_test, max_size=3), st.just([common.Test()]), 20)
graded_tests = usually(st.lists(any_test, min_size=1, max_size=3), any_tests)
int64 = st.integers(-(2**63), 2**63 - 1)
# An endless program takes all of its time. In a few milliseconds hardly any comes to an end.
any_time = usually(st.integers(5 * 10**7, 10**8), st.integers(1000, 10**7), 4)
any_limits = usually(
    st.builds(limits, st.just(0), any_time, st.none(), st.sampled_from([None, None, 1, 100])),
    st.builds(limits, int64, st.integers(-(2**31), 2**31 - 1), int64, int64),
)
any_file_name = usually(
    st.sampled_from(["data/a.txt", "a.txt", "program.py", "json.py", "é" * 100]),
    st.one_of(st.sampled_from(["..", "/etc/passwd", "a/" * 300 + "b", "é" * 200]), st.text(max_size=12)),
)
any_language = usually(
    st.just(""), st.one_of(st.sampled_from(["bash", "C++", "PYTHON3", "cobol"]), st.text(max_size=5))
)
any_runtime = usually(st.just(""), st.one_of(st.sampled_from(["python", "numpy", "none"]), st.text(max_size=5)))
any_program = st.builds(
    pb.Program,
    id=st.text(max_size=9),
    source=any_source,
    entry_point=any_name,
    tests=any_tests,
    stdin=usually(st.just(""), st.text(max_size=20)),
    limits=any_limits,
    language=any_language,
    runtime=any_runtime,
    processes=usually(st.just(False), st.just(True)),
    files=st.lists(st.builds(pb.File, name=any_file_name, content=st.binary(max_size=40)), max_size=2),
    fetch_files=st.lists(any_file_name, max_size=2),
)
any_priority = usually(st.integers(0, 3), st.integers(-(2**31), 2**31 - 1), 30)
any_request = st.builds(pb.ExecuteRequest, program=any_program, priority=any_priority, caller=st.text(max_size=9))
any_problem = st.builds(
    common.Problem,
    id=st.text(max_size=9),
    prompt=st.one_of(st.just(""), st.just("def f(x):\n"), any_source),
    entry_point=any_name,
    tests=graded_tests,
    language=any_language,
    runtime=any_runtime,
)
any_completion = st.one_of(
    any_source,
    any_source.map(lambda source: f"Sure:\n```python\n{source}\n```\nThat's it."),
    st.text(alphabet="`~<>|/think\n pydef(", max_size=80),
)
any_grade = st.builds(
    pb.GradeRequest,
    completion=any_completion,
    problem=any_problem,
    limits=any_limits,
    priority=any_priority,
    caller=st.text(max_size=9),
)
fuzz = settings(
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate],  # what fails is shown as it is: a smaller example would take minutes
    suppress_health_check=list(HealthCheck),
)


# What comes back


def check_execution(execution: pb.Execution, tests: int, held_out: int) -> str:
    """The verdict's name, of an answer that agrees with itself."""
    verdict = verdict_pb2.Verdict.Name(execution.verdict)
    assert execution.verdict != verdict_pb2.VERDICT_UNSPECIFIED
    assert execution.tests_total == tests
    assert len(execution.results) <= tests
    assert (verdict == "VERDICT_PASSED") == (execution.tests_passed == tests == len(execution.results)) or not tests
    if verdict not in ("VERDICT_PASSED", "VERDICT_FAILED"):
        assert execution.detail or held_out, execution
    assert all(len(text.encode()) <= 1024 for one in execution.results for text in (one.got, one.expected, one.error))
    assert execution.level
    return verdict


def check_refusal(error: grpc.aio.AioRpcError) -> str:
    assert error.code() in ITS_FAULT, error
    assert error.details(), error
    return str(error.code().name)


ALL_KINDS = {"VERDICT_PASSED", "VERDICT_FAILED", "VERDICT_RUNTIME_ERROR", "VERDICT_COMPILE_ERROR", "VERDICT_TIME_LIMIT",
             "INVALID_ARGUMENT", "UNIMPLEMENTED"}  # fmt: skip


async def test_any_execute(stub: Stubs) -> None:
    seen: Counter[str] = Counter()

    async def ask(request: pb.ExecuteRequest) -> None:
        tests = request.program.tests
        try:
            execution = (await stub.programs.Execute(request, timeout=LIMIT)).execution
        except grpc.aio.AioRpcError as error:
            seen[check_refusal(error)] += 1
        else:
            assert execution.id == request.program.id
            seen[check_execution(execution, len(tests), sum(test.held_out for test in tests))] += 1

    await every_example(any_request, 1000, ask)
    assert seen.keys() >= ALL_KINDS | {"VERDICT_OUTPUT_LIMIT"}, seen


async def test_any_grade(stub: Stubs) -> None:
    seen: Counter[str] = Counter()

    async def ask(request: pb.GradeRequest) -> None:
        tests = request.problem.tests
        try:
            graded = await stub.programs.Grade(request, timeout=LIMIT)
        except grpc.aio.AioRpcError as error:
            seen[check_refusal(error)] += 1
        else:
            assert graded.source or not request.completion.strip()
            seen[check_execution(graded.execution, len(tests), sum(test.held_out for test in tests))] += 1

    await every_example(any_grade, 600, ask)
    assert seen.keys() >= ALL_KINDS, seen


async def test_any_bytes(door: grpc.aio.Channel) -> None:
    """A request's bytes with some of them changed: most are no message, some are another one."""
    seen: Counter[str] = Counter()
    whole = any_request.map(lambda request: request.SerializeToString())
    changes = st.lists(st.tuples(st.integers(0, 10**4), st.binary(min_size=1, max_size=1)), min_size=1, max_size=2)

    def change(data: bytes, places: list[tuple[int, bytes]]) -> bytes:
        for place, new in places:
            at = place % (len(data) + 1)
            data = data[:at] + new + data[at + 1 :]
        return data

    execute = door.unary_unary(f"/{SERVICE}/Execute", response_deserializer=pb.ExecuteResponse.FromString)

    async def ask(data: bytes) -> None:
        try:
            seen[verdict_pb2.Verdict.Name((await execute(data, timeout=LIMIT)).execution.verdict)] += 1
        except grpc.aio.AioRpcError as error:
            seen[check_refusal(error)] += 1

    await every_example(st.builds(change, whole, changes), 800, ask)
    assert seen["INVALID_ARGUMENT"] > 20, seen
    assert sum(count for name, count in seen.items() if name.startswith("VERDICT")) > 20, seen


async def every_example(strategy: st.SearchStrategy[Any], count: int, ask: Any) -> None:
    """Asks in this loop, while hypothesis drives from a thread."""
    loop = asyncio.get_running_loop()

    @given(strategy)
    @settings(fuzz, max_examples=count)
    def drive(example: Any) -> None:
        asyncio.run_coroutine_threadsafe(ask(example), loop).result(2 * LIMIT)

    await asyncio.to_thread(drive)


# By name

CALL = common.Test(call=common.CallTest(args="[1]", expected="2"))
CHECK = common.Test(check=common.CheckTest(code="assert f(1) == 2"))
STDIO = common.Test(stdio=common.StdioTest(expected_stdout="2"))
RIGHT = "def f(x):\n    return x + 1\nprint(2)\n"
NEST = {
    "parentheses": "(" * 100_000,
    "closed": "x = " + "[" * 500 + "]" * 500,
    "signs": "x = " + "-" * 300_000 + "1",
    "sums": "x = " + "1+" * 300_000 + "1",
    "attributes": "x = a" + ".a" * 400_000,
    "elifs": "if 0: pass\n" + "elif 0: pass\n" * 50_000,
    "calls": "x = " + "f(" * 100_000,
    "indents": "".join(" " * i + "if 1:\n" for i in range(120)) + " " * 120 + "pass",
    "lambdas": "x = " + "lambda:" * 100_000 + "1",
    "subscripts": "x = a" + "[0]" * 200_000,
    "strings": "x = " + "f'{" * 1000,
}
BAD_TESTS = {
    "args that are no literal": common.CallTest(args="[f()]", expected="2"),
    "args that are no list": common.CallTest(args="1", expected="2"),
    "args cut off": common.CallTest(args="[1", expected="2"),
    "no args": common.CallTest(expected="2"),
    "an expected value that is no literal": common.CallTest(args="[1]", expected="f(1)"),
    "an expected value with NUL": common.CallTest(args="[1]", expected="2\0"),
    "args nested too deeply": common.CallTest(args="[" * 101 + "]" * 101, expected="2"),
    "an expected value nested too deeply": common.CallTest(args="[1]", expected="[" * 101 + "]" * 101),
    "args nested for the parser": common.CallTest(args="[" * 10**5, expected="2"),
    "an integer too long": common.CallTest(args="[1]", expected="1" * (10**5 + 1)),
    "a tolerance that is none": common.CallTest(args="[1]", expected="2", tolerance=float("nan")),
    "a check that doesn't parse": common.CheckTest(code="def check(candidate:\n"),
    "a check with NUL": common.CheckTest(code="assert f(1) == 2\0"),
    "a check nested for the parser": common.CheckTest(code="x = " + "-" * 10**5 + "1"),
}


async def verdicts(stub: Stubs, program: pb.Program) -> set[str]:
    """Of Execute, StreamExecute and, without files, Grade: one, if all is well."""
    found = {(await stub.programs.Execute(pb.ExecuteRequest(program=program), timeout=LIMIT)).execution.verdict}
    async for reply in stub.programs.StreamExecute(iter([pb.StreamExecuteRequest(programs=[program])]), timeout=LIMIT):
        found |= {item.execution.verdict for item in reply.items}
    if not program.files:
        problem = common.Problem(entry_point=program.entry_point, tests=program.tests)
        request = pb.GradeRequest(completion=f"```python\n{program.source}\n```", problem=problem)
        found.add((await stub.programs.Grade(request, timeout=LIMIT)).execution.verdict)
    return {verdict_pb2.Verdict.Name(verdict).removeprefix("VERDICT_") for verdict in found}


async def refusals(stub: Stubs, program: pb.Program) -> set[type[RatchetError]]:
    problem = common.Problem(entry_point=program.entry_point, tests=program.tests or [CALL])
    grade = pb.GradeRequest(completion=program.source, problem=problem, limits=program.limits)
    found: set[type[RatchetError]] = set()
    for call in (
        stub.programs.Execute(pb.ExecuteRequest(program=program), timeout=LIMIT),
        stub.programs.Grade(grade, timeout=LIMIT),
    ):
        with pytest.raises(RatchetError) as refused, rpc_errors():
            await call
        found.add(type(refused.value))
    with pytest.raises(RatchetError) as refused, rpc_errors():
        async for _ in stub.programs.StreamExecute(iter([pb.StreamExecuteRequest(programs=[program])]), timeout=LIMIT):
            pass
    return {*found, type(refused.value)}


@pytest.mark.parametrize("test", [CALL, CHECK, STDIO], ids=["call", "check", "stdio"])
@pytest.mark.parametrize("nest", NEST)
async def test_nesting_that_overflows_the_parser(stub: Stubs, nest: str, test: common.Test) -> None:
    program = pb.Program(source=NEST[nest], entry_point="f", tests=[test])
    assert await verdicts(stub, program) == {"COMPILE_ERROR"}


@pytest.mark.parametrize(
    ("source", "test", "verdict"),
    [
        ("def f(x): return x\0", CALL, "COMPILE_ERROR"),
        ("\0", CHECK, "COMPILE_ERROR"),
        ("print(2)\0", STDIO, "COMPILE_ERROR"),
        ("", CALL, "RUNTIME_ERROR"),
        ("", CHECK, "RUNTIME_ERROR"),
        ("", STDIO, "FAILED"),
        ("x = 1", CALL, "RUNTIME_ERROR"),
        ("x = 1", CHECK, "RUNTIME_ERROR"),
        ("def g(x): return x + 1", CALL, "RUNTIME_ERROR"),
        ("def g(x): return x + 1", CHECK, "RUNTIME_ERROR"),
        ("f = 3", CALL, "RUNTIME_ERROR"),
        ("def f(): return 2", CALL, "RUNTIME_ERROR"),
        ("def f(x, y): return 2", CHECK, "RUNTIME_ERROR"),
        (RIGHT, CALL, "PASSED"),
        (RIGHT, CHECK, "PASSED"),
        (RIGHT, STDIO, "PASSED"),
    ],
)
async def test_programs_that_lack_what_is_tested(stub: Stubs, source: str, test: common.Test, verdict: str) -> None:
    assert await verdicts(stub, pb.Program(source=source, entry_point="f", tests=[test])) == {verdict}


@pytest.mark.parametrize("name", BAD_TESTS)
async def test_tests_that_are_none(stub: Stubs, name: str) -> None:
    bad = BAD_TESTS[name]
    test = common.Test(call=bad) if isinstance(bad, common.CallTest) else common.Test(check=bad)
    program = pb.Program(source=RIGHT, entry_point="f", tests=[CALL, test])
    assert await refusals(stub, program) == {InvalidArgument}


@pytest.mark.parametrize("name", ["", "1f", "f()", "f g", "f\0", "é é"])
async def test_entry_points_that_are_no_name(stub: Stubs, name: str) -> None:
    assert await refusals(stub, pb.Program(source=RIGHT, entry_point=name, tests=[CALL])) == {InvalidArgument}


async def test_ten_megabytes_of_source(stub: Stubs) -> None:
    program = pb.Program(source="x = 1\n" * (10 << 20), entry_point="f", tests=[CALL])
    assert await refusals(stub, pb.Program(source=program.source[: 10 << 20], entry_point="f")) == {InvalidArgument}
    long_test = common.Test(check=common.CheckTest(code="x = 1\n" * (1 << 20)))
    assert await refusals(stub, pb.Program(source=RIGHT, entry_point="f", tests=[long_test])) == {InvalidArgument}


@pytest.mark.parametrize(("seconds", "nanos"), [(2**62, 0), (-(2**62), 0), (0, 0), (-1, 0), (0, -1), (3600, 0)])
async def test_a_time_that_is_no_limit(stub: Stubs, seconds: int, nanos: int) -> None:
    program = pb.Program(source=RIGHT, entry_point="f", limits=limits(seconds, nanos, None, None))
    assert await refusals(stub, program) == {InvalidArgument}


@pytest.mark.parametrize("test", [CALL, CHECK, STDIO], ids=["call", "check", "stdio"])
async def test_a_limit_that_is_reached_before_the_program_is_read(stub: Stubs, test: common.Test) -> None:
    """What its process left unread must not be taken for the next request."""
    flood = pb.Program(source="print('x' * 10**6)", entry_point="f", tests=[test], limits=limits(0, 1000, None, 1))
    flood.files.add(name="a", content=bytes(8 << 20))
    for _ in range(5):
        assert await verdicts(stub, flood) <= {"TIME_LIMIT", "OUTPUT_LIMIT"}
        assert await verdicts(stub, pb.Program(source=RIGHT, entry_point="f", tests=[test])) == {"PASSED"}


async def test_bytes_that_are_not_utf_8(door: grpc.aio.Channel) -> None:
    def field(number: int, data: bytes) -> bytes:
        return bytes([number << 3 | 2, len(data)]) + data

    wrong = b"f = '\xff'"
    requests = {
        "Execute": [field(1, field(number, wrong)) for number in (1, 2, 3, 5, 7, 8, 11)],
        "Grade": [field(1, wrong), *(field(2, field(number, wrong)) for number in (1, 2, 3, 5, 6)), field(5, wrong)],
    }
    for name, each in requests.items():
        for data in each:
            with pytest.raises(InvalidArgument, match="UTF-8"), rpc_errors():
                await door.unary_unary(f"/{SERVICE}/{name}")(data, timeout=LIMIT)


@pytest.mark.parametrize(
    "program",
    [
        pb.Program(source="1", language="é" * 100_000),
        pb.Program(source="1", runtime="\n" * 100_000),
        pb.Program(source="1", files=[pb.File(name="/" + "é" * 9000)] * 250),
        pb.Program(source="1", entry_point="f", tests=[common.Test()] * 1000),
    ],
    ids=["language", "runtime", "files", "tests"],
)
async def test_a_refusal_is_never_too_long_to_be_sent(stub: Stubs, program: pb.Program) -> None:
    """What is too long for gRPC comes as RESOURCE_EXHAUSTED, and is tried again in vain."""
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await stub.programs.Execute(pb.ExecuteRequest(program=program), timeout=LIMIT)
    assert refused.value.code() in (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.UNIMPLEMENTED)
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        async for _ in stub.programs.StreamExecute(
            iter([pb.StreamExecuteRequest(programs=[program] * 9)]), timeout=LIMIT
        ):
            pass
    assert refused.value.code() in (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.UNIMPLEMENTED)


async def test_it_still_works(stub: Stubs) -> None:
    """Last in this file, after all of the above."""
    assert await verdicts(stub, pb.Program(source=RIGHT, entry_point="f", tests=[CALL, CHECK, STDIO])) == {"PASSED"}
