"""Loading: whatever rollout-service has of a policy, from there to READY."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta
from typing import TypeVar

from ratchet_kit.errors import (
    AlreadyExists,
    DataLoss,
    DeadlineExceeded,
    FailedPrecondition,
    Failure,
    NotFound,
    RatchetError,
)
from ratchet_kit.logs import get_logger
from ratchet_kit.permanent import PERMANENT
from ratchet_kit.retry import patiently
from ratchet_policies.engine import PolicyEngine
from ratchet_policies.policy import Policy, PolicySpec, PolicyState

T = TypeVar("T")

LOST: tuple[type[RatchetError], ...] = (NotFound, FailedPrecondition)
"""Errors that `generate` raises for a policy that is gone, has failed or has other weights."""

LOADS = 2
"""One that failed for what may pass is loaded so often."""
_PERMANENT = {Failure.of(kind("")).code: kind for kind in PERMANENT}

log = get_logger(__name__)


async def ensure_ready(
    engine: PolicyEngine,
    spec: PolicySpec,
    *,
    timeout: timedelta | None = None,
    patience: timedelta = timedelta(),
    poll: timedelta = timedelta(milliseconds=250),
) -> Policy:
    """The policy, once it is READY with the weights that `spec` asks for.

    One that is loaded or loading is waited for. One that is missing is loaded. One that has failed before is unloaded
    and loaded again, until a load of this call has failed for a permanent fault, or LOADS have failed for others.

    `timeout`: for all of it. `patience`: how long each transient error is retried.

    Raises:
        InvalidArgument, DataLoss and the others of PERMANENT: each load of it would fail so; or, DataLoss, it is there
            with other weights.
        FailedPrecondition: it could not be loaded, and another time may be; says why.
        DeadlineExceeded: it was not READY within `timeout`.
        ResourceExhausted, Unavailable: for longer than the patience.
    """
    seconds = None if timeout is None else timeout.total_seconds()
    try:
        async with asyncio.timeout(seconds):
            return await _ensure_ready(engine, spec, patience, poll)
    except TimeoutError as error:
        raise DeadlineExceeded(f"{spec.source} was not loaded within {seconds:g} s") from error


async def _ensure_ready(
    engine: PolicyEngine,
    spec: PolicySpec,
    patience: timedelta,
    poll: timedelta,
) -> Policy:
    started = 0
    while True:
        policy = await patiently(lambda: _find(engine, spec.name), patience, "get policy")
        match policy.state if policy else None:
            case PolicyState.READY if policy and spec.policy_id in ("", policy.policy_id):
                return policy
            case PolicyState.READY if policy:
                raise DataLoss(f"{spec.name} is loaded with other weights ({policy.policy_id}, not {spec.policy_id})")
            case PolicyState.FAILED if policy and started and (started >= LOADS or _code(policy) in _PERMANENT):
                kind = _PERMANENT.get(_code(policy), FailedPrecondition)
                raise kind(f"rollout-service could not load {spec.source}: {_reason(policy)}")
            case PolicyState.FAILED:
                await patiently(lambda: unload(engine, spec.name), patience, "unload policy")
            case None:
                started += 1
                await patiently(lambda: _start(engine, spec, poll), patience, "load policy")
            case _:
                await asyncio.sleep(poll.total_seconds())


async def unload(engine: PolicyEngine, name: str) -> None:
    """No error when it is not there. Raises Unavailable, DeadlineExceeded."""
    with suppress(NotFound):
        await engine.unload(name)


async def with_recovery(
    call: Callable[[], Awaitable[T]],
    recover: Callable[[RatchetError], Awaitable[None]],
    lost: tuple[type[RatchetError], ...] = LOST,
) -> T:
    """`call`, and where it raises one of `lost`, `recover` and `call` once more. `recover` may raise in its turn."""
    try:
        return await call()
    except lost as error:
        log.warning("policy.lost", reason=error.message)
        await recover(error)
    return await call()


def _code(policy: Policy) -> str:
    return policy.failure.code if policy.failure else ""


def _reason(policy: Policy) -> str:
    return policy.failure.message if policy.failure else "no reason was given"


async def _find(engine: PolicyEngine, name: str) -> Policy | None:
    try:
        return await engine.get(name)
    except NotFound:
        return None


async def _start(engine: PolicyEngine, spec: PolicySpec, poll: timedelta) -> None:
    try:
        await engine.load(spec)
    except AlreadyExists:
        await asyncio.sleep(poll.total_seconds())  # someone else was faster: the next look finds it
