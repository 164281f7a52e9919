"""Nothing becomes champion without evidence, and who was champion when is never forgotten."""

import asyncio
from typing import Any

import pytest

from ratchet_kit.errors import AlreadyExists, FailedPrecondition, InvalidArgument, NotFound
from registry_service.domain.gates import Estimate, GateSpec
from registry_service.domain.models import Lineage


@pytest.fixture
async def versions(registry: Any, model_folder: Any) -> list[Any]:
    """starter@1 (the champion), starter@2 and starter@3, each measured: eval_1, eval_2, eval_3."""
    made = []
    for seed in (1, 2, 3):
        source = str(model_folder(f"source{seed}", seed))
        made.append(await registry.catalog.create_version("starter", source, Lineage(), {}, ""))
        registry.evaluations.measure(f"eval_{seed}", made[-1])
    await registry.aliases.set("starter", "champion", 1, "first", "")
    return made


def spec(candidate: int = 2, champion: int = 1, min_difference: float = 0.0) -> GateSpec:
    return GateSpec("starter", candidate, f"eval_{candidate}", f"eval_{champion}", min_difference)


async def test_a_passed_gate_opens_the_way(registry: Any, versions: list[Any]) -> None:
    gate = await registry.gates.create(spec(), "req_1")
    assert gate.passed
    assert gate.reason == (
        "Passed: starter@2 minus starter@1 is +0.200 in pass@1 over 200 problems (95 % interval +0.100 to +0.300, "
        "p = 0.0004), and the lower end lies above the +0.000 that was asked for."
    )
    model = await registry.aliases.set("starter", "champion", 2, "better", gate.id)
    assert model.champion == 2
    [newest, first] = (await registry.aliases.history("starter", "champion", 0, "")).items
    assert (newest.from_version, newest.to_version, newest.reason, newest.gate_id) == (1, 2, "better", gate.id)
    assert (first.from_version, first.to_version) == (0, 1)


@pytest.mark.parametrize(
    ("low", "asked", "passed"), [(0.1, 0.0, True), (0.0, 0.0, False), (-0.01, 0.0, False), (0.1, 0.1, False)]
)
async def test_the_lower_end_decides(
    registry: Any, versions: list[Any], low: float, asked: float, passed: bool
) -> None:
    registry.evaluations.difference = Estimate(0.2, low, 0.3)
    gate = await registry.gates.create(spec(min_difference=asked), "")
    assert gate.passed is passed
    if not passed:
        with pytest.raises(FailedPrecondition, match="did not pass"):
            await registry.aliases.set("starter", "champion", 2, "", gate.id)


async def test_champion_asks_for_the_right_gate(registry: Any, versions: list[Any]) -> None:
    with pytest.raises(FailedPrecondition, match="CreateGate"):
        await registry.aliases.set("starter", "champion", 2, "", "")
    with pytest.raises(NotFound, match="no gate"):
        await registry.aliases.set("starter", "champion", 2, "", "gate_nowhere")
    gate = await registry.gates.create(spec(3), "")
    with pytest.raises(FailedPrecondition, match="is about starter@3"):
        await registry.aliases.set("starter", "champion", 2, "", gate.id)


async def test_a_gate_against_an_earlier_champion_is_not_enough(registry: Any, versions: list[Any]) -> None:
    second, third = await registry.gates.create(spec(2), ""), await registry.gates.create(spec(3), "")
    await registry.aliases.set("starter", "champion", 2, "", second.id)
    with pytest.raises(FailedPrecondition, match="no longer the champion"):
        await registry.aliases.set("starter", "champion", 3, "", third.id)


async def test_of_two_promotions_at_once_one_wins(registry: Any, versions: list[Any]) -> None:
    gates = [await registry.gates.create(spec(number), "") for number in (2, 3)]
    results = await asyncio.gather(
        *(registry.aliases.set("starter", "champion", gate.candidate_version, "", gate.id) for gate in gates),
        return_exceptions=True,
    )
    assert sorted(type(result).__name__ for result in results) == ["FailedPrecondition", "Model"]


async def test_a_return_needs_no_gate(registry: Any, versions: list[Any]) -> None:
    gate = await registry.gates.create(spec(), "")
    await registry.aliases.set("starter", "champion", 2, "", gate.id)
    assert (await registry.aliases.set("starter", "champion", 1, "rolled back", "")).champion == 1
    history = (await registry.aliases.history("starter", "", 0, "")).items
    assert [change.to_version for change in history] == [1, 2, 1]


async def test_setting_what_is_set_adds_no_history(registry: Any, versions: list[Any]) -> None:
    await registry.aliases.set("starter", "champion", 1, "again", "")
    assert len((await registry.aliases.history("starter", "", 0, "")).items) == 1


async def test_other_aliases_are_free(registry: Any, versions: list[Any]) -> None:
    assert (await registry.aliases.set("starter", "candidate", 3, "", "")).aliases == {"champion": 1, "candidate": 3}
    with pytest.raises(NotFound, match="no version 9"):
        await registry.aliases.set("starter", "candidate", 9, "", "")
    with pytest.raises(InvalidArgument):
        await registry.aliases.set("starter", "7", 1, "", "")


async def test_a_gate_is_decided_once(registry: Any, versions: list[Any]) -> None:
    gate = await registry.gates.create(spec(), "req_1")
    registry.evaluations.difference = Estimate(-0.5, -0.6, -0.4)
    assert await registry.gates.create(spec(), "req_1") == gate
    with pytest.raises(AlreadyExists, match="used before"):
        await registry.gates.create(spec(3), "req_1")
    assert (await registry.gates.list("starter", 0, "")).items == [gate] == [await registry.gates.get(gate.id)]


async def test_evidence_must_be_about_these_weights(registry: Any, versions: list[Any]) -> None:
    registry.evaluations.measure("eval_2", versions[2])
    with pytest.raises(FailedPrecondition, match="not those of starter@2"):
        await registry.gates.create(spec(), "")
    registry.evaluations.measure("eval_2", versions[1])
    registry.evaluations.measure("eval_1", versions[1])
    with pytest.raises(FailedPrecondition, match="not those of starter@1"):
        await registry.gates.create(spec(), "")


async def test_evidence_must_be_on_the_same_problems(registry: Any, versions: list[Any]) -> None:
    registry.evaluations.measure("eval_2", versions[1], digest="sha256:other")
    with pytest.raises(FailedPrecondition, match="not made on the same problems"):
        await registry.gates.create(spec(), "")


async def test_a_gate_needs_a_champion_that_is_not_the_candidate(registry: Any, model_folder: Any) -> None:
    await registry.catalog.create_version("starter", str(model_folder()), Lineage(), {}, "")
    with pytest.raises(FailedPrecondition, match="no champion"):
        await registry.gates.create(spec(1), "")
    await registry.aliases.set("starter", "champion", 1, "", "")
    with pytest.raises(InvalidArgument, match="the champion itself"):
        await registry.gates.create(spec(1), "")


def test_every_fault_of_a_gate_is_named() -> None:
    with pytest.raises(InvalidArgument) as refused:
        GateSpec("starter", 0, "", "", float("nan"))
    fields = [violation.field for violation in refused.value.violations]
    assert fields == ["candidate_evaluation", "champion_evaluation", "candidate_version", "min_difference"]
