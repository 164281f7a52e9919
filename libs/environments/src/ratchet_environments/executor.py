"""Runs programs in a sandbox: many callers, few calls, and the platform's faults kept apart from verdicts."""

import asyncio
import hashlib
import itertools
import random
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Self

from ratchet.sandbox.v1 import program_pb2 as pb
from ratchet_environments.sandbox import Sandbox
from ratchet_kit.client import MAX_MESSAGE_BYTES
from ratchet_kit.errors import (
    DeadlineExceeded,
    FieldViolation,
    Internal,
    InvalidArgument,
    RatchetError,
    ResourceExhausted,
    Unavailable,
)
from ratchet_kit.logs import get_logger
from ratchet_kit.times import duration_from_proto

log = get_logger(__name__)

MAX_BATCH = 64
_CALL_BYTES = 16 << 20
"""Programs that go together in a call; one alone may be larger."""
_MOST_BYTES = MAX_MESSAGE_BYTES - (1 << 20)
"""Bytes of a program with its tests, in a call of its own."""
_PROGRAM_INDEX = re.compile(r"programs\[(\d+)\]")


@dataclass(slots=True)  # mutable: it counts its attempts
class _Job:
    program: pb.Program
    done: asyncio.Future[pb.Execution]
    attempts: int = 0
    alone: bool = False
    """Sent by itself: it is large, or was in a call that failed as a whole, and whose fault that was is not known."""


