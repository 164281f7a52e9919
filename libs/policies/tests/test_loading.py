"""From whatever rollout-service has of a policy to READY, or to a reason why not."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from ratchet_kit.errors import (
    AlreadyExists,
    DataLoss,
    DeadlineExceeded,
    FailedPrecondition,
    Failure,
    InvalidArgument,
    NotFound,
    RatchetError,
    ResourceExhausted,
    Unavailable,
    Unimplemented,
)
from ratchet_policies import Policy, PolicySpec, PolicyState, ensure_ready, unload, with_recovery

SPEC = PolicySpec("starter@1", "/models/starter", "sha256:mine")
READY = Policy(SPEC.name, PolicyState.READY, "sha256:mine")
FAILED = Policy(SPEC.name, PolicyState.FAILED, failure=Failure("RESOURCE_EXHAUSTED", "no memory"))
POLL = timedelta(milliseconds=1)


class MemoryEngine:
    """One policy at most. The first `failures` loads end in FAILED; `faults` are raised by `load`, one per call."""

    def __init__(self, policy: Policy | None = None, failures: int = 0, looks: int = 0) -> None:
        self.policy = policy
        self.failures = failures
        self.looks = looks
        """How often a policy is seen LOADING before it is READY."""
        self.faults: list[RatchetError] = []
        self.failed = FAILED
        self.loads = self.unloads = 0

    async def load(self, spec: PolicySpec) -> Policy:
        if self.faults:
            raise self.faults.pop(0)
        self.loads += 1
        self.policy = replace(READY, state=PolicyState.LOADING)
        return self.policy

    async def get(self, name: str) -> Policy:
        if self.policy is None:
            raise NotFound(f"policy {name} is not loaded")
        if self.policy.state is PolicyState.LOADING:
            self.looks -= 1
            if self.looks < 0:
                self.policy = self.failed if self.loads <= self.failures else READY
        return self.policy

    async def unload(self, name: str) -> None:
        await self.get(name)
        self.unloads += 1
        self.policy = None


async def ready(engine: Any, **options: Any) -> Policy:
    return await ensure_ready(engine, SPEC, poll=POLL, **options)


async def test_what_is_missing_is_loaded_and_waited_for() -> None:
    engine = MemoryEngine(looks=3)
    assert await ready(engine) == READY
    assert engine.loads == 1


async def test_what_is_there_is_taken() -> None:
    engine = MemoryEngine(READY)
    assert await ready(engine) == READY
    assert engine.loads == 0


async def test_what_is_unloading_is_waited_for_and_loaded() -> None:
    engine = MemoryEngine(replace(READY, state=PolicyState.UNLOADING))

    async def go() -> None:
        await asyncio.sleep(0.01)
        engine.policy = None

    await asyncio.gather(ready(engine), go())
    assert engine.loads == 1


async def test_what_failed_before_is_loaded_anew() -> None:
    engine = MemoryEngine(FAILED)
    assert await ready(engine) == READY
    assert (engine.loads, engine.unloads) == (1, 1)


async def test_what_fails_again_is_given_up_with_its_reason() -> None:
    engine = MemoryEngine(failures=9)
    with pytest.raises(FailedPrecondition, match="could not load /models/starter: no memory"):
        await ready(engine)
    assert engine.loads == 2


@pytest.mark.parametrize("kind", [InvalidArgument, DataLoss, Unimplemented])
async def test_a_permanent_fault_is_given_up_at_once(kind: type[RatchetError]) -> None:
    engine = MemoryEngine(failures=9)
    engine.failed = replace(FAILED, failure=Failure.of(kind("no such architecture")))
    with pytest.raises(kind, match="could not load /models/starter: no such architecture"):
        await ready(engine)
    assert engine.loads == 1


async def test_a_permanent_fault_of_an_earlier_load_may_be_mended() -> None:
    engine = MemoryEngine(replace(FAILED, failure=Failure("INVALID_ARGUMENT", "no such architecture")))
    assert await ready(engine) == READY


async def test_a_second_load_may_succeed() -> None:
    assert await ready(MemoryEngine(failures=1)) == READY


async def test_other_weights_are_refused_where_some_are_asked_for() -> None:
    engine = MemoryEngine(replace(READY, policy_id="sha256:other"))
    with pytest.raises(DataLoss, match="sha256:other"):
        await ready(engine)
    assert (await ensure_ready(engine, replace(SPEC, policy_id=""))).policy_id == "sha256:other"  # type: ignore[arg-type]


async def test_somebody_elses_load_is_waited_for() -> None:
    engine = MemoryEngine()
    engine.faults = [AlreadyExists("policy starter@1 is loading")] * 1000

    async def somebody() -> None:
        await asyncio.sleep(0.005)
        engine.policy = READY

    await asyncio.gather(ready(engine), somebody())
    assert engine.loads == 0


async def test_no_room_is_said() -> None:
    engine = MemoryEngine()
    engine.faults = [ResourceExhausted("4 policies are loaded")]
    with pytest.raises(ResourceExhausted, match="4 policies"):
        await ready(engine)


async def test_transient_errors_are_retried_for_the_patience() -> None:
    engine = MemoryEngine()
    engine.faults = [Unavailable("restarting")]
    with pytest.raises(Unavailable):
        await ready(engine)
    engine.faults = [Unavailable("restarting"), ResourceExhausted("full")]
    assert await ready(engine, patience=timedelta(seconds=30)) == READY


async def test_waiting_has_an_end() -> None:
    with pytest.raises(DeadlineExceeded, match="/models/starter was not loaded within"):
        await ready(MemoryEngine(looks=10_000), timeout=timedelta(milliseconds=20))


async def test_unload_is_idempotent() -> None:
    engine: Any = MemoryEngine(READY)
    await unload(engine, SPEC.name)
    await unload(engine, SPEC.name)
    assert engine.unloads == 1


async def test_what_was_lost_is_recovered_once() -> None:
    losses = [NotFound("no policy"), NotFound("no policy again")]
    recovered: list[str] = []

    async def call() -> str:
        if losses:
            raise losses.pop(0)
        return "done"

    async def recover(error: RatchetError) -> None:
        recovered.append(error.message)

    with pytest.raises(NotFound, match="again"):
        await with_recovery(call, recover)
    assert await with_recovery(call, recover) == "done"
    losses.append(NotFound("no policy"))
    assert await with_recovery(call, recover) == "done"
    assert len(recovered) == 2


async def test_only_a_loss_is_recovered() -> None:
    async def call() -> str:
        raise Unavailable("down")

    async def recover(error: RatchetError) -> None:
        raise AssertionError("must not be called")

    with pytest.raises(Unavailable):
        await with_recovery(call, recover)
