"""A webhook, and what is delivered to it."""

import base64
import secrets
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum

from gateway_service.domain.webhooks.event import Event, Kind
from ratchet_kit import projects
from ratchet_kit.ids import new_id

PREFIX = "whsec_"
RETRIES = (
    timedelta(seconds=5),
    timedelta(minutes=5),
    timedelta(minutes=30),
    timedelta(hours=2),
    timedelta(hours=5),
    timedelta(hours=10),
    timedelta(hours=14),
    timedelta(hours=20),
    timedelta(hours=24),
)
"""How long after each failed attempt the next one comes: the schedule of the Standard Webhooks specification."""
MAX_STRETCH = 1.2
"""Each pause is up to so many times as long, so that what failed together does not come back together."""
LONGEST = MAX_STRETCH * sum(RETRIES, timedelta())
"""From an event to the last attempt, of an endpoint that keeps up with its events."""
GONE = 410
MAX_ERROR = 300
"""Characters."""


@dataclass(frozen=True, slots=True)
class Webhook:
    id: str
    url: str
    secret: str = field(repr=False)
    """Kept as it is: each delivery is signed with it."""
    create_time: datetime
    kinds: frozenset[Kind] = frozenset()
    """What it is told of; empty: everything."""
    description: str = ""
    paused: bool = False
    actor: str = ""
    """The id of the key that made it."""

    def wants(self, event: Event) -> bool:
        """What happens in another project, before it was made, or while it is paused, is not its matter."""
        is_its_projects = projects.project_of(event.resource) == projects.project_of(self.id)
        if not is_its_projects or self.paused or event.create_time < self.create_time:
            return False
        return not self.kinds or event.kind in self.kinds


@dataclass(frozen=True, slots=True)
class NewWebhook:
    """A webhook that was just made."""

    webhook: Webhook
    secret: str = field(repr=False)
    """Empty for a request that was sent before: it is shown once."""


class State(StrEnum):
    WAITING = "waiting"
    DELIVERED = "delivered"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Delivery:
    """An event on its way to one webhook."""

    id: str
    webhook_id: str
    event_id: str
    kind: Kind
    body: str
    create_time: datetime
    next_time: datetime
    """Of a WAITING one: when it is to be sent. While it is being sent: when another gateway may try."""
    state: State = State.WAITING
    attempts: int = 0
    status: int = 0
    """The last answer's, 0 without one."""
    error: str = ""
    end_time: datetime | None = None

    @classmethod
    def of(cls, event: Event, webhook: Webhook, now: datetime) -> "Delivery":
        with projects.of_owner(webhook.id):
            id = new_id("del")
        return cls(id, webhook.id, event.id, event.kind, event.body(), now, next_time=now)

    def succeed(self, status: int, now: datetime) -> "Delivery":
        return replace(self, state=State.DELIVERED, status=status, error="", end_time=now)

    def fail(self, status: int, error: str, now: datetime, stretch: float = 1.0) -> "Delivery":
        """Sent again later, each time by `stretch` times its pause; given up after the last, or when the endpoint is
        gone."""
        failed = replace(self, status=status, error=error[:MAX_ERROR])
        if self.attempts > len(RETRIES) or status == GONE:
            return replace(failed, state=State.FAILED, end_time=now)
        return replace(failed, next_time=now + stretch * RETRIES[self.attempts - 1])


def new_secret() -> str:
    """256 random bits, as Standard Webhooks writes them."""
    return PREFIX + base64.b64encode(secrets.token_bytes(32)).decode()
