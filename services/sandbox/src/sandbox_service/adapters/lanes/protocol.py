"""Jobs to the bytes that the cage reads, and what it answers to reports. Whatever a program wrote, nothing raises."""

import itertools
import json
import marshal
import secrets
import struct
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import Any

from sandbox_service.cage.wire import codec
from sandbox_service.domain import forms
from sandbox_service.domain.jobs import (
    Answer,
    CallJob,
    CheckJob,
    CheckReport,
    CheckVerdict,
    Command,
    CompileJob,
    End,
    Oversized,
    Raised,
    Report,
    Returned,
    ScriptJob,
    Stage,
)
from sandbox_service.domain.levels import Level
from sandbox_service.domain.program import File, Limits

Job = CallJob | ScriptJob | CheckJob | CompileJob

# A program's first look at JSON costs it a hundred pages. Only our own words go in this way; what comes back is JSON.
# The version is one that all Pythons of a user's runtimes read.
_MARSHAL = 2
START_LIMIT = 60  # seconds: a keeper is up after 0.2, but on a machine with fifty others at work after twenty
LENGTH = struct.Struct("!I")
_DECODE = json.JSONDecoder().decode


@dataclass(frozen=True, slots=True)
class Request:
    """`data` is header, program, files and tests in a row; a mark follows the files and the tests, by which the keeper
    finds the end of a payload that nobody has read. The nonces are framing, no secret: see cage/wire/wire.py."""

    data: bytes
    nonce: str
    tests_nonce: str
    runtime: str
    answer_limit: int
    command: bool = False


def request(
    job: Job | Command,
    idle_limit: timedelta,
    wall_limit: timedelta,
    core: int,
    answer_limit: int,
    compiled: bytes = b"",
) -> Request:
    """`idle_limit`: how long it may do nothing, in all. `wall_limit`: how long it may take on the clock.

    `core`: the number of the one that it runs on. `answer_limit`: bytes that one answer may have. `compiled`: the test
    code of a check job, or nothing: see compiled.py.
    """
    nonce, tests_nonce, mark = secrets.token_hex(8), secrets.token_hex(8), secrets.token_bytes(16)
    stdin, tests = "", b""
    arguments: tuple[object, ...]
    match job:
        case CallJob():
            mode = "calls"
            arguments = (job.source, job.entry_point, [codec.encode(list(args)) for args in job.calls], job.plain)
        case ScriptJob():
            mode, stdin = "script", job.stdin
            arguments = (job.source,)
        case Command():
            mode, stdin = "command", job.stdin
            arguments = (job.argv, dict(job.environment))
        case CompileJob():
            mode = "compile"
            arguments = (job.code,)
        case CheckJob() if job.shared:
            mode = "beside"
            arguments = (job.source, job.code, job.entry_point, job.call_check)
        case CheckJob():
            mode = "check"
            arguments = (job.source, job.entry_point)
            helpers = {
                file.name: file.content.decode("utf-8", "replace") for file in job.setting.files if _is_module(file)
            }
            names = (job.names, job.modules, job.unknown)
            shown = job.source if "getsource" in job.code else ""
            judging = (
                job.code,
                compiled,
                job.entry_point,
                job.call_check,
                *names,
                helpers,
                shown,
                job.limits.cpu_time.total_seconds(),
            )
            tests = _payload("tests", tests_nonce, judging, job.limits) + mark
    files = job.setting.files
    program = _payload(mode, nonce, arguments, job.limits, stdin, files)
    head: dict[str, Any] = {
        "mode": mode,
        "cpu": job.limits.cpu_time.total_seconds(),
        "idle": idle_limit.total_seconds(),
        "wall": wall_limit.total_seconds(),
        "memory": job.limits.memory_bytes,
        "output": job.limits.output_bytes,
        "fetch": list(job.setting.fetch),
        "fetch_bytes": job.setting.fetch_bytes,
        "core": core,
        "mark": mark,
    }
    data = b"".join([frame(head), program, *(file.content for file in files), mark, tests])
    return Request(data, nonce, tests_nonce, job.setting.runtime, answer_limit, isinstance(job, Command))


def _is_module(file: File) -> bool:
    return file.name.endswith(".py")


def _payload(
    mode: str, nonce: str, arguments: tuple[object, ...], limits: Limits, stdin: str = "", files: tuple[File, ...] = ()
) -> bytes:
    """What one process of the cage reads. `arguments` are those of its mode: see RUNNERS of cage/lane/cradle.py."""
    sizes = [(file.name, len(file.content)) for file in files]
    return frame((mode, nonce, arguments, stdin, sizes, limits.memory_bytes, limits.cpu_time.total_seconds()))


def frame(message: dict[str, Any] | tuple[Any, ...]) -> bytes:
    data = marshal.dumps(message, _MARSHAL)
    return LENGTH.pack(len(data)) + data


