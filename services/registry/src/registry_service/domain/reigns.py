"""Since when a version is the one to beat."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from registry_service.domain.model import AliasChange

_EVER = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Reigns:
    changes: Sequence[AliasChange]
    """Of the alias champion, the oldest first."""
    policies: Mapping[int, str]
    """Weights of each version that ever was champion."""
    conceded: Collection[str] = ()
    """The gates that let a version pass that may be worse: it is no new one to beat."""

    def began(self, number: int) -> datetime:
        """When these weights were first the champion. One that passed by a concession goes on with what came before:
        else a copy would make everything that was looked at unseen."""
        first = next(change for change in self.changes if self.policies[change.to_number] == self.policies[number])
        if first.gate_id in self.conceded:
            return self.began(first.from_number)
        return first.create_time

    def counted_since(self, champion: int, measured: datetime) -> datetime:
        """Since when evaluations count for a candidate whose weights were first measured then: since the champion is
        the one to beat, or the champion of that time was. Who was looked at among others before is no first try now."""
        now = self.began(champion)
        if measured >= now:
            return now
        then = [change.to_number for change in self.changes if change.create_time <= measured]
        return min(now, self.began(then[-1])) if then else _EVER
