"""A version of a reward of one's own: a program, under a name and a number. Nothing of it changes."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import ratchet_rewards
from ratchet_kit.errors import FailedPrecondition, NotFound
from ratchet_kit.faults import MAX_REASON, Faults
from ratchet_kit.names import RewardRef

NAMED = 20
"""Names, or numbers, that an error has at most."""


@dataclass(frozen=True, slots=True)
class RewardSpec:
    """A reward as a caller asks for it."""

    name: str
    source: str
    """Python."""
    description: str = ""

    def check(self) -> None:
        """Raises InvalidArgument."""
        faults = Faults()
        ratchet_rewards.check_own(self.name, self.source, faults)
        faults.length("description", self.description, MAX_REASON)
        faults.raise_if_any("the reward cannot be stored")

    @property
    def digest(self) -> str:
        """ "sha256:<hex>" of the source, as a run's record has it."""
        return ratchet_rewards.digest(self.source)


@dataclass(frozen=True, slots=True)
class Reward:
    name: str
    number: int
    digest: str
    size_bytes: int
    description: str
    create_time: datetime
    actor: str = ""
    """The id of the API key that made it; empty when none is known."""
    source: str = ""
    """Empty in lists."""
    runs: int = 0
    """Made with it, deleted ones too."""
    last_run_id: str = ""

    @property
    def ref(self) -> RewardRef:
        return RewardRef(self.name, self.number)

    def check_deletable(self, *, force: bool) -> None:
        """Raises FailedPrecondition when runs were made with it, unless that was said to be known."""
        if self.runs and not force:
            runs = f"{self.runs} run{'s were' if self.runs > 1 else ' was'} made with it ({self.last_run_id} the last)"
            raise FailedPrecondition(
                f"reward {self.ref} cannot be deleted: {runs}, and the registry would lose its source; "
                "set force to delete it anyway"
            )


def not_there(ref: RewardRef, numbers: Sequence[int], names: Sequence[str]) -> NotFound:
    """With what there is. `numbers`: of the name, where it has any; else `names`: of all rewards."""
    if numbers:
        return NotFound(f"reward {ref.name} has no version {ref.number}; it has {_listed(numbers)}")
    there_are = f"there {'is' if len(names) == 1 else 'are'} {_listed(names)}" if names else "there are no rewards yet"
    return NotFound(f"there is no reward {ref.name[:80]!r}; {there_are}")


def _listed(things: Sequence[object]) -> str:
    more = f" and {len(things) - NAMED} more" if len(things) > NAMED else ""
    return ", ".join(map(str, things[:NAMED])) + more