def report(
    sent: Request,
    head: dict[str, Any],
    data: bytes,
    layers: tuple[str, ...],
    level: Level,
    files: tuple[File, ...] = (),
) -> Report:
    """`data`: the program's frames, stdout, stderr, the tester's frames. The keeper itself wrote `head` alone."""
    ends = list(itertools.accumulate(head["blobs"]))
    frames, stdout, stderr, tests = (data[start:end] for start, end in itertools.pairwise([0, *ends]))
    end = End(head["end"])
    program = _ProgramFrames(sent.answer_limit)
    # the last line of a job that was cut off may be half a frame
    malformed = program.read(frames, sent.nonce, whole=end is End.EXITED)
    return Report(
        end=end,
        exit_status=int(str(head["status"])),
        # one that isn't Python reports nothing: it runs once it's there
        stage=Stage.LOADED if sent.command else program.stage,
        cpu_time=timedelta(seconds=float(str(head["cpu"]))),
        wall_time=timedelta(seconds=float(str(head["wall"]))),
        layers=layers,
        level=level,
        max_rss_bytes=int(str(head["max_rss"])),
        stdout=stdout.decode("utf-8", "replace"),
        stderr=stderr.decode("utf-8", "replace"),
        output_cut=bool(head["cut"]),
        error=program.error,
        answers=tuple(program.answers),
        tester=_tester(tests, sent.tests_nonce) if tests.strip() else program.tester,
        malformed=malformed,
        runtime=sent.runtime,
        files=files,
        killed=bool(head["killed"]),
    )


def unread(
    sent: Request, head: dict[str, Any], data: bytes, layers: tuple[str, ...], level: Level, files: tuple[File, ...]
) -> Report:
    """What the keeper itself said, and how to read the rest."""
    known = report(sent, head | {"blobs": [0, 0, 0, 0]}, b"", layers, level, files)
    return replace(known, unread=partial(report, sent, head, data, layers, level))


class _ProgramFrames:
    """What a program's frames say, each checked for its form, in the order of the protocol."""

    def __init__(self, answer_limit: int) -> None:
        self._answer_limit = answer_limit
        self.stage = Stage.STARTED
        self.error: Raised | None = None
        self.answers: list[Answer] = []
        self.tester: CheckReport | None = None

    def read(self, data: bytes, nonce: str, whole: bool) -> str:
        """Returns what doesn't keep to the protocol, or an empty text."""
        lines = data.split(b"\n")
        last = lines.pop()
        if last and whole:
            return f"unasked bytes on the result channel: {last[:80]!r}"
        for line in lines:
            if line and not self._take(line, nonce):
                return f"unasked bytes on the result channel: {line[:80]!r}"
        return ""

    def _take(self, line: bytes, nonce: str) -> bool:
        if len(line) > self._answer_limit:
            # too much to be looked at: only the form in which runner.py begins such a frame counts
            self.answers.append(Oversized(self._answer_limit))
            return line.startswith(f'["{nonce}", "value", {len(self.answers) - 1}, '.encode())
        try:
            match _DECODE(line.decode()):
                case [got, "compiled"] if got == nonce and self.stage is Stage.STARTED:
                    self.stage = Stage.COMPILED
                case [got, "loaded"] if got == nonce and self.stage is Stage.COMPILED:
                    self.stage = Stage.LOADED
                case [got, "end"] if got == nonce and self.stage in (Stage.COMPILED, Stage.LOADED):
                    self.stage = Stage.ENDED
                case [got, "value", int(index), value] if got == nonce and index == len(self.answers):
                    self.answers.append(_returned(value))
                case [got, "raised", int(index), str(name), str(text), [*kinds]] if got == nonce and index == len(
                    self.answers
                ):
                    self.answers.append(Raised(name, text, tuple(str(kind) for kind in kinds)))
                case [got, "tests", str(kind), *parts] if got == nonce and self.tester is None:
                    self.tester = _said(kind, parts)
                case [got, "error", str(name), str(text)] if got == nonce and self.error is None:
                    self.error = Raised(name, text)
                case _:
                    return False
        except (ValueError, TypeError, LookupError, RecursionError, OverflowError, AttributeError):
            return False
        return True


def _returned(form: Any) -> Returned:
    """Raises what forms.checked raises."""
    return Returned(forms.checked(form), form["o"][0][:256] if isinstance(form, dict) and "o" in form else "")


def _tester(data: bytes, nonce: str) -> CheckReport | None:
    """The tester is ours, the tests in it are the caller's: a last line in the right form, or no verdict."""
    lines = data.strip().split(b"\n")
    try:
        match json.loads(lines[-1]):
            case [got, str(kind), *parts] if got == nonce:
                return _said(kind, parts)
    except (ValueError, RecursionError, MemoryError):
        pass
    return None


def _said(kind: str, parts: list[object]) -> CheckReport:
    """Raises ValueError for a kind that is none."""
    return CheckReport(CheckVerdict(kind), ": ".join(str(part) for part in parts if part))
