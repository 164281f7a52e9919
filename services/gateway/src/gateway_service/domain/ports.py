"""The port that every room of the domain uses: the model registry."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from ratchet_kit.names import VersionRef


@dataclass(frozen=True, slots=True)
class RegisteredModel:
    name: str
    create_time: datetime
    champion: VersionRef | None
    aliases: Mapping[str, int] = field(default_factory=dict)
    """Alias -> version number."""
    champion_before: VersionRef | None = None
    """It answers while the champion cannot: see `domain.champions`."""


@dataclass(frozen=True, slots=True)
class RegisteredVersion:
    ref: VersionRef
    source_uri: str
    """Folder or URL of its weights."""
    policy_id: str
    """Content hash of the weights."""
    create_time: datetime


@dataclass(frozen=True, slots=True)
class GateResult:
    """The registry's comparison of a candidate with the champion of that time."""

    id: str
    candidate: VersionRef
    champion: VersionRef
    passed: bool
    reason: str
    """Why it passed, was refused or failed, or that it is not decided yet."""


class ModelRegistry(Protocol):
    """Models, versions and their aliases. Every method raises Unavailable when the registry cannot be reached."""

    async def models(self) -> Sequence[RegisteredModel]: ...

    async def model(self, name: str) -> RegisteredModel:
        """Raises NotFound."""
        ...

    async def version(self, ref: VersionRef) -> RegisteredVersion:
        """Raises NotFound, FailedPrecondition while its artifact is being copied or when that failed."""
        ...

    async def gate(self, gate_id: str) -> GateResult:
        """Raises NotFound."""
        ...

    async def promote(self, ref: VersionRef, replaced: VersionRef, gate_id: str, reason: str) -> None:
        """Makes a version the champion in place of `replaced`.

        Raises FailedPrecondition when the gate does not allow it, Aborted when the champion is another by now.
        """
        ...

    async def take_back(self, ref: VersionRef, returning: VersionRef, reason: str) -> None:
        """Makes `returning`, an earlier champion, the champion again in place of `ref`, which proved worse: it comes
        again only by a new gate. Raises as `promote`."""
        ...
