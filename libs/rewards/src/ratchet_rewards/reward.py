"""The reward of a run: components with weights, and how they become one number. Plain values; see docs/rewards.md."""

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from ratchet_kit.names import AnyModel


def digest(program: str) -> str:
    """ "sha256:<hex>" of the source of a reward of one's own."""
    return f"sha256:{hashlib.sha256(program.encode('utf-8', 'replace')).hexdigest()}"


PLUGIN = "plugin:"
"""Begins the name of a component that is a plug-in."""


class Combination(StrEnum):
    WEIGHTED_SUM = "weighted_sum"
    GDPO = "gdpo"
    LEXICOGRAPHIC = "lexicographic"


@dataclass(frozen=True, slots=True)
class Point:
    """A weight from a step on."""

    step: int
    weight: float


@dataclass(frozen=True, slots=True)
class Component:
    """One thing that is rewarded."""

    name: str
    """Its name in the catalogue; with a program, the program's own."""
    weight: float | None = None
    """None: 1. Below 0 for what is not wanted."""
    parameters: Mapping[str, float] = field(default_factory=dict)
    veto_below: float | None = None
    """A completion whose value is below it earns the least there is, whatever its other values."""
    passing_only: bool = False
    """It is at its worst for a completion that does not pass all tests."""
    schedule: tuple[Point, ...] = ()
    """The weight over the steps of a run, in place of `weight`: on a line from point to point."""
    program: str = ""
    """Source of a reward of one's own."""
    digest: str = ""
    """Digest of the program or the plug-in, "sha256:<hex>"."""
    version: int = 0
    """Number of a reward of the registry, whose source is the program; 0 for any other."""
    model: AnyModel | None = None
    """The reward model that scores, for `preference`."""
    tags: tuple[str, ...] = ()
    """It counts for problems with one of these tags; empty: for all."""

    @property
    def plugin(self) -> str:
        """The name of the plug-in that it is; empty for any other."""
        return self.name.removeprefix(PLUGIN) if self.name.startswith(PLUGIN) and not self.program else ""

    @property
    def is_own(self) -> bool:
        """A user's, not one of the catalogue."""
        return bool(self.program or self.plugin)

    def counts_for(self, tags: Collection[str]) -> bool:
        """`tags`: of a problem."""
        return not self.tags or not set(self.tags).isdisjoint(tags)

    def weight_at(self, step: int) -> float:
        """Before the first point that of the first, after the last one that of the last."""
        if not self.schedule:
            return 1.0 if self.weight is None else self.weight
        before = self.schedule[0]
        for point in self.schedule:
            if point.step > step:
                if point is before:
                    break
                way = (step - before.step) / (point.step - before.step)
                return before.weight + way * (point.weight - before.weight)
            before = point
        return before.weight

    def pinned(self) -> "Component":
        """With the digest of its program; that of a plug-in is found elsewhere."""
        found = self.digest if self.plugin else ""
        return replace(self, digest=digest(self.program) if self.program else found)


@dataclass(frozen=True, slots=True)
class Reward:
    name: str = ""
    """A component or a preset, in place of `components`; empty once the reward is complete."""
    components: tuple[Component, ...] = ()
    """For LEXICOGRAPHIC the most important first."""
    combination: str = ""
    """The name that was asked for, known or not. Empty: a weighted sum."""

    def __bool__(self) -> bool:
        """True where anything is set."""
        return self != Reward()

    def of(self, tags: Collection[str]) -> "Reward":
        """The reward of a problem with these tags: without the components that do not count for it."""
        counting = tuple(component for component in self.components if component.counts_for(tags))
        return self if counting == self.components else replace(self, components=counting)

    @property
    def model(self) -> AnyModel | None:
        """The reward model that scores a component; None where none does."""
        return next((component.model for component in self.components if component.model), None)
