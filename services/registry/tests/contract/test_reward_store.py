"""What every RewardStore promises."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from ratchet_kit.errors import AlreadyExists, FailedPrecondition, NotFound
from ratchet_kit.names import RewardRef
from registry_service.domain.ports import Stores
from registry_service.domain.reward import Reward, RewardSpec

from ..conftest import NOW
from .values import request

LATER = NOW + timedelta(hours=1)


async def add(stores: Stores, source: str = "print([])", name: str = "brevity", actor: str = "key_1") -> Reward:
    spec = RewardSpec(name, source, "short answers")
    return await stores.rewards.create(spec, actor, NOW, request(f"{name} {source}"))


async def test_versions_are_numbered_and_keep_what_they_are(stores: Stores) -> None:
    first, second = await add(stores), await add(stores, "print([1])")
    assert (str(first.ref), str(second.ref)) == ("brevity@1", "brevity@2")
    assert await stores.rewards.get(first.ref) == first
    assert (first.source, first.size_bytes, first.actor, first.create_time) == ("print([])", 9, "key_1", NOW)
    assert (first.description, first.runs, first.last_run_id) == ("short answers", 0, "")
    assert await stores.rewards.get(RewardRef("brevity")) == second


async def test_the_same_source_is_the_same_version(stores: Stores) -> None:
    first = await add(stores)
    again = RewardSpec("brevity", "print([])", "another description")
    assert await stores.rewards.create(again, "key_2", LATER, request("req_2")) == first
    assert (await add(stores, name="terse")).number == 1
    assert (await add(stores, "print([1])")).number == 2  # no number was used up


async def test_a_request_makes_one_reward(stores: Stores) -> None:
    first = await add(stores)
    assert await stores.rewards.find(request("brevity print([])")) == first
    assert await stores.rewards.find(request("another")) is None
    with pytest.raises(AlreadyExists, match="used before, for another reward"):
        await stores.rewards.find(request("brevity print([])", fingerprint="another"))


async def test_two_who_register_at_once_get_numbers_of_their_own(stores: Stores) -> None:
    sources = ["print([1])", "print([2])", "print([1])"]
    specs = [RewardSpec("brevity", source) for source in sources]
    made = await asyncio.gather(
        *(stores.rewards.create(spec, "", NOW, request(f"req_{place}")) for place, spec in enumerate(specs))
    )
    assert made[0] == made[2]
    assert {one.number for one in made} == {1, 2}


async def test_what_is_not_there_is_refused_with_what_there_is(stores: Stores) -> None:
    with pytest.raises(NotFound, match="there is no reward 'brevity'; there are no rewards yet"):
        await stores.rewards.get(RewardRef("brevity"))
    for source in ("print([])", "print([1])"):
        await add(stores, source)
    await add(stores, name="terse")
    with pytest.raises(NotFound, match="reward brevity has no version 7; it has 1, 2"):
        await stores.rewards.get(RewardRef("brevity", 7))
    for ref in (RewardRef("loud"), RewardRef("loud", 1)):
        with pytest.raises(NotFound, match="there is no reward 'loud'; there are brevity, terse"):
            await stores.rewards.get(ref)
    with pytest.raises(NotFound, match="no reward 'loud'"):
        await stores.rewards.page("loud", 10, None)


async def test_lists_are_by_name_the_newest_first_and_without_sources(stores: Stores) -> None:
    first, second, other = await add(stores), await add(stores, "print([1])"), await add(stores, name="terse")
    listed = [replace(one, source="") for one in (second, first, other)]
    assert await stores.rewards.page(None, 10, None) == listed
    assert await stores.rewards.page(None, 2, None) == listed[:2]
    assert await stores.rewards.page(None, 2, ["brevity", 2]) == listed[1:]
    assert await stores.rewards.page(None, 2, ["brevity", 1]) == listed[2:]
    assert await stores.rewards.page("brevity", 10, None) == listed[:2]
    assert await stores.rewards.page("brevity", 10, ["brevity", 1]) == []


async def test_a_version_that_runs_were_made_with_stays_unless_it_is_forced(stores: Stores) -> None:
    ref = (await add(stores)).ref
    for run in ("run_1", "run_2", "run_1"):
        await stores.rewards.use(ref, run, LATER)
    used = await stores.rewards.get(ref)
    assert (used.runs, used.last_run_id) == (2, "run_2")
    with pytest.raises(FailedPrecondition, match=r"brevity@1 cannot be deleted: 2 runs were .*run_2 the last"):
        await stores.rewards.delete(ref, force=False)
    assert await stores.rewards.get(ref) == used
    assert await stores.rewards.delete(ref, force=True) == used
    for missing in (stores.rewards.get(ref), stores.rewards.delete(ref, force=True), stores.rewards.use(ref, "r", NOW)):
        with pytest.raises(NotFound):
            await missing


async def test_a_number_is_not_given_again(stores: Stores) -> None:
    await stores.rewards.delete((await add(stores)).ref, force=False)
    assert await stores.rewards.page(None, 10, None) == []
    assert (await add(stores)).number == 2
