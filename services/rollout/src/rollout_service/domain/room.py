"""How many policies a node may hold, and for what."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ratchet_kit.errors import ResourceExhausted
from ratchet_policies import Purpose
from rollout_service.domain.devices import ROOM_RETRY


@dataclass(frozen=True, slots=True)
class Room:
    """`capacity` policies at a time. Some places are kept for one purpose each; the others are for whoever comes first.

    A place is a share of the node's memory: see `Devices`.
    """

    capacity: int
    kept: Mapping[Purpose, int] = field(default_factory=dict)
    """Of `capacity`: places that nobody else may take, also while they are empty."""

    @classmethod
    def of(cls, capacity: int, kept: Mapping[Purpose, int] | None = None) -> "Room":
        """Without `kept`: one place for each purpose, where `capacity` leaves another for whoever needs it."""
        if kept is None:
            kept = dict.fromkeys(Purpose, 1) if capacity > len(Purpose) else {}
        return cls(capacity, kept)

    def free(self, held: Iterable[Purpose], purpose: Purpose) -> int:
        """Policies for `purpose` that fit beside those that are held."""
        taken = Counter(held)
        for_others = sum(max(0, kept - taken[other]) for other, kept in self.kept.items() if other is not purpose)
        return max(0, self.capacity - taken.total() - for_others)

    def require(self, held: Iterable[Purpose], purpose: Purpose) -> None:
        """Raises ResourceExhausted where not one more fits."""
        taken = list(held)
        if self.free(taken, purpose):
            return
        limit = "which is the capacity of this service"
        if len(taken) < self.capacity:
            limit = f"and the rest of the capacity of {self.capacity} is kept for purposes other than {purpose}"
        raise ResourceExhausted(f"{len(taken)} policies are loaded, {limit}; unload one first", retry_after=ROOM_RETRY)
