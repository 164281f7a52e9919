"""The gateway's own API for a client in another thread: as a key may use it, and only while somebody waits."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

import pytest

from gateway_service.adapters.in_process import URL, Closed, InProcess
from gateway_service.domain.keys.caller import ANYBODY
from gateway_service.domain.keys.key import ApiKey, Scope
from ratchet_client import ApiError, Client
from ratchet_client.address import Address
from ratchet_client.transport import SyncTransport
from ratchet_kit.errors import Unauthenticated

from ..world import World

T = TypeVar("T")


async def asked(world: World, key_id: str, ask: Callable[[Client], T]) -> T:
    async def key() -> ApiKey:
        return await world.gateway.authenticator.of_id(key_id)

    transport = InProcess(world.gateway.http, key, "flow_1")
    with Client.over(SyncTransport(Address(URL), 10, transport)) as client:
        return await asyncio.to_thread(ask, client)


async def test_it_acts_for_a_key_with_its_scopes_and_the_audit_log_has_both(world: World) -> None:
    admin = (await world.gateway.keys.create("", "boss", [Scope.ADMIN])).key
    reader = (await world.gateway.keys.create("", "reader", [Scope.READ])).key
    made = await asked(world, admin.id, lambda client: client.webhooks.create("https://hooks.example.com/ratchet/x"))
    with pytest.raises(ApiError, match="needs an API key of scope admin"):
        await asked(world, reader.id, lambda client: client.webhooks.delete(made.webhook.id))
    (entry,) = await world.audit.page(admin.id, None, 5, None)
    assert (entry.method, entry.request_id) == ("WebhookService.CreateWebhook", "flow_1")


async def test_a_revoked_key_does_nothing_more(world: World) -> None:
    key = (await world.gateway.keys.create("", "gone", [Scope.ADMIN])).key
    await world.gateway.keys.revoke(key.id)
    for key_id in (key.id, "key_unknown"):
        with pytest.raises(Unauthenticated, match="not known or was revoked"):
            await asked(world, key_id, lambda client: list(client.webhooks.list()))


async def test_a_watch_comes_as_it_goes_and_ends_when_nobody_waits(world: World) -> None:
    release = await world.release()

    async def key() -> ApiKey:
        return ANYBODY

    transport = InProcess(world.gateway.http, key, "flow_1")
    client = Client.over(SyncTransport(Address(URL), 10, transport))
    watching = client.releases.watch(release.id)
    assert (await asyncio.to_thread(next, watching)).id == release.id
    transport.close()
    with pytest.raises(Closed):
        await asyncio.to_thread(client.releases.get, release.id)
