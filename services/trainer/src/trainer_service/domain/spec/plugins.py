"""Plug-ins of a run: code of others that its job imports, installed beside the trainer and allowed by the operator."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from ratchet_kit.faults import Faults


class PluginKind(StrEnum):
    SAMPLER = "sampler"
    """Which problems a step draws."""
    LOSS = "loss"
    """The loss of the policy."""
    ADVANTAGE = "advantage"
    """How advantages are made of rewards."""
    ALGORITHM = "algorithm"
    """What stands for an algorithm's name: a base, and what is other than it (`recipes`)."""
    DATASET = "dataset"
    """Problems. A spec names it as a set, "plugin:NAME"; not among its plug-ins."""
    REWARD = "reward"
    """A component of the reward. A spec names it there, "plugin:NAME"; not among its plug-ins."""
    ENVIRONMENT = "environment"
    """What the policy is told after an answer. A spec names it as its environment, "plugin:NAME"; not among its
    plug-ins."""


IN_A_SPEC = (PluginKind.SAMPLER, PluginKind.LOSS, PluginKind.ADVANTAGE, PluginKind.ALGORITHM)
"""Those that stand among the plug-ins of a spec."""
PREFIX = "plugin:"
"""Of a plug-in's name where other names could stand."""


@dataclass(frozen=True, slots=True)
class Plugin:
    """As a spec names it, by kind and name; the rest is found at Create, and holds for every attempt."""

    kind: str
    name: str
    package: str = ""
    version: str = ""
    digest: str = ""
    """Of the code, "sha256:<hex>"."""


@dataclass(frozen=True, slots=True)
class Installed:
    plugin: Plugin
    allowed: bool
    fault: str = ""
    """Why no run can have it: its source shows it."""


def pinned(wanted: Sequence[Plugin], there: Sequence[Installed]) -> tuple[Plugin, ...]:
    """What there is no such plug-in for stays as it is."""
    known = {(one.plugin.kind, one.plugin.name): one.plugin for one in there}
    return tuple(known.get((one.kind, one.name), one) for one in wanted)


def check(wanted: Sequence[Plugin], there: Sequence[Installed], faults: Faults) -> None:
    """Adds a fault for each that is of no kind, is not there, is not allowed, or is the second of its kind."""
    for index, one in enumerate(wanted):
        field = faults.under(f"plugins[{index}]")
        if not field.one_of("kind", one.kind.upper(), [kind.upper() for kind in IN_A_SPEC]):
            continue
        field.unless(one.kind not in [other.kind for other in wanted[:index]], "kind", "must not be named twice")
        if reason := missing(one.kind, one.name, there):
            field.add("name", f"is not available: {reason}")


def missing(kind: str, name: str, there: Sequence[Installed]) -> str:
    """Why a run can't have it; empty where it can."""
    found = [each for each in there if (each.plugin.kind, each.plugin.name) == (kind, name)]
    if not found:
        return f"no {kind} {name[:80]!r} is installed; {_there(kind, there)}"
    allowed = [one for one in found if one.allowed]
    if not allowed:
        packages = sorted({one.plugin.package for one in there if one.allowed} | {found[0].plugin.package})
        how = f"the trainer started with RATCHET_TRAINER_PLUGINS={','.join(packages)} allows it"
        return f"the operator has not allowed it: {how}; {_there(kind, there)}"
    return allowed[0].fault


def _there(kind: str, there: Sequence[Installed]) -> str:
    names = [one.plugin.name for one in there if one.plugin.kind == kind and one.allowed]
    return f"there are: {', '.join(names)}" if names else "there is none (docs/plugins.md)"


def named(plugins: Sequence[Plugin], kind: PluginKind) -> Plugin | None:
    return next((one for one in plugins if one.kind == kind), None)


def dataset_of(problems: str) -> str:
    """The dataset that a set of problems, "plugin:NAME" or "plugin:NAME/SPLIT", is of; empty for any other set."""
    return problems.removeprefix(PREFIX).partition("/")[0] if problems.startswith(PREFIX) else ""
