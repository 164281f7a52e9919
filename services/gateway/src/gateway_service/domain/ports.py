"""The port that every room of the domain uses: the model registry."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from ratchet_kit.names import VersionRef


@dataclass(frozen=True, slots=True)
class RegisteredModel:
    name: str
    create_time: datetime
    champion: int | None
    """The number of the champion version; None without one."""


@dataclass(frozen=True, slots=True)
class RegisteredVersion:
    ref: VersionRef
    source: str
    """Folder or URL of its weights."""
    policy_id: str
    """Content hash of the weights."""
    create_time: datetime


@dataclass(frozen=True, slots=True)
class GateResult:
    """The registry's comparison of a candidate with the champion of that time. Both are version numbers."""

    id: str
    model: str
    candidate: int
    champion: int
    passed: bool
    reason: str


class ModelRegistry(Protocol):
    """Models, versions and their aliases. Every method raises Unavailable when the registry cannot be reached."""

    async def models(self) -> Sequence[RegisteredModel]: ...

    async def model(self, name: str) -> RegisteredModel:
        """Raises NotFound."""
        ...

    async def version(self, ref: VersionRef) -> RegisteredVersion:
        """Raises NotFound."""
        ...

    async def resolve(self, model: str, alias: str) -> RegisteredVersion:
        """The version that an alias points at. Raises NotFound."""
        ...

    async def gate(self, gate_id: str) -> GateResult:
        """Raises NotFound."""
        ...

    async def promote(self, ref: VersionRef, gate_id: str, reason: str) -> None:
        """Makes a version the champion. Raises FailedPrecondition when the gate does not allow it."""
        ...
