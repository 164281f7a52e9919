"""Protobuf to the domain and back. Pure; every fault of a request is found and named."""

import ast
import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

from ratchet.sandbox.v1 import sandbox_pb2 as pb
from ratchet_kit import syntax
from ratchet_kit.errors import FieldViolation, InvalidArgument
from ratchet_kit.times import duration_from_proto, duration_to_proto, timestamp_to_proto
from ratchet_problems.extraction import source_for
from ratchet_problems.helpers import with_helpers
from ratchet_problems.problem import is_entry_point
from sandbox_service.cage import codec
from sandbox_service.domain.audit import Finding
from sandbox_service.domain.batch import PLATFORM_ERROR, Asked, Batch, Record, State
from sandbox_service.domain.batches import Progress
from sandbox_service.domain.benchmark import Measurement
from sandbox_service.domain.capabilities import Capabilities
from sandbox_service.domain.execution import Execution, TestResult, Verdict
from sandbox_service.domain.grading import clip
from sandbox_service.domain.program import CallTest, CheckTest, File, Limits, Program, StdioTest, Test
from sandbox_service.domain.queue import Priority
from sandbox_service.domain.stream import Item, PlatformFault

MAX_BATCH = 256
MAX_STORED_BATCH = 10_000
MAX_TESTS = 1000
MIN_MEMORY = 64 << 20
MAX_FILES = 256
MAX_FILE_BYTES = 16 << 20
_MAX_NAME = 255
DEFAULT_TOLERANCE = 1e-6

_VERDICTS = {
    Verdict.PASSED: pb.VERDICT_PASSED,
    Verdict.FAILED: pb.VERDICT_FAILED,
    Verdict.RUNTIME_ERROR: pb.VERDICT_RUNTIME_ERROR,
    Verdict.COMPILE_ERROR: pb.VERDICT_COMPILE_ERROR,
    Verdict.TIME_LIMIT: pb.VERDICT_TIME_LIMIT,
    Verdict.MEMORY_LIMIT: pb.VERDICT_MEMORY_LIMIT,
    Verdict.OUTPUT_LIMIT: pb.VERDICT_OUTPUT_LIMIT,
    Verdict.TAMPERED: pb.VERDICT_TAMPERED,
}
_STATES = {state: pb.Batch.State.Value(f"STATE_{state}") for state in State}
_PRIORITIES: dict[int, Priority] = {
    pb.PRIORITY_UNSPECIFIED: Priority.NORMAL,
    pb.PRIORITY_HIGH: Priority.HIGH,
    pb.PRIORITY_NORMAL: Priority.NORMAL,
    pb.PRIORITY_LOW: Priority.LOW,
}
_NO_ARGS: object = ()
# What codec writes for a value that can't reach a program; within a text these quotes are escaped.
_OPAQUE = '{"o": ['
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Bounds:
    """What the service takes: the largest limits, the longest text in bytes."""

    limits: Limits
    text_bytes: int


class _Reading:
    """One request being read: collects what's wrong with it, and parses each literal once, however often it's there.

    `take` gives a value, or a stand-in once its fault is noted.
    """

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self.literal: Callable[[str], object] = functools.cache(literal)
        self._faults: list[FieldViolation] = []

    def fault(self, field: str, description: str) -> None:
        self._faults.append(FieldViolation(field, description))

    def take(self, field: str, parse: Callable[[str], _T], text: str, stand_in: _T) -> _T:
        if not self.fits(field, text):
            return stand_in
        try:
            return parse(text)
        except ValueError as error:
            self.fault(field, str(error))
            return stand_in

    def fits(self, field: str, text: str) -> bool:
        # a UTF-8 character has at most 4 bytes: most texts needn't be encoded to be measured
        if len(text) * 4 <= self.bounds.text_bytes or len(text.encode()) <= self.bounds.text_bytes:
            return True
        self.fault(field, f"longer than {self.bounds.text_bytes} bytes")
        return False

    def raise_if_faulty(self) -> None:
        if self._faults:
            first = self._faults[0]
            more = f" (and {len(self._faults) - 1} more)" if len(self._faults) > 1 else ""
            raise InvalidArgument(f"{first.field}: {first.description}{more}", self._faults)


def program_from_proto(message: pb.Program, bounds: Bounds) -> Program:
    """Raises InvalidArgument."""
    reading = _Reading(bounds)
    program = _program(message, "program", reading)
    reading.raise_if_faulty()
    return program


