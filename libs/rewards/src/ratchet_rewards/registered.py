"""Rewards of one's own that stand elsewhere, in the registry or in a package that is installed: which of them a reward
names, and the component with its program or its digest."""

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
    """The registry's answers, by the names that it was asked for."""

    found: Mapping[RewardRef, Registered] = field(default_factory=dict)
    """By the name as it was asked for, and by its number."""
    missing: Mapping[RewardRef, str] = field(default_factory=dict)
    """One sentence each, with what there is."""
    plugins: Mapping[str, str] = field(default_factory=dict)
    """The digest of each plug-in that it names."""
    missing_plugins: Mapping[str, str] = field(default_factory=dict)

    def reason(self, ref: RewardRef | None) -> str:
        """Why it was not found; empty where nobody asked."""
        return self.missing.get(ref, "") if ref else ""


async def look_up(
    reward: Reward,
    find: Callable[[RewardRef], Awaitable[Registered]],
    find_plugin: Callable[[str], Awaitable[str]],
) -> Lookup:
    """Asks for each that the reward names; `find_plugin` gives a digest. Both raise NotFound, with what there is; all
    else is let through."""
    found, missing = dict[RewardRef, Registered](), dict[RewardRef, str]()
    plugins, missing_plugins = dict[str, str](), dict[str, str]()
    alone = () if not reward.name or reward.name in PRESETS else (Component(reward.name),)
    for component in reward.components[:MOST] or alone:
        if component.plugin:
            try:
                plugins[component.plugin] = await find_plugin(component.plugin)
            except NotFound as error:
                missing_plugins[component.plugin] = error.message
            continue
        ref = ref_of(component)
        if ref is None or ref in found or ref in missing:
            continue
        try:
            one = await find(ref)
            found |= {ref: one, one.ref: one}
        except NotFound as error:
            missing[ref] = error.message
    return Lookup(found, missing, plugins, missing_plugins)


def ref_of(component: Component) -> RewardRef | None:
    """Its reference into the registry; None for any other component, and for an invalid name."""
    if component.version:
        text = f"{component.name}@{component.version}"
    elif component.is_own or component.name in COMPONENTS:
        return None
    else:
        text = component.name
    try:
        return RewardRef.parse(text)
    except InvalidArgument:
        return None


def resolved(component: Component, lookup: Lookup) -> Component:
    """With name, number and program as the registry has them, or a plug-in's digest. What it has not stays as it is,
    and so does a program beside a number: `check` compares."""
    if component.plugin:
        return replace(component, digest=lookup.plugins.get(component.plugin, ""))
    ref = ref_of(component)
    one = lookup.found.get(ref) if ref else None
    if one is None:
        return component
    return replace(component, name=one.ref.name, version=one.ref.number or 0, program=component.program or one.program)
