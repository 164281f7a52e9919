"""Rewards of one's own that stand in the registry: which of them a reward names, and the component with its program."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace

from ratchet_kit.errors import InvalidArgument, NotFound
from ratchet_kit.names import RewardRef
from ratchet_rewards.catalogue import COMPONENTS, PRESETS
from ratchet_rewards.reward import Component, Reward

MOST = 16
"""Components of a reward."""


@dataclass(frozen=True, slots=True)
class Registered:
    """A version of a reward in the registry."""

    ref: RewardRef
    """With its number."""
    program: str


@dataclass(frozen=True, slots=True)
class Lookup:
    """What the registry said of the names that it was asked for."""

    found: Mapping[RewardRef, Registered] = field(default_factory=dict)
    """By the name as it was asked for, and by its number."""
    missing: Mapping[RewardRef, str] = field(default_factory=dict)
    """One sentence each, with what there is."""

    def reason(self, ref: RewardRef | None) -> str:
        """Why it was not found; empty where nobody asked."""
        return self.missing.get(ref, "") if ref else ""


async def look_up(reward: Reward, find: Callable[[RewardRef], Awaitable[Registered]]) -> Lookup:
    """Asks for each that the reward names. `find` raises NotFound, with what there is; all else is let through."""
    found, missing = dict[RewardRef, Registered](), dict[RewardRef, str]()
    alone = () if not reward.name or reward.name in PRESETS else (Component(reward.name),)
    for component in reward.components[:MOST] or alone:
        ref = ref_of(component)
        if ref is None or ref in found or ref in missing:
            continue
        try:
            one = await find(ref)
            found |= {ref: one, one.ref: one}
        except NotFound as error:
            missing[ref] = error.message
    return Lookup(found, missing)


def ref_of(component: Component) -> RewardRef | None:
    """What it names in the registry; None for any other, and for what is no name."""
    if component.version:
        text = f"{component.name}@{component.version}"
    elif component.program or component.name in COMPONENTS:
        return None
    else:
        text = component.name
    try:
        return RewardRef.parse(text)
    except InvalidArgument:
        return None


def resolved(component: Component, lookup: Lookup) -> Component:
    """With name, number and program as the registry has them. What it has not stays as it is, and so does a program
    beside a number: `check` compares."""
    ref = ref_of(component)
    one = lookup.found.get(ref) if ref else None
    if one is None:
        return component
    return replace(component, name=one.ref.name, version=one.ref.number or 0, program=component.program or one.program)
