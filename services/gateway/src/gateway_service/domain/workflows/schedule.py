"""When workflows are created by themselves."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from croniter import CroniterError, croniter

from gateway_service.domain.workflows.workflow import Plan
from ratchet_kit.errors import InvalidArgument, invalid
from ratchet_kit.faults import Faults
from ratchet_workflows.kinds import Kind

LOOK = timedelta(minutes=1)
"""Between two looks at the feedback, and the shortest period."""
MAX_CRON = 100
"""Characters."""
EPOCH = datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True, slots=True)
class Trigger:
    """One of these."""

    cron: str = ""
    """Five fields, in UTC."""
    every: timedelta | None = None
    """Counted from 1970."""
    when_feedback: int = 0
    """Answers with a score since the last workflow was created."""

    def check(self, kind: Kind) -> None:
        """Raises InvalidArgument that names every field at fault."""
        faults = Faults()
        given = [bool(self.cron), self.every is not None, self.when_feedback != 0]
        faults.unless(sum(given) == 1, "cron", "or every or when_feedback is needed: one of them")
        if self.cron:
            faults.read("cron", _checked, self.cron)
        faults.unless(self.every is None or self.every >= LOOK, "every", "must be a minute or more")
        faults.unless(self.when_feedback >= 0, "when_feedback", "must be 1 or more")
        faults.unless(not self.when_feedback or kind is Kind.TURN, "when_feedback", "is for turns")
        faults.raise_if_any()

    def due(self, now: datetime) -> datetime:
        """The latest due time until now."""
        if self.cron:
            latest: datetime = croniter(self.cron, now + timedelta(seconds=1)).get_prev(datetime)
            return latest
        return EPOCH + (now - EPOCH) // self.every * self.every if self.every else now

    def next(self, now: datetime) -> datetime:
        """The first due time after now."""
        if self.cron:
            first: datetime = croniter(self.cron, now).get_next(datetime)
            return first
        return self.due(now) + (self.every or LOOK)


@dataclass(frozen=True, slots=True)
class Schedule:
    id: str
    plan: Plan
    trigger: Trigger
    actor: str
    """The id of the key that created it, for which its workflows act."""
    model: str
    create_time: datetime
    next_time: datetime
    workflow_id: str = ""
    """The last one that it created."""
    fault: str = ""
    """Why the last due time created nothing."""


def _checked(cron: str, field: str) -> str:
    """Raises InvalidArgument."""
    try:
        if len(cron) <= MAX_CRON and len(cron.split()) == 5:
            croniter(cron, EPOCH).get_next(datetime)
            return cron
    except CroniterError as error:
        raise _no_cron(field) from error
    raise _no_cron(field)


def _no_cron(field: str) -> InvalidArgument:
    return invalid(field, "must be a cron expression of five fields, as '0 3 * * 1'")
