"""Programs, and completions against problems: from protobuf."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from ratchet.common.v1 import problem_pb2
from ratchet.sandbox.v1 import program_pb2 as pb
from ratchet_kit.faults import Faults
from ratchet_kit.times import duration_from_proto
from ratchet_kit.work import Priority
from ratchet_problems import MOST_TEXT_BYTES
from ratchet_problems.convert import complete
from ratchet_problems.extraction import source_for
from ratchet_problems.languages import PYTHON, language_of
from ratchet_problems.problem import is_entry_point
from sandbox_service.convert.reading import Bounds, Reading, priority_from_proto
from sandbox_service.convert.tests import literal, test_from_proto
from sandbox_service.domain.program import File, Limits, Program

MAX_BATCH = 256
MAX_TESTS = 1000
MIN_MEMORY = 64 << 20
MAX_FILES = 256
MAX_FILE_BYTES = 16 << 20
MAX_FOLDERS = 1024
_MAX_NAME = 255


@dataclass(frozen=True, slots=True)
class Call:
    """A program to run now. For Grade, its `source` is what was found in the completion."""

    program: Program
    priority: Priority


def execute_from_proto(request: pb.ExecuteRequest, bounds: Bounds) -> Call:
    """Raises InvalidArgument, with all faults."""
    reading = Reading(bounds, literal)
    priority = priority_from_proto(request.priority, reading.faults)
    given = request.program
    something = given.source or given.tests or given.files
    reading.faults.unless(something, "program.source", "must be there: an empty program passes")
    program = _program(given, "program", reading)
    reading.finish()
    return Call(program, priority)


def program_from_proto(message: pb.Program, bounds: Bounds) -> Program:
    """Raises InvalidArgument, with all faults."""
    reading = Reading(bounds, literal)
    program = _program(message, "program", reading)
    reading.finish()
    return program


def stream_priority_from_proto(request: pb.StreamExecuteRequest) -> Priority:
    """Raises InvalidArgument."""
    faults = Faults()
    priority = priority_from_proto(request.priority, faults)
    faults.raise_if_any()
    return priority


def programs_from_proto(messages: Sequence[pb.Program], bounds: Bounds, first: int = 0) -> list[Program]:
    """`first`: the place of the first one in its stream. Raises InvalidArgument, with all faults of all."""
    reading = Reading(bounds, literal)
    programs = read_programs(messages, reading, most=MAX_BATCH, first=first)
    reading.finish()
    return programs


def read_programs(messages: Sequence[pb.Program], reading: Reading, *, most: int, first: int = 0) -> list[Program]:
    """Notes what is at fault, under programs[i] with `i` from `first` on. None are read where there are too many."""
    if not reading.faults.unless(len(messages) <= most, "programs", f"has {len(messages)}; at most {most} are allowed"):
        return []
    return [_program(message, f"programs[{i}]", reading) for i, message in enumerate(messages, first)]


def grade_from_proto(request: pb.GradeRequest, bounds: Bounds) -> Call:
    """The program that a completion means, with its problem's tests. Raises InvalidArgument, with all faults."""
    problem, reading = problem_pb2.Problem(), Reading(bounds, literal)
    problem.CopyFrom(request.problem)
    priority = priority_from_proto(request.priority, reading.faults)
    fits = reading.fits("completion", request.completion) and reading.fits("problem.prompt", problem.prompt)
    reading.faults.unless(problem.tests, "problem.tests", "holds no test to grade by")
    source = ""
    if fits:
        source = source_for(problem.prompt, problem.entry_point, request.completion, problem.language or PYTHON)
        for test in problem.tests:
            if test.WhichOneof("kind") == "check":
                complete(test.check, problem.prompt, problem.entry_point)
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
    reading.finish()
    return Call(program, priority)


