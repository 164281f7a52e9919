from datetime import timedelta

import pytest
from google.protobuf.duration_pb2 import Duration

from ratchet.common.v1 import problem_pb2 as common
from ratchet.common.v1 import verdict_pb2
from ratchet.sandbox.v1 import program_pb2 as pb
from ratchet_kit.errors import InvalidArgument
from sandbox_service import convert
from sandbox_service.domain.execution import Execution, TestResult, Verdict
from sandbox_service.domain.program import CallTest, CheckTest, Limits, Program, StdioTest
from sandbox_service.domain.stream import Item, PlatformFault

BOUNDS = convert.Bounds(Limits(timedelta(seconds=10), 1 << 30, 1 << 20), text_bytes=10_000)


def call(args: str = "[1]", expected: str = "2", tolerance: float | None = None) -> common.Test:
    return common.Test(call=common.CallTest(args=args, expected=expected, tolerance=tolerance))


def faults(*programs: pb.Program) -> dict[str, str]:
    with pytest.raises(InvalidArgument) as refused:
        convert.programs_from_proto(programs, BOUNDS)
    return {violation.field: violation.description for violation in refused.value.violations}


def test_a_program_with_every_kind_of_test() -> None:
    message = pb.Program(
        id="p",
        source="s",
        entry_point="f",
        tests=[
            call("[1, (2, {3})]", "-inf", 0.5),
            common.Test(stdio=common.StdioTest(stdin="a", expected_stdout="b", tolerance=0.5)),
        ],
        limits=common.Limits(cpu_time=Duration(seconds=3), memory_bytes=1 << 28, output_bytes=10),
    )
    message.tests.append(common.Test(check=common.CheckTest(code="assert f(1)")))
    assert convert.program_from_proto(message, BOUNDS) == Program(
        "p",
        "s",
        "f",
        (CallTest((1, (2, {3})), float("-inf"), 0.5), StdioTest("a", "b", tolerance=0.5), CheckTest("assert f(1)")),
        "",
        Limits(timedelta(seconds=3), 1 << 28, 10),
    )


def test_what_is_not_set_has_a_default() -> None:
    program = convert.program_from_proto(pb.Program(entry_point="f", tests=[call()]), BOUNDS)
    assert program.limits == Limits(timedelta(seconds=5), 512 << 20, 64 << 10)
    assert program.tests == (CallTest((1,), 2),)


@pytest.mark.parametrize(
    ("code", "calls"),
    [
        ("def check(candidate):\n    assert candidate(1) and check\n", False),
        ("def check(candidate): assert candidate(1)\ncheck(f)", True),
        ("def check(candidate): assert candidate(1)\nif True:\n    check(f)", True),
        ("assert f(1)", False),
    ],
)
def test_sees_whether_check_is_called(code: str, calls: bool) -> None:
    message = pb.Program(entry_point="f", tests=[common.Test(check=common.CheckTest(code=code))])
    assert convert.program_from_proto(message, BOUNDS).tests == (CheckTest(code, calls),)


@pytest.mark.parametrize(
    "text",
    [
        "foo()",
        "",
        "[1",
        "x",
        "1 +",
        "[" * 10_000,
        "-" * 9_000 + "1",
        "1+" * 4_000 + "1",
        "[1,\x00]",
        "__import__('os')",
        "f'{1}'",
        "{[]: 1}",
        "9" * 5_000 + "x",
        "[i for i in ()]",
        "'\\ud8'",
        "\\",
        "nan()",
        "{1: 2, **{}}",
    ],
)
def test_what_is_no_literal_is_named(text: str) -> None:
    good = pb.Program(entry_point="f", tests=[call()])
    found = faults(good, pb.Program(entry_point="f", tests=[call(), call(args=text, expected=text)]))
    assert list(found) == ["programs[1].tests[1].call.args", "programs[1].tests[1].call.expected"]
    assert all("is not a Python literal" in description for description in found.values())


def test_an_empty_literal_is_said_to_be_empty() -> None:
    with pytest.raises(ValueError, match="it is empty"):
        convert.literal(" ")


def test_a_duration_of_two_signs_is_refused() -> None:
    limits = common.Limits(cpu_time=Duration(seconds=1, nanos=-5))
    bad = pb.Program(entry_point="f", tests=[call()], limits=limits)
    assert list(faults(bad)) == ["programs[0].limits.cpu_time.nanos"]


@pytest.mark.parametrize(
    "text", ["nan", "[inf, -inf]", "{'a': (nan,)}", " 1", "1_000", "'x' 'y'", "1+2j", "set()", "b'a'", "None"]
)
def test_literals(text: str) -> None:
    convert.literal(text)


def test_literals_of_keys_with_one_hash_are_refused() -> None:
    keys = [f"{k * (2**61 - 1)}" for k in range(1, 3_000)]
    for text in (f"{{{', '.join(keys)}}}", f"[{{{': 0, '.join(keys)}: 0}}]", f"{{{',), ('.join(['(0', *keys])},)}}"):
        with pytest.raises(ValueError, match="more than 100 keys of one hash"):
            convert.literal(text)
    assert convert.literal("{-1: 0, -2: 0}") == {-1: 0, -2: 0}
    assert len(convert.literal(repr(set(range(5000))))) == 5000  # type: ignore[arg-type]


