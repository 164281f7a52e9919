"""Rewards of the registry: which a reward names, and what becomes of them."""

import pytest

from ratchet_kit.errors import NotFound, Unavailable
from ratchet_kit.faults import Faults
from ratchet_kit.names import RewardRef
from ratchet_rewards import Component, Lookup, Registered, Reward, check, completed, look_up, ref_of

BREVITY = Registered(RewardRef("brevity", 2), "print([1])")


async def find(ref: RewardRef) -> Registered:
    if ref.name != "brevity" or ref.number not in (None, 2):
        raise NotFound(f"there is no {ref}")
    return BREVITY


async def no_plugin(name: str) -> str:
    raise NotFound(f"there is no plug-in {name}")


def named(reward: Reward, lookup: Lookup) -> dict[str, str]:
    faults = Faults()
    check(completed(reward, lookup), faults, lookup)
    return {fault.field: fault.description for fault in faults.violations}


@pytest.mark.parametrize(
    ("component", "ref"),
    [
        (Component("brevity"), RewardRef("brevity")),
        (Component("brevity@2"), RewardRef("brevity", 2)),
        (Component("brevity", version=2, program="print([1])"), RewardRef("brevity", 2)),
        (Component("style"), None),
        (Component("brevity", program="print([1])"), None),
        (Component("No name"), None),
        (Component("brevity@2", version=2), None),
        (Component("brevity", version=-1), None),
    ],
)
def test_what_a_component_names(component: Component, ref: RewardRef | None) -> None:
    assert ref_of(component) == ref


@pytest.mark.parametrize("name", ["brevity", "brevity@2"])
async def test_a_name_becomes_a_number_and_a_program_and_stays(name: str) -> None:
    for reward in (Reward(name), Reward(components=(Component(name),))):
        lookup = await look_up(reward, find, no_plugin)
        whole = completed(reward, lookup)
        [one] = whole.components
        assert (one.name, one.version, one.program) == ("brevity", 2, "print([1])")
        assert one.digest.startswith("sha256:")
        assert named(reward, lookup) == {}
        assert completed(whole, await look_up(whole, find, no_plugin)) == completed(whole) == whole


async def test_what_is_missing_is_named_with_what_there_is() -> None:
    reward = Reward(components=(Component("stile"), Component("brevity@3"), Component("brevity", version=4)))
    found = named(reward, await look_up(reward, find, no_plugin))
    assert "did you mean style?" in found["components[0].name"]
    assert found["components[0].name"].endswith("or in the registry: there is no stile")
    assert found["components[1].name"] == "is not available: there is no brevity@3"
    assert found["components[2].version"] == "there is no brevity@4"
    alone = Reward("loudest")
    assert named(alone, await look_up(alone, find, no_plugin))["name"].endswith("of the registry: there is no loudest")


async def test_a_number_that_nobody_looked_up_is_not_believed() -> None:
    reward = Reward(components=(Component("brevity", version=2, program="print([1])"),))
    assert set(named(reward, Lookup())) == {"components[0].version"}
    changed = Reward(components=(Component("brevity", version=2, program="print([9])"),))
    said = named(changed, await look_up(changed, find, no_plugin))
    assert said == {"components[0].program": "must be absent, or the source of brevity@2"}


async def test_a_name_is_looked_up_once_and_ratchets_own_never() -> None:
    names: list[str] = []

    async def note(ref: RewardRef) -> Registered:
        names.append(str(ref))
        return await find(ref)

    components = tuple(map(Component, ("brevity", "style", "brevity", "brevity@2", "loud", "loud")))
    await look_up(Reward(components=components), note, no_plugin)
    for reward in (Reward(), Reward("balanced"), Reward("style")):
        await look_up(reward, note, no_plugin)
    assert names == ["brevity", "loud"]


async def test_a_registry_that_is_away_is_no_missing_reward() -> None:
    async def away(ref: RewardRef) -> Registered:
        raise Unavailable("the registry is away")

    with pytest.raises(Unavailable):
        await look_up(Reward("brevity"), away, no_plugin)


async def test_a_plugin_has_a_digest_or_a_reason() -> None:
    async def digest(name: str) -> str:
        return f"sha256:{name}"

    for reward in (Reward("plugin:short"), Reward(components=(Component("plugin:short", 0.5),))):
        (component,) = completed(reward, await look_up(reward, find, digest)).components
        assert (component.plugin, component.digest) == ("short", "sha256:short")
        assert not named(reward, await look_up(reward, find, digest))
        (said,) = named(reward, await look_up(reward, find, no_plugin)).values()
        assert said == "is not available: there is no plug-in short"
