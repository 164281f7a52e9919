"""Rewards of one's own."""

from datetime import timedelta
from typing import Any

import pytest

from ratchet_kit.errors import AlreadyExists, InvalidArgument
from ratchet_kit.names import RewardRef
from registry_service.domain.reward import RewardSpec

SPEC = RewardSpec("brevity", "print([])\n", "short answers")


async def test_a_reward_is_made_once(registry: Any) -> None:
    rewards = registry.service.rewards
    first = await rewards.create(SPEC, "r1", "key_1")
    registry.clock.advance(timedelta(hours=1))
    assert await rewards.create(SPEC, "r1", "key_2") == first
    assert await rewards.create(RewardSpec("brevity", SPEC.source, "another"), "r2", "key_2") == first
    assert (first.number, first.actor, first.digest) == (1, "key_1", SPEC.digest)
    with pytest.raises(AlreadyExists, match="another reward"):
        await rewards.create(RewardSpec("brevity", "print([1])"), "r1")


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        (RewardSpec("Brevity", SPEC.source), "name"),
        (RewardSpec("brevity.py", SPEC.source), "name"),
        (RewardSpec("b" * 41, SPEC.source), "name"),
        (RewardSpec("style", SPEC.source), "name"),
        (RewardSpec("balanced", SPEC.source), "name"),
        (RewardSpec("tests", SPEC.source), "name"),
        (RewardSpec("brevity", " \n"), "source"),
        (RewardSpec("brevity", "print([])\0"), "source"),
        (RewardSpec("brevity", "def ("), "source"),
        (RewardSpec("brevity", "(" * 30_000), "source"),
        (RewardSpec("brevity", "#" + "é" * (16 << 10)), "source"),
        (RewardSpec("brevity", SPEC.source, "d" * 2001), "description"),
    ],
)
async def test_what_no_run_could_use_is_refused(registry: Any, spec: RewardSpec, field: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        await registry.service.rewards.create(spec, "")
    assert [fault.field for fault in refused.value.violations] == [field]


async def test_the_largest_program_is_taken(registry: Any) -> None:
    spec = RewardSpec("b" * 40, "é" * (16 << 10))
    assert (await registry.service.rewards.create(spec, "")).size_bytes == 32 << 10


async def test_lists_come_in_pages(registry: Any) -> None:
    rewards = registry.service.rewards
    for number in range(3):
        await rewards.create(RewardSpec("brevity", f"print([{number}])"), "")
    first = await rewards.page("", 2, "")
    rest = await rewards.page("", 2, first.next_page_token)
    assert [one.number for one in (*first.items, *rest.items)] == [3, 2, 1]
    assert rest.next_page_token == ""


@pytest.mark.parametrize("run_id", ["", "r" * 65])
async def test_a_use_names_a_run(registry: Any, run_id: str) -> None:
    reward = await registry.service.rewards.create(SPEC, "")
    with pytest.raises(InvalidArgument, match="run_id"):
        await registry.service.rewards.use(reward.ref, run_id)
    assert (await registry.service.rewards.get(RewardRef("brevity"))).runs == 0