def test_every_fault_is_found_at_once() -> None:
    bad = pb.Program(
        source="x" * 10_001,
        stdin="é" * ((8 << 20) + 1),
        entry_point="not a name",
        tests=[call("1", tolerance=-1), common.Test(), common.Test(check=common.CheckTest(code="def"))],
        limits=common.Limits(cpu_time=Duration(seconds=11), memory_bytes=1, output_bytes=-1),
    )
    assert set(faults(bad)) == {
        "programs[0].source",
        "programs[0].stdin",
        "programs[0].entry_point",
        "programs[0].tests[0].call.args",
        "programs[0].tests[0].call.tolerance",
        "programs[0].tests[1]",
        "programs[0].tests[2].check.code",
        "programs[0].limits.cpu_time",
        "programs[0].limits.memory_bytes",
        "programs[0].limits.output_bytes",
    }


@pytest.mark.parametrize("seconds", [0, -1, 10.001, 1e9])
def test_cpu_time_has_bounds(seconds: float) -> None:
    message = pb.Program()
    message.limits.cpu_time.FromTimedelta(timedelta(seconds=seconds))
    assert list(faults(message)) == ["programs[0].limits.cpu_time"]


def test_numbers_of_things_have_bounds() -> None:
    assert "programs" in faults(*[pb.Program()] * 257)
    assert "programs[0].tests" in faults(pb.Program(entry_point="f", tests=[call()] * 1001))


def test_entry_points_may_be_methods() -> None:
    for text, name in {"f": "f", "Solution.f": "Solution.f", "Solution().f": "Solution.f"}.items():
        message = pb.Program(
            source="x", entry_point=text, tests=[common.Test(check=common.CheckTest(code="assert candidate(1)"))]
        )
        assert convert.program_from_proto(message, BOUNDS).entry_point == name
    for text in ("a.b.c", "f()", "2", "a.", ""):
        message = pb.Program(
            source="x", entry_point=text, tests=[common.Test(check=common.CheckTest(code="assert candidate(1)"))]
        )
        with pytest.raises(InvalidArgument, match=r"program\.entry_point"):
            convert.program_from_proto(message, BOUNDS)


@pytest.mark.parametrize(
    ("call", "field"),
    [
        (common.CallTest(args="[]", raises="ValueError", expected="1"), "expected"),
        (common.CallTest(args="[]", raises="not one"), "raises"),
        (common.CallTest(args="[]", expected="{1}", unordered=True), "unordered"),
        (common.CallTest(args="[]", raises="KeyError", unordered=True), "unordered"),
    ],
)
def test_what_contradicts_itself_in_a_call_test(call: common.CallTest, field: str) -> None:
    message = pb.Program(source="x", entry_point="f", tests=[common.Test(call=call)])
    with pytest.raises(InvalidArgument, match=rf"tests\[0\]\.call\.{field}"):
        convert.program_from_proto(message, BOUNDS)


def test_a_check_that_parses_and_does_not_compile_is_refused() -> None:
    message = pb.Program(source="x", entry_point="f", tests=[common.Test(check=common.CheckTest(code="return f(1)"))])
    with pytest.raises(
        InvalidArgument, match=r"tests\[0\]\.check\.code is not valid Python: 'return' outside function"
    ):
        convert.program_from_proto(message, BOUNDS)


def test_standard_input_is_for_a_program_without_tests() -> None:
    test = common.Test(stdio=common.StdioTest(stdin="1", expected_stdout="1"))
    found = faults(pb.Program(source="f = abs", stdin="1", tests=[test]))
    assert found == {"programs[0].stdin": "is for a program without tests: a stdio test has its own"}


def test_held_out_goes_both_ways() -> None:
    tests = [
        common.Test(call=common.CallTest(args="[1]", raises="KeyError"), held_out=True),
        common.Test(stdio=common.StdioTest(), held_out=True),
        common.Test(check=common.CheckTest(code="assert f(1)"), held_out=True),
    ]
    program = convert.program_from_proto(pb.Program(source="x", entry_point="f", tests=tests), BOUNDS)
    assert all(test.held_out for test in program.tests)
    assert program.tests[0] == CallTest((1,), None, raises="KeyError", held_out=True)


def test_nan_tolerance() -> None:
    assert list(faults(pb.Program(entry_point="f", tests=[call(tolerance=float("nan"))]))) == [
        "programs[0].tests[0].call.tolerance"
    ]


def test_every_verdict_has_its_number() -> None:
    for verdict in Verdict:
        execution = Execution(
            "p", verdict, (TestResult(True, "1", "1"),), 2, "out", "err", timedelta(1), timedelta(2), "x", "why"
        )
        message = convert.execution_to_proto(execution)
        name = "UNSPECIFIED" if verdict is Verdict.NONE else verdict.name
        assert verdict_pb2.Verdict.Name(message.verdict) == f"VERDICT_{name}"
        assert (message.tests_passed, message.tests_total) == (1, 2)


def test_a_fault_is_no_execution() -> None:
    assert convert.item_to_proto(Item(0, PlatformFault("lost"))).WhichOneof("outcome") == "platform_error"
