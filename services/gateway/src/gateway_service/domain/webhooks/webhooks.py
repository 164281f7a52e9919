"""Makes, changes and shows webhooks."""

from collections.abc import Sequence
from dataclasses import replace

from gateway_service.domain.webhooks.addresses import Addresses
from gateway_service.domain.webhooks.event import Kind
from gateway_service.domain.webhooks.ports import WebhookStore
from gateway_service.domain.webhooks.webhook import Delivery, NewWebhook, Webhook, new_secret
from ratchet_kit.errors import ResourceExhausted
from ratchet_kit.faults import MAX_REASON, Faults
from ratchet_kit.idempotency import Request
from ratchet_kit.ids import new_id
from ratchet_kit.pages import Page, fetch_page
from ratchet_kit.times import Clock

MAX_WEBHOOKS = 100
"""Each may have one delivery in flight, so that this is how many there are at once."""


class Webhooks:
    """The use cases around webhooks."""

    def __init__(self, store: WebhookStore, addresses: Addresses, clock: Clock) -> None:
        self._store = store
        self._addresses = addresses
        self._clock = clock

    async def create(
        self, request_id: str, url: str, events: Sequence[str] = (), description: str = "", actor: str = ""
    ) -> NewWebhook:
        """Idempotent under `request_id`; a repeated request gets the webhook without its secret. `actor`: the id of the
        key that asks for it.

        Raises InvalidArgument that names every field at fault, AlreadyExists when the request id was used for another
        webhook, ResourceExhausted when there are MAX_WEBHOOKS.
        """
        kinds = self._checked(url, events, description)
        request = Request.of(request_id, url, sorted(kinds), description)
        if existing := await self._store.find(request):
            return NewWebhook(existing, "")
        if len((await self.page(MAX_WEBHOOKS, "")).items) >= MAX_WEBHOOKS:
            raise ResourceExhausted(f"there are {MAX_WEBHOOKS} webhooks: delete one that is not needed")
        webhook = Webhook(
            new_id("hook"), url, new_secret(), self._clock.now(), kinds, description=description, actor=actor
        )
        stored = await self._store.create(webhook, request)
        return NewWebhook(stored, stored.secret if stored.id == webhook.id else "")

    async def get(self, webhook_id: str) -> Webhook:
        """Raises NotFound."""
        return await self._store.get(webhook_id)

    async def page(self, page_size: int, page_token: str) -> Page[Webhook]:
        """Newest first. Raises InvalidArgument for a page token that no list returned."""
        return await fetch_page(self._store.page, lambda webhook: webhook.id, str, page_size, page_token)

    async def update(self, webhook_id: str, url: str, events: Sequence[str], description: str, paused: bool) -> Webhook:
        """Raises NotFound, and InvalidArgument that names every field at fault."""
        kinds = self._checked(url, events, description)
        return await self._store.change(
            webhook_id,
            lambda webhook: replace(webhook, url=url, kinds=kinds, description=description, paused=paused),
        )

    async def delete(self, webhook_id: str) -> None:
        """Raises NotFound."""
        await self._store.delete(webhook_id)

    async def deliveries(self, webhook_id: str, page_size: int, page_token: str) -> Page[Delivery]:
        """Newest first. Raises NotFound, and InvalidArgument for a page token that no list returned."""
        await self._store.get(webhook_id)

        async def fetch(limit: int, after: str | None) -> Sequence[Delivery]:
            return await self._store.deliveries(webhook_id, limit, after)

        return await fetch_page(fetch, lambda delivery: delivery.id, str, page_size, page_token)

    def _checked(self, url: str, events: Sequence[str], description: str) -> frozenset[Kind]:
        faults = Faults()
        faults.read("url", self._addresses.check, url)
        faults.length("events", events, len(Kind))
        for index, event in enumerate(events[: len(Kind)]):
            faults.one_of(f"events[{index}]", event, Kind)
        faults.length("description", description, MAX_REASON)
        faults.raise_if_any()
        return frozenset(map(Kind, events))
