"""A gate is decided once, from evidence about these very weights."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from ratchet_kit.errors import (
    AlreadyExists,
    DeadlineExceeded,
    FailedPrecondition,
    InvalidArgument,
    NotFound,
    RatchetError,
    ResourceExhausted,
    Unavailable,
)
from ratchet_kit.statistics import Estimate
from registry_service.domain.gate import GateSpec, State
from registry_service.domain.version import Version, VersionSpec

from ..conftest import ModelFolder, Registry, starter


@pytest.fixture
async def versions(registry: Registry, model_folder: ModelFolder) -> list[Version]:
    """starter@1 (the champion) and starter@2, each measured: eval_1, eval_2."""
    made = [await registry.make(model_folder(f"source{seed}", seed)) for seed in (1, 2)]
    for number, version in enumerate(made, 1):
        registry.evaluations.measure(f"eval_{number}", version)
    await registry.point("champion", 1)
    return made


def spec(min_difference: float = 0.0) -> GateSpec:
    return GateSpec(starter(2), "eval_2", "eval_1", min_difference)


async def test_a_gate_is_returned_at_once_and_then_decided(registry: Registry, versions: list[Version]) -> None:
    gate = await registry.service.gates.create(spec(), "")
    assert (gate.state, gate.champion, gate.comparison) == (State.PENDING, starter(1), None)
    async with registry.working():
        seen = [seen async for seen in registry.service.gates.watch(gate.id)]
    assert [gate.state for gate in seen] == [State.PENDING, State.PASSED]
    assert seen[-1].reason == (
        "Passed: starter@2 has 0.700 and starter@1 0.500 in pass@1 over 200 problems: a difference of +0.200 (95 % "
        "interval +0.100 to +0.300), p = 0.0004, where it was asked to be above +0.000. starter@2 may be released or "
        "promoted with this gate."
    )


@pytest.mark.parametrize(
    ("low", "wanted", "state"),
    [
        (0.1, 0.0, State.PASSED),
        (0.0, 0.0, State.REFUSED),
        (-0.01, 0.0, State.REFUSED),
        (0.1, 0.1, State.REFUSED),
    ],
)
async def test_the_lower_end_decides(
    registry: Registry, versions: list[Version], low: float, wanted: float, state: State
) -> None:
    registry.evaluations.difference = Estimate(0.2, low, 0.3)
    assert (await registry.gate(spec(wanted))).state is state


async def test_a_gate_is_decided_once(registry: Registry, versions: list[Version]) -> None:
    gate = await registry.gate(spec(), "req_1")
    registry.evaluations.difference = Estimate(-0.5, -0.6, -0.4)
    assert await registry.gate(spec(), "req_1") == gate
    with pytest.raises(AlreadyExists, match="used before, for another gate"):
        await registry.service.gates.create(spec(0.5), "req_1")
    gates = registry.service.gates
    assert (await gates.page("starter", 0, "")).items == [gate] == [await gates.get(gate.id)]


async def test_evidence_must_be_about_these_weights(registry: Registry, versions: list[Version]) -> None:
    registry.evaluations.measure("eval_2", versions[0])
    gate = await registry.gate(spec())
    assert gate.state is State.FAILED
    assert gate.failure is not None
    assert gate.failure.code == "FAILED_PRECONDITION"
    assert "not those of starter@2" in gate.failure.message


async def test_evidence_must_be_about_this_chat_template(registry: Registry, versions: list[Version]) -> None:
    evaluations = registry.evaluations.evaluations
    measured = evaluations["eval_2"]
    evaluations["eval_2"] = replace(measured, settings_id="sha256:another")
    gate = await registry.gate(spec())
    assert gate.failure is not None
    assert "measured the weights of starter@2 with another config, tokenizer or chat template" in gate.failure.message
    evaluations["eval_2"] = replace(measured, settings_id="")  # made before it was known
    assert (await registry.gate(spec())).state is State.PASSED


async def test_evidence_must_be_on_the_same_problems(registry: Registry, versions: list[Version]) -> None:
    registry.evaluations.measure("eval_2", versions[1], digest="sha256:other")
    gate = await registry.gate(spec())
    assert gate.failure is not None
    assert "not made on the same problems" in gate.failure.message


async def test_evidence_that_is_not_there_fails_the_gate(registry: Registry, versions: list[Version]) -> None:
    gate = await registry.gate(GateSpec(starter(2), "eval_9", "eval_1"))
    assert gate.failure is not None
    assert (gate.failure.code, gate.failure.message) == ("NOT_FOUND", "there is no evaluation eval_9")


@pytest.mark.parametrize(
    "error", [Unavailable("eval is away"), DeadlineExceeded("eval is slow"), ResourceExhausted("eval is full")]
)
async def test_a_gate_waits_for_eval_to_come_back(
    registry: Registry, versions: list[Version], monkeypatch: pytest.MonkeyPatch, error: RatchetError
) -> None:
    async def away(id: str) -> None:
        raise error

    gate = await registry.service.gates.create(spec(), "")
    with monkeypatch.context() as patch:
        patch.setattr(registry.evaluations, "get", away)
        async with asyncio.timeout(10), registry.working():
            while (await registry.service.gates.get(gate.id)).attempts == 0:
                await asyncio.sleep(0.005)
    assert (await registry.service.gates.get(gate.id)).state is State.PENDING
    registry.queues.gates.flush()
    registry.clock.advance(timedelta(minutes=1))
    async with registry.working():
        assert [seen async for seen in registry.service.gates.watch(gate.id)][-1].state is State.PASSED


async def test_a_gate_needs_a_champion_that_is_not_the_candidate(registry: Registry, model_folder: ModelFolder) -> None:
    gates = registry.service.gates
    await registry.make(model_folder())
    first = GateSpec(starter(1), "eval_1", "eval_1")
    with pytest.raises(FailedPrecondition, match="no champion"):
        await gates.create(first, "")
    await registry.point("champion", 1)
    with pytest.raises(InvalidArgument, match="the champion itself"):
        await gates.create(first, "")
    await registry.service.versions.create(VersionSpec("starter", "/m"), "")
    with pytest.raises(FailedPrecondition, match="starter@2 is not ready"):
        await gates.create(spec(), "")
    with pytest.raises(NotFound, match="no version 9"):
        await gates.create(GateSpec(starter(9), "eval_1", "eval_1"), "")


@pytest.mark.parametrize("min_difference", [float("nan"), -1, -0.11, 1])
async def test_every_fault_of_a_gate_is_named(registry: Registry, min_difference: float) -> None:
    with pytest.raises(InvalidArgument) as refused:
        await registry.service.gates.create(GateSpec(starter(1), "", "", min_difference), "")
    fields = [violation.field for violation in refused.value.violations]
    assert fields == ["candidate_evaluation_id", "champion_evaluation_id", "min_difference"]
