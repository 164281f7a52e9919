"""Does what plans say, by ratchet_workflows: a thread for each, which calls this gateway's own API for a key."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from starlette.types import ASGIApp

from gateway_service.adapters.in_process import URL, InProcess
from gateway_service.domain.keys.key import ApiKey
from gateway_service.domain.workflows.ports import WorkflowStore
from gateway_service.domain.workflows.workflow import Plan, Workflow
from ratchet_client import ApiError, Client, Unreachable
from ratchet_client.address import Address
from ratchet_client.calls import Call, Stream
from ratchet_client.client import DEFAULT_TIMEOUT_S
from ratchet_client.transport import SyncTransport
from ratchet_kit.errors import (
    FailedPrecondition,
    FieldViolation,
    InvalidArgument,
    Unauthenticated,
    Unavailable,
)
from ratchet_kit.grpc_errors import CODES
from ratchet_kit.times import Clock
from ratchet_workflows import kinds
from ratchet_workflows.errors import UsageError, WorkflowError
from ratchet_workflows.kinds import Ending, Outcome
from ratchet_workflows.notation.yaml_files import YamlText
from ratchet_workflows.progress import Lines

T = TypeVar("T")
KeyOf = Callable[[str], Awaitable[ApiKey]]
AWAY = ("UNAVAILABLE", "DEADLINE_EXCEEDED", "RESOURCE_EXHAUSTED", "ABORTED")
"""Codes of what may be answered a while later."""
ERRORS = {code.name: kind for kind, code in CODES.items()}


@dataclass(slots=True)
class Inside:
    """The HTTP application. Mutable: the rooms are wired before it is there."""

    app: ASGIApp | None = None


class ThreadRunner:
    """`Runner` over threads of this process."""

    def __init__(self, store: WorkflowStore, inside: Inside, key_of: KeyOf, clock: Clock) -> None:
        """`key_of`: a key by its id. Raises Unauthenticated for one that is not valid any more."""
        self._store = store
        self._inside = inside
        self._key_of = key_of
        self._clock = clock

    async def check(self, plan: Plan, actor: str) -> str:
        def check(client: Client, transport: InProcess) -> str:
            return kinds.check(plan.kind, client, YamlText(plan.name, plan.text))

        return await self._in_thread(check, actor, "")

    async def work(self, workflow: Workflow, owner: str) -> Ending:
        loop, plan = asyncio.get_running_loop(), workflow.plan

        def work(client: Client, transport: InProcess) -> Ending:
            kept = _Kept(workflow, owner, self._store, loop, transport)

            def say(line: str) -> None:
                kept.stored(self._store.change(workflow.id, lambda present: present.say(owner, line)))
                kept.stored(self._store.add_line(workflow.id, line, self._clock.now()))

            try:
                source = YamlText(plan.name, plan.text)
                return kinds.work(plan.kind, client, source, kept, Lines(say), plan.name, workflow.number)
            except (UsageError, WorkflowError, ApiError) as error:
                return Ending(Outcome.FAILED, str(error))
            except FailedPrecondition:  # it was cancelled: what it made since is not on record
                kinds.abandon(client, kept.record)
                raise

        try:
            return await self._in_thread(work, workflow.actor, workflow.id)
        except Unauthenticated as error:
            return Ending(Outcome.FAILED, f"It acts for {workflow.actor}, which created it: {error.message}.")

    async def abandon(self, record: Mapping[str, Any], actor: str) -> None:
        await self._in_thread(lambda client, transport: kinds.abandon(client, record), actor, "")

    async def _in_thread(self, work: Callable[[Client, InProcess], T], actor: str, request_id: str) -> T:
        """The result of `work`, whose calls raise Closed once nobody waits for it."""
        assert self._inside.app is not None
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()
        transport = InProcess(self._inside.app, lambda: self._key_of(actor), request_id)

        def settle(result: T | None, error: BaseException | None) -> None:
            if done.done():
                return
            if error is None:
                done.set_result(result)  # type: ignore[arg-type]
            else:
                done.set_exception(error)

        def run() -> None:
            try:
                with _as_ours():
                    result = work(Client.over(_Patient(transport)), transport)
            except BaseException as error:  # noqa: BLE001  whoever waits shall know
                tell(None, error)
            else:
                tell(result, None)

        def tell(result: T | None, error: BaseException | None) -> None:
            with suppress(RuntimeError):  # the loop is closed, and nobody waits
                loop.call_soon_threadsafe(settle, result, error)

        threading.Thread(target=run, name="workflow", daemon=True).start()
        try:
            return await done
        finally:
            transport.close()


class _Patient(SyncTransport):
    """A part of the platform that is away does not answer: that is no refusal."""

    def __init__(self, transport: InProcess) -> None:
        super().__init__(Address(URL), DEFAULT_TIMEOUT_S, transport)

    def call(self, call: Call[T]) -> T:
        with _patiently():
            return super().call(call)

    def stream(self, stream: Stream[T]) -> Iterator[T]:
        with _patiently():
            yield from super().stream(stream)


@contextmanager
def _patiently() -> Iterator[None]:
    try:
        yield
    except ApiError as error:
        if error.code in AWAY:
            raise Unreachable(str(error)) from error
        raise


@contextmanager
def _as_ours() -> Iterator[None]:
    """The client's errors as the domain knows them."""
    try:
        yield
    except UsageError as error:
        lines = str(error).splitlines()
        raise InvalidArgument(str(error), [FieldViolation("plan.text", line) for line in lines]) from error
    except WorkflowError as error:
        raise FailedPrecondition(str(error)) from error
    except ApiError as error:
        raise ERRORS.get(error.code, FailedPrecondition)(str(error)) from error
    except Unreachable as error:
        raise Unavailable(str(error)) from error


class _Kept:
    """`ratchet_workflows.kept.Kept` in the gateway's database."""

    def __init__(
        self,
        workflow: Workflow,
        owner: str,
        store: WorkflowStore,
        loop: asyncio.AbstractEventLoop,
        transport: InProcess,
    ) -> None:
        self.id = workflow.id
        self.record = workflow.record
        """As it was handed in last, stored or not."""
        self._owner = owner
        self._store = store
        self._loop = loop
        self._transport = transport

    def read(self) -> Mapping[str, Any]:
        return self.record

    def save(self, record: Mapping[str, Any]) -> None:
        self.record = record
        self.stored(self._store.change(self.id, lambda present: present.keep(self._owner, record)))

    def stored(self, storing: Any) -> None:
        """Raises Unreachable where the store is away, Aborted and FailedPrecondition where it is not the owner's any
        more."""
        try:
            self._transport.check_open()
        except BaseException:
            storing.close()
            raise
        try:
            asyncio.run_coroutine_threadsafe(storing, self._loop).result()
        except Unavailable as error:
            raise Unreachable(error.message) from error