def programs_from_proto(
    messages: Sequence[pb.Program], bounds: Bounds, first: int = 0, most: int = MAX_BATCH
) -> list[Program]:
    """`first`: the place of the first one in its stream. Raises InvalidArgument, with all the faults of all."""
    reading = _Reading(bounds)
    if len(messages) > most:
        reading.fault("programs", f"{len(messages)} programs, and a batch takes at most {most}")
        reading.raise_if_faulty()
    programs = [_program(message, f"programs[{i}]", reading) for i, message in enumerate(messages, first)]
    reading.raise_if_faulty()
    return programs


def batch_from_proto(messages: Sequence[pb.Program], bounds: Bounds) -> list[Asked]:
    """The programs of a batch that is kept. Raises InvalidArgument, with all the faults of all."""
    programs = programs_from_proto(messages, bounds, most=MAX_STORED_BATCH)
    return [Asked(program, message.SerializeToString()) for program, message in zip(programs, messages, strict=True)]


def program_from_bytes(content: bytes, bounds: Bounds) -> Program:
    """A program that was kept. Raises InvalidArgument where this node's bounds are narrower."""
    return program_from_proto(pb.Program.FromString(content), bounds)


def graded_from_proto(request: pb.GradeRequest, bounds: Bounds) -> tuple[Program, str]:
    """The program that a completion means, with its problem's tests, and its source. Raises InvalidArgument."""
    problem, reading = pb.Problem(), _Reading(bounds)
    problem.CopyFrom(request.problem)
    reading.fits("completion", request.completion)
    reading.fits("problem.prompt", problem.prompt)
    if not problem.tests:
        reading.fault("problem.tests", "holds no test to grade by")
    reading.raise_if_faulty()
    is_python = problem.language in ("", "python")
    source = source_for(problem.prompt, problem.entry_point if is_python else "", request.completion)
    for test in problem.tests:
        if test.WhichOneof("kind") == "check":
            test.check.code = with_helpers(test.check.code, problem.prompt, problem.entry_point)
    message = pb.Program(
        id=problem.id,
        source=source,
        entry_point=problem.entry_point,
        tests=problem.tests,
        limits=request.limits,
        language=problem.language,
        runtime=problem.runtime,
    )
    program = _program(message, "problem", reading)
    reading.raise_if_faulty()
    return program, source


def benchmark_size(programs: int) -> int:
    """Raises InvalidArgument."""
    if not 0 <= programs <= 100_000:
        text = "must be between 1 and 100000"
        raise InvalidArgument(f"programs: {text}", [FieldViolation("programs", text)])
    return programs or 1000


def measurement_to_proto(measurement: Measurement) -> pb.BenchmarkResponse:
    return pb.BenchmarkResponse(
        name=measurement.name,
        programs_per_second=measurement.rate,
        of_limit=measurement.of_limit,
        p50=duration_to_proto(measurement.p50),
        p99=duration_to_proto(measurement.p99),
    )


def _program(message: pb.Program, path: str, reading: _Reading) -> Program:
    for field, text in (("source", message.source), ("stdin", message.stdin), ("entry_point", message.entry_point)):
        reading.fits(f"{path}.{field}", text)
    if len(message.tests) > MAX_TESTS:
        reading.fault(f"{path}.tests", f"{len(message.tests)} tests, and a program takes at most {MAX_TESTS}")
        return Program(message.id, "")
    calls = any(test.WhichOneof("kind") in ("call", "check") for test in message.tests)
    entry_point = message.entry_point.replace("().", ".")
    if calls and not is_entry_point(entry_point):
        what = "call and check tests need the name of a function, of a class, or of a method as Solution.f"
        reading.fault(f"{path}.entry_point", what)
    return Program(
        id=message.id,
        source=message.source,
        entry_point=entry_point,
        tests=tuple(_test(test, f"{path}.tests[{i}]", reading) for i, test in enumerate(message.tests)),
        stdin=message.stdin,
        limits=_limits(message.limits, f"{path}.limits", reading),
        language=message.language or "python",
        runtime=message.runtime,
        processes=message.processes,
        files=_files(message.files, f"{path}.files", reading),
        fetch_files=_fetch_files(message.fetch_files, f"{path}.fetch_files", reading),
    )


def _files(messages: Sequence[pb.File], path: str, reading: _Reading) -> tuple[File, ...]:
    if len(messages) > MAX_FILES:
        reading.fault(path, f"{len(messages)} files, and a program takes at most {MAX_FILES}")
        return ()
    size = sum(len(message.content) for message in messages)
    if size > MAX_FILE_BYTES:
        reading.fault(path, f"{size} bytes in all, and a program takes at most {MAX_FILE_BYTES}")
    names = [message.name for message in messages]
    for i, name in enumerate(names):
        _check_file_name(name, f"{path}[{i}].name", reading)
        folders = {name[:end] for end, letter in enumerate(name) if letter == "/"}
        if name in names[:i] or folders & set(names):
            reading.fault(f"{path}[{i}].name", "is there twice, or lies in what is a file")
    return tuple(File(message.name, message.content) for message in messages)


