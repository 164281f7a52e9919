"""What webhooks need from outside."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Protocol

from gateway_service.domain.webhooks.event import Event
from gateway_service.domain.webhooks.webhook import Delivery, Webhook
from ratchet_kit.idempotency import Request


class WebhookStore(Protocol):
    """Stored webhooks and their deliveries. Every method raises Unavailable when the store cannot be reached."""

    async def create(self, webhook: Webhook, request: Request) -> Webhook:
        """Stores it, and returns what was stored first under the request.

        Raises AlreadyExists when the request's id was used for another webhook.
        """
        ...

    async def find(self, request: Request) -> Webhook | None:
        """The webhook that the request made. Raises AlreadyExists as `create`."""
        ...

    async def get(self, webhook_id: str) -> Webhook:
        """Raises NotFound."""
        ...

    async def count(self) -> int: ...

    async def page(self, limit: int, after: str | None) -> Sequence[Webhook]:
        """Up to `limit` webhooks older than that of id `after`, newest first."""
        ...

    async def change(self, webhook_id: str, change: Callable[[Webhook], Webhook]) -> Webhook:
        """Stores what `change` makes of it, and returns that. Raises NotFound."""
        ...

    async def delete(self, webhook_id: str) -> None:
        """With its deliveries. Raises NotFound."""
        ...

    async def announce(self, events: Sequence[Event], now: datetime) -> None:
        """Adds a delivery of each event to each webhook that wants it. One that is there already is not added again."""
        ...

    async def with_due(self, now: datetime) -> Sequence[Webhook]:
        """Those that are not paused and have a delivery that is to be sent now."""
        ...

    async def take(self, webhook_id: str, now: datetime, until: datetime) -> Delivery | None:
        """The delivery of a webhook that has waited longest of those that are to be sent now, its attempt counted; no
        one else takes it before `until`. None when there is none."""
        ...

    async def save(self, delivery: Delivery) -> None:
        """Stores what came of an attempt; nothing where the delivery was deleted meanwhile."""
        ...

    async def deliveries(self, webhook_id: str, limit: int, after: str | None) -> Sequence[Delivery]:
        """Up to `limit` deliveries older than that of id `after`, newest first."""
        ...

    async def forget(self, before: datetime) -> int:
        """Removes the deliveries that ended before, and those that wait though their retries (LONGEST) would have ended
        before: their endpoint, dead or paused, gets more than it can be sent. Says how many there were."""
        ...


class Sender(Protocol):
    async def send(self, url: str, headers: Mapping[str, str], body: str) -> int:
        """The status that the endpoint answers with; no redirect is followed. Raises Unavailable without an answer."""
        ...


class Feed(Protocol):
    """What other services tell of. Both raise Unavailable."""

    async def read(self, block: timedelta) -> Sequence[Event]:
        """The next ones; none when there was none for `block`. Given again, here or elsewhere, unless acknowledged."""
        ...

    async def ack(self) -> None:
        """What was read last is stored."""
        ...