def _program(message: pb.Program, path: str, reading: Reading) -> Program:
    for field, text in (("source", message.source), ("entry_point", message.entry_point)):
        reading.fits(f"{path}.{field}", text)
    reading.fits(f"{path}.stdin", message.stdin, MOST_TEXT_BYTES)
    if len(message.tests) > MAX_TESTS:
        reading.faults.add(f"{path}.tests", f"has {len(message.tests)}, and a program takes at most {MAX_TESTS}")
        return Program(message.id, "")
    if message.stdin and message.tests:
        reading.faults.add(f"{path}.stdin", "is for a program without tests: a stdio test has its own")
    language = language_of(message.language or PYTHON)
    calls = language == PYTHON and any(test.WhichOneof("kind") in ("call", "check") for test in message.tests)
    entry_point = message.entry_point.replace("().", ".")
    if calls and not is_entry_point(entry_point):
        form = "must name a function, a class, or a method as Solution.f, for call and check tests"
        reading.faults.add(f"{path}.entry_point", form)
    return Program(
        id=message.id,
        source=message.source,
        entry_point=entry_point,
        tests=tuple(
            test_from_proto(test, entry_point, f"{path}.tests[{i}]", reading, language)
            for i, test in enumerate(message.tests)
        ),
        stdin=message.stdin,
        limits=_limits(message.limits, f"{path}.limits", reading),
        language=language,
        runtime=message.runtime,
        processes=message.processes,
        files=_files(message.files, f"{path}.files", reading),
        fetch_files=_fetch_files(message.fetch_files, f"{path}.fetch_files", reading),
    )


def _files(messages: Sequence[pb.File], path: str, reading: Reading) -> tuple[File, ...]:
    if len(messages) > MAX_FILES:
        reading.faults.add(path, f"has {len(messages)}, and a program takes at most {MAX_FILES}")
        return ()
    size = sum(len(message.content) for message in messages)
    if size > MAX_FILE_BYTES:
        reading.faults.add(path, f"has {size} bytes in all, and a program takes at most {MAX_FILE_BYTES}")
    names = Counter(message.name for message in messages)
    folders: set[str] = set()
    for i, message in enumerate(messages):
        if not _check_file_name(message.name, f"{path}[{i}].name", reading):
            continue
        own = {message.name[:end] for end, letter in enumerate(message.name) if letter == "/"}
        if names[message.name] > 1 or not own.isdisjoint(names):
            reading.faults.add(f"{path}[{i}].name", "occurs twice, or lies below another file")
        folders |= own
    if len(folders) > MAX_FOLDERS:
        reading.faults.add(path, f"has {len(folders)} folders, and a program takes at most {MAX_FOLDERS}")
    return tuple(File(message.name, message.content) for message in messages)


def _fetch_files(names: Sequence[str], path: str, reading: Reading) -> tuple[str, ...]:
    if len(names) > MAX_FILES:
        reading.faults.add(path, f"has {len(names)}, and a program takes at most {MAX_FILES}")
        return ()
    for i, name in enumerate(names):
        _check_file_name(name, f"{path}[{i}]", reading)
    return tuple(names)


def _check_file_name(name: str, field: str, reading: Reading) -> bool:
    if len(name) > 4 * _MAX_NAME:
        reading.faults.add(field, f"has more than {4 * _MAX_NAME} bytes")
        return False
    parts = name.split("/")
    if not name or "\0" in name or any(part in ("", ".", "..") for part in parts):
        reading.faults.add(field, "must be a relative path like data/input.csv, without '.', '..' or empty parts")
    elif len(name.encode()) > 4 * _MAX_NAME or any(len(part.encode()) > _MAX_NAME for part in parts):
        reading.faults.add(field, f"has a part of more than {_MAX_NAME} bytes, or more than {4 * _MAX_NAME} in all")
    else:
        return True
    return False


def _limits(message: problem_pb2.Limits, path: str, reading: Reading) -> Limits:
    limits, most = Limits(), reading.bounds.limits
    cpu = duration_from_proto(message.cpu_time) if message.HasField("cpu_time") else limits.cpu_time
    memory = message.memory_bytes if message.HasField("memory_bytes") else limits.memory_bytes
    output = message.output_bytes if message.HasField("output_bytes") else limits.output_bytes
    faults = reading.faults.under(path)
    if message.cpu_time.seconds > 0 > message.cpu_time.nanos:
        faults.bounds("cpu_time.nanos", message.cpu_time.nanos, at_least=0)
    faults.bounds("cpu_time", cpu, above=timedelta(), at_most=most.cpu_time)
    faults.bounds("memory_bytes", memory, at_least=MIN_MEMORY, at_most=most.memory_bytes)
    faults.bounds("output_bytes", output, above=0, at_most=most.output_bytes)
    return Limits(cpu, memory, output)
