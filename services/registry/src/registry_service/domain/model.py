"""Models, and the history of their aliases."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from ratchet_kit.errors import FailedPrecondition
from ratchet_kit.names import CHAMPION


@dataclass(frozen=True, slots=True)
class Model:
    """A name under which versions are numbered."""

    name: str
    description: str
    create_time: datetime
    aliases: Mapping[str, int] = field(default_factory=dict)
    """Alias -> version number, as it is now."""
    latest_version: int = 0
    """The highest number given so far; 0 while the model has had no version."""
    failed_versions: int = 0
    """Number of its versions that failed."""

    @property
    def champion(self) -> int | None:
        """The number of the version in production."""
        return self.aliases.get(CHAMPION)

    def check_deletable(self) -> None:
        """Raises FailedPrecondition when it has or had a version: who remembers "name@1" would meet another one."""
        if self.latest_version:
            raise FailedPrecondition(
                f"model {self.name} has or had versions, and stays: under its name their numbers would be given again"
            )


@dataclass(frozen=True, slots=True)
class AliasChange:
    """One line of an alias's history. Lines are only ever added."""

    model: str
    alias: str
    from_number: int
    """0: the alias did not exist."""
    to_number: int
    reason: str
    gate_id: str
    """Empty when the change needed no gate."""
    create_time: datetime
    actor: str = ""
    """The id of the API key that asked for it; empty when none is known."""
    takes_back: bool = False
    """Of the champion: the version before proved worse in production, and needs a new gate to come again."""


@dataclass(frozen=True, slots=True)
class RecordedChange:
    """A change with its place in the history: later changes have higher positions."""

    position: int
    change: AliasChange