class Executor:
    """`async with Executor(sandbox) as executor`. One event loop; any number of concurrent `execute` calls.

    Callers' programs meet in a queue, from which `calls` workers each take up to 64 at a time: what arrives while all
    are under way goes together in the next call. Nothing waits for a batch to fill.
    """

    def __init__(
        self,
        sandbox: Sandbox,
        *,
        attempts: int = 5,
        backoff: timedelta = timedelta(milliseconds=200),
        calls: int = 4,
        equal_once: bool = False,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """`attempts` of a program, with `backoff` doubling between them. `equal_once`: equal programs that are under
        way together are run once, as is right for samples of one policy, of which many are the same."""
        self._sandbox = sandbox
        self._attempts = attempts
        self._backoff = backoff.total_seconds()
        self._calls = calls
        self._equal_once = equal_once
        self._sleep = sleep
        self._queue: asyncio.Queue[_Job] = asyncio.Queue()
        self._numbers = itertools.count()
        self.cpu_time = timedelta()
        """Processor time of all programs that it had run, their compilers' included, as the sandbox reports it."""
        self._workers: list[asyncio.Task[None]] = []
        self._pending: dict[bytes | int, asyncio.Future[pb.Execution]] = {}
        """Executions under way, by the program; by a number of its own where equal ones are run apart."""
        self._waiting: Counter[bytes | int] = Counter()
        """How many callers wait for each."""

    async def __aenter__(self) -> Self:
        self._workers = [asyncio.create_task(self._work()) for _ in range(self._calls)]
        return self

    async def __aexit__(self, *_: object) -> None:
        for worker in self._workers:
            worker.cancel()
        await asyncio.gather(*self._workers, return_exceptions=True)
        for future in self._pending.values():
            future.cancel()

    async def execute(self, program: pb.Program) -> pb.Execution:
        """The execution of the program.

        Raises Unavailable when the platform failed `attempts` times, InvalidArgument for a program that the sandbox
        can't run. A call that fails with INTERNAL is repeated with each of its programs alone.
        """
        if not self._workers:
            raise Internal("the executor is not open: use it in `async with`")
        size = program.ByteSize()
        if size > _MOST_BYTES:
            raise InvalidArgument(f"{program.id}: with its tests it has {size} bytes, of {_MOST_BYTES} at most")
        key: bytes | int = next(self._numbers)
        if self._equal_once:
            key = hashlib.sha256(program.SerializeToString(deterministic=True)).digest()
        done = self._pending.get(key)
        if done is None:
            done = self._pending[key] = asyncio.get_running_loop().create_future()
            self._queue.put_nowait(_Job(program, done, alone=size > _CALL_BYTES))
        self._waiting[key] += 1
        try:
            return await asyncio.shield(done)
        finally:
            self._waiting[key] -= 1
            if not self._waiting[key]:
                del self._waiting[key], self._pending[key]
                done.cancel()  # nobody waits for it any more

    async def _work(self) -> None:
        while True:
            jobs = [await self._queue.get()]
            size = jobs[0].program.ByteSize()
            while len(jobs) < MAX_BATCH and size < _CALL_BYTES and not self._queue.empty():
                jobs.append(self._queue.get_nowait())
                size += jobs[-1].program.ByteSize()
            # the callers of some may have been cancelled meanwhile
            jobs = [job for job in jobs if not job.done.done()]
            together = [job for job in jobs if not job.alone]
            for call in ([together] if together else []) + [[job] for job in jobs if job.alone]:
                await self._run(call)

    async def _run(self, jobs: Sequence[_Job]) -> None:
        try:
            items = await self._sandbox.execute_batch([job.program for job in jobs])
        except InvalidArgument as error:
            self._set_aside(jobs, error)
        except (Unavailable, DeadlineExceeded, ResourceExhausted) as error:
            await self._again(jobs, error)
        except Internal as error:
            for job in jobs:
                job.alone = True
            await self._again(jobs, error)
        except RatchetError as error:
            self._apart(jobs, error)
        except Exception as error:  # a bug: the worker has others to serve
            log.exception("sandbox.broken", programs=len(jobs))
            for job in jobs:
                _fail(job, Internal(f"the sandbox could not be asked: {type(error).__name__}: {error}"))
        else:
            if len(items) != len(jobs):
                await self._again(jobs, Unavailable(f"the sandbox answered {len(items)} of {len(jobs)} programs"))
                return
            for item in items:
                ran = item.execution
                self.cpu_time += duration_from_proto(ran.cpu_time) + duration_from_proto(ran.compile_time)
            faulty = [job for job, item in zip(jobs, items, strict=True) if not _take(job, item)]
            if faulty:
                await self._again(faulty, Unavailable(_first_fault(items)))

    def _set_aside(self, jobs: Sequence[_Job], error: InvalidArgument) -> None:
        """The programs that the sandbox named fail; those that only shared the call with them go again."""
        own: dict[int, list[FieldViolation]] = {}
        for violation in error.violations:
            if match := _PROGRAM_INDEX.match(violation.field):
                own.setdefault(int(match[1]), []).append(violation)
        if not own:
            self._apart(jobs, error)
            return
        for index, job in enumerate(jobs):
            if index in own:
                _fail(job, InvalidArgument(f"{own[index][0].field}: {own[index][0].description}", own[index]))
            else:
                self._queue.put_nowait(job)

    def _apart(self, jobs: Sequence[_Job], error: RatchetError) -> None:
        """A call is refused for one of its programs, whose runtime is not there, say: which of them is not told."""
        if len(jobs) == 1:
            _fail(jobs[0], error)
            return
        for job in jobs:
            job.alone = True
            self._queue.put_nowait(job)

    async def _again(self, jobs: Sequence[_Job], error: RatchetError) -> None:
        for job in jobs:
            job.attempts += 1
        left = [job for job in jobs if job.attempts < self._attempts]
        log.warning("sandbox.failed", reason=error.message, programs=len(jobs), given_up=len(jobs) - len(left))
        for job in jobs:
            if job.attempts >= self._attempts:
                _fail(job, Unavailable(f"the sandbox failed {job.attempts} times: {error.message}"))
        if left:
            await self._sleep(self._wait(max(job.attempts for job in left), error))
            for job in left:
                self._queue.put_nowait(job)

    def _wait(self, attempts: int, error: RatchetError) -> float:
        """Seconds: exponential with jitter, and not before the sandbox asked to be tried again."""
        wait: float = self._backoff * 2 ** (attempts - 1) * random.uniform(0.5, 1.5)
        if isinstance(error, ResourceExhausted) and error.retry_after is not None:
            return max(wait, error.retry_after.total_seconds())
        return wait


def _take(job: _Job, item: pb.ExecutionItem) -> bool:
    """False for an item that the platform failed."""
    if item.WhichOneof("outcome") != "execution":
        return False
    if not job.done.done():
        job.done.set_result(item.execution)
    return True


def _fail(job: _Job, error: Exception) -> None:
    if not job.done.done():
        job.done.set_exception(error)


def _first_fault(items: Sequence[pb.ExecutionItem]) -> str:
    return next((item.platform_error for item in items if item.platform_error), "an item without an outcome")
