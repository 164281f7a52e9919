"""What a node offers: its isolation, its lanes, its runtimes. Plain data."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sandbox_service.domain.levels import Level


@dataclass(frozen=True, slots=True)
class Runtime:
    """A Python environment, or what runs another language. `modules`: what programs can import from `packages`."""

    name: str
    language: str
    version: str
    packages: Mapping[str, str] = field(default_factory=dict)
    modules: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What an executor offers. `layers` are the isolation mechanisms that are really in force.

    `missing_languages`: languages that would run if one installed what's named. `processes`: programs may start some.
    `missing`: why the level isn't higher, a sentence for each level, with the remedy.
    """

    layers: Sequence[str]
    python_version: str
    lanes: int
    runtimes: Sequence[Runtime] = (Runtime("python", "python", ""),)
    missing_languages: Mapping[str, str] = field(default_factory=dict)
    processes: bool = False
    level: Level = Level.NONE
    missing: Sequence[str] = ()
