"""Runs one program for an HTTP caller: what it asks as our own request, what came of it in SandboxFusion's words."""

import asyncio
import base64
import binascii
import contextlib
import re
import socket
from collections.abc import AsyncIterator
from contextvars import ContextVar
from dataclasses import replace
from datetime import timedelta

from ratchet.common.v1 import problem_pb2, verdict_pb2
from ratchet.sandbox.v1 import program_pb2 as pb
from ratchet_kit.errors import FieldViolation, InvalidArgument, ResourceExhausted, Unavailable, Unimplemented
from ratchet_kit.times import duration_to_proto
from sandbox_service import convert
from sandbox_service.domain.program import output_for
from sandbox_service.domain.runtimes import foreign_imports
from sandbox_service.domain.sandbox import Sandbox
from sandbox_service.fusion.shapes import CommandRunResult, CommandRunStatus, RunCodeRequest, RunCodeResponse, RunStatus
from sandbox_service.unpacking import Unpacker

MIB = 1 << 20
DEFAULT_MEMORY_MIB = 1024  # verl's default; SandboxFusion itself has no bound
MIN_MEMORY_MIB = convert.MIN_MEMORY // MIB
# verl gives up on an answer compile_timeout + run_timeout + 10 s after its request, and an answer that it gave up on
# scores nothing. Before that it gets 504, the one status after which it tries again.
PATIENCE = timedelta(seconds=8)
CALLER = ContextVar("caller", default="")
"""Whose request this is: the address it came from."""
_RETRY_SECONDS = 0.2
# Verdicts that SandboxFusion has no word for.
_OWN_WORDS = (verdict_pb2.VERDICT_MEMORY_LIMIT, verdict_pb2.VERDICT_OUTPUT_LIMIT, verdict_pb2.VERDICT_TAMPERED)
_TESTS = "test_program.py"
_PYTEST = f"import sys\nimport pytest\nsys.exit(pytest.main(['-q', '-p', 'no:cacheprovider', '{_TESTS}']))\n"
# SandboxFusion's Python may start processes. Here that takes a slower lane: for programs whose source names them.
_PROCESSES = re.compile(
    r"\b(?:subprocess|multiprocessing|ProcessPoolExecutor|popen|fork|pty)\b|os\.(?:system|spawn|exec)"
)


class Runner:
    def __init__(self, sandbox: Sandbox, bounds: convert.Bounds, unpack: Unpacker, most_waiting: int) -> None:
        """`most_waiting`: requests held at a time, each until a lane has run it or its patience is over."""
        self._sandbox, self._bounds, self._unpack, self._most_waiting = sandbox, bounds, unpack, most_waiting
        self._waiting = 0

    @property
    def lanes(self) -> int:
        return self._sandbox.capabilities.lanes

    @property
    def processes(self) -> bool:
        return self._sandbox.capabilities.processes

    @property
    def most_cpu_time(self) -> timedelta:
        return self._bounds.limits.cpu_time

    def pytest_runtime(self, code: str) -> str:
        """The smallest runtime with pytest and what else the code imports. Raises Unimplemented without pytest."""
        with_pytest = [each for each in self._sandbox.capabilities.runtimes if "pytest" in each.modules]
        if not with_pytest:
            raise Unimplemented(
                "language 'pytest' is not on this node: it takes a Python runtime with pytest in it, which users add "
                "(RATCHET_SANDBOX_RUNTIMES_DIR)"
            )
        wanted = foreign_imports(code)
        return min(with_pytest, key=lambda each: (len(wanted - each.modules), len(each.modules))).name

    def limits(self, run_timeout: float, memory_mib: int = 0) -> problem_pb2.Limits:
        """Raises InvalidArgument for more than the service allows."""
        most = self._bounds.limits
        seconds, mib = most.cpu_time.total_seconds(), most.memory_bytes // MIB
        if run_timeout > seconds:
            raise _invalid("run_timeout", f"at most {seconds:g} s here (RATCHET_SANDBOX_MAX_CPU_TIME)")
        if memory_mib > mib:
            raise _invalid("memory_limit_MB", f"at most {mib} here (RATCHET_SANDBOX_MAX_MEMORY_BYTES)")
        memory = max(memory_mib, MIN_MEMORY_MIB) if memory_mib > 0 else min(DEFAULT_MEMORY_MIB, mib)
        cpu = timedelta(seconds=max(run_timeout, 0.001))
        return problem_pb2.Limits(
            cpu_time=duration_to_proto(cpu), memory_bytes=memory * MIB, output_bytes=most.output_bytes
        )

    async def run(self, message: pb.Program, patience: timedelta, expected: str = "") -> pb.Execution:
        """Where a platform fault or a full queue can be waited out, it is. `expected`: what it is to print, if known.

        Raises InvalidArgument; Unimplemented; Unavailable or ResourceExhausted when `patience` is over.
        """
        program = await self._unpack(message.ByteSize(), convert.program_from_proto, message, self._bounds)
        # a timeout there counts sleep as well as work
        output = max(program.limits.output_bytes, output_for(expected))
        limits = replace(program.limits, idle_time=program.limits.cpu_time, output_bytes=output)
        program = replace(program, limits=limits)
        async with self._held():
            try:
                async with asyncio.timeout(patience.total_seconds()) as bound:
                    while True:
                        try:
                            return convert.execution_to_proto(await self._sandbox.execute(program, CALLER.get()))
                        except (Unavailable, ResourceExhausted):
                            if not await _waited(bound):
                                raise
            except TimeoutError as error:
                seconds = patience.total_seconds()
                raise Unavailable(f"no lane had run the program after {seconds:g} s: try again") from error

    @contextlib.asynccontextmanager
    async def _held(self) -> AsyncIterator[None]:
        if self._waiting >= self._most_waiting:
            raise ResourceExhausted(f"{self._waiting} requests wait here already", timedelta(seconds=1))
        self._waiting += 1
        try:
            yield
        finally:
            self._waiting -= 1