def _fetch_files(names: Sequence[str], path: str, reading: _Reading) -> tuple[str, ...]:
    if len(names) > MAX_FILES:
        reading.fault(path, f"{len(names)} names, and a program takes at most {MAX_FILES}")
        return ()
    for i, name in enumerate(names):
        _check_file_name(name, f"{path}[{i}]", reading)
    return tuple(names)


def _check_file_name(name: str, field: str, reading: _Reading) -> None:
    parts = name.split("/")
    if not name or "\0" in name or any(part in ("", ".", "..") for part in parts):
        reading.fault(field, "must be a relative path like data/input.csv, without '.', '..' or empty parts")
    elif len(name.encode()) > 4 * _MAX_NAME or any(len(part.encode()) > _MAX_NAME for part in parts):
        reading.fault(field, f"a part is longer than {_MAX_NAME} bytes, or all than {4 * _MAX_NAME}")


def _test(message: pb.Test, path: str, reading: _Reading) -> Test:
    kind, held_out = message.WhichOneof("kind"), message.held_out
    if kind == "call":
        return _call_test(message.call, held_out, f"{path}.call", reading)
    if kind == "stdio":
        reading.fits(f"{path}.stdio.stdin", message.stdio.stdin)
        reading.fits(f"{path}.stdio.expected_stdout", message.stdio.expected_stdout)
        return StdioTest(message.stdio.stdin, message.stdio.expected_stdout, held_out)
    if kind == "check":
        check = functools.partial(_check_test, held_out=held_out)
        return reading.take(f"{path}.check.code", check, message.check.code, CheckTest(""))
    reading.fault(path, "holds no test")
    return StdioTest("", "")


def _call_test(message: pb.CallTest, held_out: bool, path: str, reading: _Reading) -> CallTest:
    args = reading.take(f"{path}.args", reading.literal, message.args, _NO_ARGS)
    if not isinstance(args, list | tuple):
        reading.fault(f"{path}.args", f"is a {type(args).__name__}, and must be the list of the arguments")
        args = ()
    expected = None
    if not message.raises:
        expected = reading.take(f"{path}.expected", reading.literal, message.expected, None)
    elif message.expected:
        reading.fault(f"{path}.expected", "must be empty where an exception is expected")
    elif not message.raises.isidentifier():
        reading.fault(f"{path}.raises", "must be the name of an exception's type, as ValueError")
    if message.unordered and not isinstance(expected, list | tuple):
        reading.fault(f"{path}.unordered", "is for an expected list or tuple")
    if not (math.isfinite(message.tolerance) and message.tolerance >= 0):
        reading.fault(f"{path}.tolerance", "must be a finite number, 0 or more")
    return CallTest(
        tuple(args), expected, message.tolerance or DEFAULT_TOLERANCE, message.raises, message.unordered, held_out
    )


def literal(text: str) -> object:
    """The value of a Python literal; inf, nan and -inf count as one. Raises ValueError, whatever the text."""
    try:
        value: object = ast.literal_eval(_WithNames().visit(syntax.parse_expression(text)))  # noqa: TID251 (a tree)
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError) as error:
        why = str(error) or type(error).__name__
        why = "it holds more than values" if why.startswith("malformed node") else clip(why)
        raise ValueError(f"is no Python literal: {why}") from None
    if (sum(map(text.count, "([{")) > codec.MAX_DEPTH or "..." in text) and _OPAQUE in codec.dumps(value):
        raise ValueError(f"holds an Ellipsis, or is nested more than {codec.MAX_DEPTH} deep")
    return value


class _WithNames(ast.NodeTransformer):
    """repr writes inf and nan, which are names and no literals."""

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return ast.Constant(float(node.id)) if node.id in ("inf", "nan") else node


def _check_test(code: str, held_out: bool = False) -> CheckTest:
    """Compiled to say early that it can't be, and parsed to see whether it calls its own `check`."""
    try:
        tree = syntax.parse(code)
        syntax.compiled(code, "tests.py")  # a return outside of a function parses
        return CheckTest(code, any(_calls_check(statement) for statement in tree.body), held_out)
    except (ValueError, SyntaxError, RecursionError, MemoryError) as error:
        raise ValueError(f"is no Python: {clip(str(error) or type(error).__name__)}") from None


