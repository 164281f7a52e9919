"""Nothing becomes champion without evidence, and who was champion when is never forgotten."""

import asyncio
from datetime import timedelta

import pytest

from ratchet_kit.errors import Aborted, FailedPrecondition, InvalidArgument, NotFound
from ratchet_kit.statistics import Estimate
from registry_service.domain.gate import GateSpec
from registry_service.domain.version import Version, VersionSpec

from ..conftest import ModelFolder, Registry, starter


@pytest.fixture
async def versions(registry: Registry, model_folder: ModelFolder) -> list[Version]:
    """starter@1 (the champion), starter@2 and starter@3, each measured: eval_1, eval_2, eval_3."""
    made = [await registry.make(model_folder(f"source{seed}", seed)) for seed in (1, 2, 3)]
    for number, version in enumerate(made, 1):
        registry.evaluations.measure(f"eval_{number}", version)
    await registry.point("champion", 1, reason="first")
    return made


def spec(candidate: int = 2, champion: int = 1) -> GateSpec:
    return GateSpec(starter(candidate), f"eval_{candidate}", f"eval_{champion}")


async def test_a_passed_gate_opens_the_way(registry: Registry, versions: list[Version]) -> None:
    gate = await registry.gate(spec())
    assert await registry.point("champion", 2, reason="better", gate_id=gate.id, actor="key_1") == {"champion": 2}
    [newest, first] = (await registry.service.aliases.history("starter", "champion", 0, "")).items
    assert (newest.from_number, newest.to_number, newest.reason, newest.gate_id) == (1, 2, "better", gate.id)
    assert (newest.actor, first.actor) == ("key_1", "")
    assert (first.from_number, first.to_number) == (0, 1)


async def test_a_reward_model_is_never_champion(registry: Registry, model_folder: ModelFolder) -> None:
    folder = model_folder()
    config = '{"architectures": ["LlamaForSequenceClassification"], "id2label": {"0": "LABEL_0"}}'
    (folder / "config.json").write_text(config)
    await registry.make(folder)
    with pytest.raises(FailedPrecondition, match="starter@1 is a reward model"):
        await registry.point("champion", 1)
    assert await registry.point("judge", 1) == {"judge": 1}


async def test_a_reason_has_a_length(registry: Registry, versions: list[Version]) -> None:
    with pytest.raises(InvalidArgument, match="reason"):
        await registry.point("mine", 2, reason="x" * 2001)


async def test_champion_asks_for_the_right_gate(registry: Registry, versions: list[Version]) -> None:
    with pytest.raises(FailedPrecondition, match="CreateGate"):
        await registry.point("champion", 2)
    with pytest.raises(NotFound, match="no gate"):
        await registry.point("champion", 2, gate_id="gate_nowhere")
    gate = await registry.gate(spec(3))
    with pytest.raises(FailedPrecondition, match="is about starter@3"):
        await registry.point("champion", 2, gate_id=gate.id)


async def test_a_gate_that_is_not_decided_or_did_not_pass_is_not_enough(
    registry: Registry, versions: list[Version]
) -> None:
    undecided = await registry.service.gates.create(spec(), "")
    with pytest.raises(FailedPrecondition, match="not decided yet"):
        await registry.point("champion", 2, gate_id=undecided.id)
    registry.evaluations.difference = Estimate(0.2, -0.1, 0.3)
    refused = await registry.gate(spec())
    with pytest.raises(FailedPrecondition, match=r"did not pass\. Refused: starter@2 has"):
        await registry.point("champion", 2, gate_id=refused.id)
    failed = await registry.gate(GateSpec(starter(2), "eval_9", "eval_1"))
    with pytest.raises(FailedPrecondition, match=r"did not pass\. there is no evaluation eval_9"):
        await registry.point("champion", 2, gate_id=failed.id)


async def test_a_gate_against_an_earlier_champion_is_not_enough(registry: Registry, versions: list[Version]) -> None:
    second, third = await registry.gate(spec(2)), await registry.gate(spec(3))
    await registry.point("champion", 2, gate_id=second.id)
    with pytest.raises(FailedPrecondition, match="no longer the champion"):
        await registry.point("champion", 3, gate_id=third.id)


async def test_of_two_promotions_at_once_one_wins(registry: Registry, versions: list[Version]) -> None:
    gates = [await registry.gate(spec(number)) for number in (2, 3)]
    results = await asyncio.gather(
        *(registry.point("champion", gate.spec.candidate.number, gate_id=gate.id) for gate in gates),
        return_exceptions=True,
    )
    assert sorted(type(result).__name__ for result in results) == ["FailedPrecondition", "dict"]


async def test_a_return_needs_no_gate(registry: Registry, versions: list[Version]) -> None:
    gate = await registry.gate(spec())
    await registry.point("champion", 2, gate_id=gate.id)
    assert await registry.point("champion", 1, reason="rolled back") == {"champion": 1}
    history = (await registry.service.aliases.history("starter", "", 0, "")).items
    assert [change.to_number for change in history] == [1, 2, 1]


async def test_a_champion_that_was_taken_back_needs_a_new_gate(registry: Registry, versions: list[Version]) -> None:
    before = await registry.gate(spec())
    await registry.point("champion", 2, gate_id=before.id)
    registry.clock.advance(timedelta(hours=1))
    await registry.point("champion", 1, reason="release rel_1: too many errors", takes_back=True)
    with pytest.raises(FailedPrecondition, match=r"made since starter@2 was taken back .* \(release rel_1: too many"):
        await registry.point("champion", 2)
    with pytest.raises(FailedPrecondition, match="counts no more: it is from before starter@2 was taken back"):
        await registry.point("champion", 2, gate_id=before.id)
    assert "taken back" in await registry.service.gates.why_stale(before)
    registry.clock.advance(timedelta(hours=1))
    after = await registry.gate(spec())
    assert await registry.service.gates.why_stale(after) == ""
    await registry.point("champion", 2, gate_id=after.id)
    await registry.point("champion", 1, reason="by hand")
    assert await registry.point("champion", 2) == {"champion": 2}, "what ended well may return"
    with pytest.raises(InvalidArgument, match="takes_back is for the alias champion"):
        await registry.point("candidate", 2, takes_back=True)


async def test_setting_what_is_set_adds_no_history(registry: Registry, versions: list[Version]) -> None:
    await registry.point("champion", 1, reason="again")
    await registry.point("champion", 1, expected=3)
    assert len((await registry.service.aliases.history("starter", "", 0, "")).items) == 1


async def test_other_aliases_are_free(registry: Registry, versions: list[Version]) -> None:
    assert await registry.point("candidate", 3) == {"champion": 1, "candidate": 3}
    with pytest.raises(NotFound, match="no version 9"):
        await registry.point("candidate", 9)
    with pytest.raises(InvalidArgument):
        await registry.point("7", 1)


async def test_who_says_what_is_there_is_refused_when_it_is_not(registry: Registry, versions: list[Version]) -> None:
    with pytest.raises(Aborted, match="alias starter:candidate is at no version, not at 1"):
        await registry.point("candidate", 2, expected=1)
    assert (await registry.point("candidate", 2, expected=0))["candidate"] == 2
    with pytest.raises(Aborted, match="is at 2, not at none"):
        await registry.point("candidate", 3, expected=0)
    assert (await registry.point("candidate", 3, expected=2))["candidate"] == 3


async def test_a_version_that_is_not_ready_gets_no_alias(registry: Registry) -> None:
    await registry.service.versions.create(VersionSpec("starter", "/m"), "")
    with pytest.raises(FailedPrecondition, match="starter@1 is not ready"):
        await registry.point("mine", 1)