async def _waited(bound: asyncio.Timeout) -> bool:
    """Whether there's time for another try, after a wait.

    Whatever the queue's hint is: a caller that is sent away comes back twice, within seconds.
    """
    until = bound.when()
    if until is not None and asyncio.get_running_loop().time() + _RETRY_SECONDS >= until:
        return False
    await asyncio.sleep(_RETRY_SECONDS)
    return True


def patience(compile_timeout: float, run_timeout: float) -> timedelta:
    return timedelta(seconds=compile_timeout + run_timeout) + PATIENCE


def program_of(request: RunCodeRequest, runner: Runner) -> pb.Program:
    """Raises InvalidArgument, Unimplemented."""
    program = _program(request, runner)
    if request.language == "pytest":
        program.files.append(pb.File(name=_TESTS, content=request.code.encode()))
        program.language, program.source, program.runtime = "python", _PYTEST, runner.pytest_runtime(request.code)
    return program


def _program(request: RunCodeRequest, runner: Runner) -> pb.Program:
    return pb.Program(
        source=request.code,
        stdin=request.stdin or "",
        language=request.language,
        processes=request.language in ("python", "pytest")
        and runner.processes
        and bool(_PROCESSES.search(request.code)),
        limits=runner.limits(request.run_timeout, request.memory_limit_MB or 0),
        files=[
            pb.File(name=name, content=_decoded(name, content))
            for name, content in request.files.items()
            if content is not None
        ],
        fetch_files=request.fetch_files,
    )


def _decoded(name: str, content: str) -> bytes:
    try:
        return base64.b64decode(content, validate=True)
    except (binascii.Error, ValueError) as error:
        raise _invalid(f"files.{name}", f"is not valid base64: {error}") from None


def _invalid(field: str, description: str) -> InvalidArgument:
    return InvalidArgument(f"{field}: {description}", [FieldViolation(field, description)])


def response(execution: pb.Execution) -> RunCodeResponse:
    """SandboxFusion knows four ends of a command; a verdict of ours that it has no word for is in `message`."""
    passed = execution.verdict == verdict_pb2.VERDICT_PASSED
    compiler = compiled(execution)
    stopped = compiler is not None and not passed and execution.verdict == verdict_pb2.VERDICT_COMPILE_ERROR
    own_word = execution.verdict in _OWN_WORDS
    return RunCodeResponse(
        status=RunStatus.SUCCESS if passed else RunStatus.FAILED,
        message=f"{_word(execution)}: {execution.detail}" if own_word else "",
        compile_result=compiler,
        run_result=None if stopped else _ran(execution),
        executor_pod_name=socket.gethostname(),
        files={file.name: base64.b64encode(file.content).decode() for file in execution.files},
    )


def compiled(execution: pb.Execution) -> CommandRunResult | None:
    """Of a compiled language alone: Python's syntax errors are its interpreter's, as they are there."""
    if not execution.compile_time.ToTimedelta() and not execution.compile_output:
        return None
    failed = execution.verdict == verdict_pb2.VERDICT_COMPILE_ERROR
    return CommandRunResult(
        status=CommandRunStatus.FINISHED,
        execution_time=execution.compile_time.ToTimedelta().total_seconds(),
        return_code=1 if failed else 0,
        stdout="",
        stderr=execution.compile_output or (execution.detail if failed else ""),
    )


def _ran(execution: pb.Execution) -> CommandRunResult:
    timed_out = execution.verdict == verdict_pb2.VERDICT_TIME_LIMIT
    passed = execution.verdict == verdict_pb2.VERDICT_PASSED
    stderr = execution.stderr
    printed = execution.verdict == verdict_pb2.VERDICT_RUNTIME_ERROR and not execution.results
    if not (passed or timed_out or printed or execution.detail in stderr):
        # a syntax error, a limit or a failed test: the program itself printed nothing about it
        stderr += f"{execution.detail}\n"
    # a program with tests is ended from outside, and its status then means nothing
    code = 0 if passed else 1 if execution.results else execution.exit_status or 1
    return CommandRunResult(
        status=CommandRunStatus.TIME_LIMIT_EXCEEDED if timed_out else CommandRunStatus.FINISHED,
        execution_time=execution.wall_time.ToTimedelta().total_seconds(),
        cpu_time=execution.cpu_time.ToTimedelta().total_seconds(),
        return_code=None if timed_out else code,
        stdout=execution.stdout,
        stderr=stderr,
    )


def _word(execution: pb.Execution) -> str:
    return verdict_pb2.Verdict.Name(execution.verdict).removeprefix("VERDICT_").lower().replace("_", " ")