def _calls_check(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return False
    calls = (node.func for node in ast.walk(statement) if isinstance(node, ast.Call))
    return any(isinstance(called, ast.Name) and called.id == "check" for called in calls)


def _limits(message: pb.Limits, path: str, reading: _Reading) -> Limits:
    limits, most = Limits(), reading.bounds.limits
    cpu = duration_from_proto(message.cpu_time) if message.HasField("cpu_time") else limits.cpu_time
    memory = message.memory_bytes or limits.memory_bytes
    output = message.output_bytes or limits.output_bytes
    if not timedelta() < cpu <= most.cpu_time:
        reading.fault(f"{path}.cpu_time", f"must be above 0 and at most {most.cpu_time.total_seconds():g} s")
    if not MIN_MEMORY <= memory <= most.memory_bytes:
        reading.fault(f"{path}.memory_bytes", f"must be between {MIN_MEMORY} and {most.memory_bytes}")
    if not 0 < output <= most.output_bytes:
        reading.fault(f"{path}.output_bytes", f"must be above 0 and at most {most.output_bytes}")
    return Limits(cpu, memory, output)


def execution_to_proto(execution: Execution) -> pb.Execution:
    return pb.Execution(
        id=execution.program_id,
        verdict=_VERDICTS[execution.verdict],
        results=[_result_to_proto(result) for result in execution.results],
        tests_passed=execution.tests_passed,
        tests_total=execution.tests_total,
        stdout=execution.stdout,
        stderr=execution.stderr,
        cpu_time=duration_to_proto(execution.cpu_time),
        wall_time=duration_to_proto(execution.wall_time),
        isolation=execution.isolation,
        detail=execution.detail,
        runtime=execution.runtime,
        files=[pb.File(name=file.name, content=file.content) for file in execution.files],
        compile_output=execution.compile_output,
        compile_time=duration_to_proto(execution.compile_time),
        exit_status=execution.exit_status,
        max_memory_bytes=execution.max_memory_bytes,
        level=str(execution.level),
        signs=[str(sighting) for sighting in execution.signs],
    )


def _result_to_proto(result: TestResult) -> pb.TestResult:
    return pb.TestResult(
        passed=result.passed, got=result.got, expected=result.expected, error=result.error, held_out=result.held_out
    )


def item_to_proto(item: Item) -> pb.BatchItem:
    if isinstance(item.outcome, PlatformFault):
        return pb.BatchItem(index=item.index, platform_error=item.outcome.message)
    return pb.BatchItem(index=item.index, execution=execution_to_proto(item.outcome))


def batch_to_proto(batch: Batch) -> pb.Batch:
    message = pb.Batch(
        id=batch.id,
        state=_STATES[batch.state],
        programs_total=batch.programs_total,
        programs_done=batch.programs_done,
        create_time=timestamp_to_proto(batch.create_time),
    )
    if batch.end_time is not None:
        message.end_time.CopyFrom(timestamp_to_proto(batch.end_time))
    return message


def progress_to_proto(progress: Progress) -> pb.WatchBatchResponse:
    items = [pb.BatchItem.FromString(record.content) for record in progress.records]
    return pb.WatchBatchResponse(batch=batch_to_proto(progress.batch), items=items)


def record_from_item(item: Item) -> Record:
    """As it is kept, and sent."""
    verdict = PLATFORM_ERROR if isinstance(item.outcome, PlatformFault) else item.outcome.verdict.name
    return Record(item.index, verdict, item_to_proto(item).SerializeToString())


def priority_from_proto(value: int) -> Priority:
    """Raises InvalidArgument."""
    try:
        return _PRIORITIES[value]
    except KeyError:
        text = f"{value} is no priority"
        raise InvalidArgument(f"priority: {text}", [FieldViolation("priority", text)]) from None


def finding_to_proto(finding: Finding, total: int) -> pb.AuditResponse:
    return pb.AuditResponse(
        attack=finding.name,
        kind=finding.attack.kind.value,
        title=finding.attack.title,
        caught=finding.caught,
        verdict=_VERDICTS[finding.verdict] if finding.verdict else pb.VERDICT_UNSPECIFIED,
        detail=clip(finding.detail),
        total=total,
    )


def capabilities_to_proto(capabilities: Capabilities, most: Limits) -> pb.GetCapabilitiesResponse:
    return pb.GetCapabilitiesResponse(
        isolation_layers=capabilities.layers,
        python_version=capabilities.python_version,
        lanes=capabilities.lanes,
        level=str(capabilities.level),
        missing_layers=capabilities.missing,
        max_limits=pb.Limits(
            cpu_time=duration_to_proto(most.cpu_time), memory_bytes=most.memory_bytes, output_bytes=most.output_bytes
        ),
        runtimes=[
            pb.Runtime(name=runtime.name, language=runtime.language, version=runtime.version, packages=runtime.packages)
            for runtime in capabilities.runtimes
        ],
        missing_languages=capabilities.missing_languages,
        processes=capabilities.processes,
    )
