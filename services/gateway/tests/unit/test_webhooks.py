"""Webhooks through a whole gateway in memory."""

import asyncio
import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest
from standardwebhooks import Webhook as Verifier

from gateway_service.adapters.event_feed import event_of_message
from gateway_service.domain.releases.release import State as ReleaseState
from gateway_service.domain.webhooks import webhooks as use_cases
from gateway_service.domain.webhooks.event import Event, Kind
from gateway_service.domain.webhooks.webhook import RETRIES, Delivery, NewWebhook, State
from gateway_service.domain.webhooks.webhooks import Webhooks
from ratchet.event.v1 import event_pb2
from ratchet_kit.errors import AlreadyExists, InvalidArgument, NotFound, ResourceExhausted
from ratchet_kit.times import timestamp_to_proto

from ..world import World

URL = "https://hooks.example.com/ratchet/ci"
OTHER = "https://hooks.example.com/ratchet/other"


def webhooks(world: World) -> Webhooks:
    return world.gateway.webhooks


async def made(world: World, url: str = URL, *events: str) -> NewWebhook:
    return await webhooks(world).create("", url, events)


async def deliveries(world: World, webhook: NewWebhook) -> Sequence[Delivery]:
    return (await webhooks(world).deliveries(webhook.webhook.id, 0, "")).items


def ended(world: World, number: int = 1, kind: Kind = Kind.RUN_SUCCEEDED) -> Event:
    return Event(f"event_{number}", kind, world.clock.now(), f"runs/run_{number}", {"step": "8", "failure": ""})


async def told(world: World, *events: Event) -> None:
    world.feed.batches.append(events)
    await world.gateway.deliverer.receive()


async def turn(world: World) -> None:
    await world.gateway.deliverer.tick()
    await world.gateway.deliverer.idle()


async def test_an_endpoint_gets_a_signed_event(world: World) -> None:
    new = await made(world)
    await told(world, ended(world))
    await turn(world)
    ((url, headers, body),) = world.endpoints.sent
    assert url == URL
    assert headers["webhook-id"] == "event_1"
    assert headers["webhook-timestamp"] == str(int(world.clock.now().timestamp()))
    # What anyone who has the secret computes: of the id, the time and the body as they came.
    signature = Verifier(new.secret).sign("event_1", world.clock.now(), body)
    assert headers["webhook-signature"] == signature
    assert Verifier("whsec_" + "QUFB" * 8).sign("event_1", world.clock.now(), body) != signature
    assert json.loads(body)["type"] == "run.succeeded"
    assert json.loads(body)["data"] == {"resource": "runs/run_1", "step": "8"}
    (delivery,) = await deliveries(world, new)
    assert (delivery.state, delivery.attempts, delivery.status) == (State.DELIVERED, 1, 204)
    await turn(world)
    assert len(world.endpoints.sent) == 1


async def test_a_published_library_verifies_what_is_sent(world: World) -> None:
    world.clock.advance(datetime.now(UTC) - world.clock.now())  # the library looks at the machine's clock
    new = await made(world)
    await told(world, ended(world))
    await turn(world)
    ((_, headers, body),) = world.endpoints.sent
    assert Verifier(new.secret).verify(body, dict(headers))["type"] == "run.succeeded"


async def test_a_failed_delivery_is_sent_again_later_with_the_same_id(world: World) -> None:
    new = await made(world)
    await told(world, ended(world))
    world.endpoints.statuses[URL] = 503
    await turn(world)
    (delivery,) = await deliveries(world, new)
    assert (delivery.state, delivery.attempts, delivery.status) == (State.WAITING, 1, 503)
    assert delivery.error == "the endpoint answered 503"
    assert RETRIES[0] <= delivery.next_time - world.clock.now() <= 1.2 * RETRIES[0]
    await turn(world)
    assert len(world.endpoints.sent) == 1
    world.endpoints.statuses[URL] = 200
    world.clock.advance(1.2 * RETRIES[0])
    await turn(world)
    assert [headers["webhook-id"] for _, headers, _ in world.endpoints.sent] == ["event_1", "event_1"]
    (delivery,) = await deliveries(world, new)
    assert (delivery.state, delivery.attempts, delivery.error) == (State.DELIVERED, 2, "")


async def test_it_is_given_up_after_the_last_pause(world: World) -> None:
    new = await made(world)
    await told(world, ended(world))
    world.endpoints.statuses[URL] = 0
    for _ in range(len(RETRIES) + 3):
        await turn(world)
        world.clock.advance(timedelta(days=2))
    (delivery,) = await deliveries(world, new)
    assert (delivery.state, delivery.attempts, delivery.status) == (State.FAILED, len(RETRIES) + 1, 0)
    assert "could not be reached" in delivery.error
    assert len(world.endpoints.sent) == len(RETRIES) + 1


async def test_a_redirect_is_no_delivery(world: World) -> None:
    new = await made(world)
    await told(world, ended(world))
    world.endpoints.statuses[URL] = 302
    await turn(world)
    (delivery,) = await deliveries(world, new)
    assert (delivery.state, delivery.error) == (State.WAITING, "the endpoint answered 302")


async def test_an_endpoint_that_hangs_holds_up_no_other(world: World) -> None:
    world.endpoints.hangs[URL] = asyncio.Event()
    hanging, other = await made(world), await made(world, OTHER)
    await told(world, ended(world, 1))
    await world.gateway.deliverer.tick()
    await told(world, ended(world, 2))
    for _ in range(50):
        await world.gateway.deliverer.tick()
        await asyncio.sleep(0)
    assert [one.state for one in await deliveries(world, other)] == [State.DELIVERED, State.DELIVERED]
    assert [one.attempts for one in await deliveries(world, hanging)] == [0, 1]
    world.endpoints.hangs[URL].set()
    await turn(world)
    assert [one.state for one in await deliveries(world, hanging)] == [State.DELIVERED, State.DELIVERED]


async def test_what_a_gateway_took_and_said_no_more_of_is_sent_again(world: World) -> None:
    world.endpoints.hangs[URL] = asyncio.Event()
    new = await made(world)
    await told(world, ended(world))
    stop = asyncio.Event()
    running = asyncio.create_task(world.gateway.deliverer.run(stop))
    while not world.endpoints.sent:
        await asyncio.sleep(0)
    running.cancel()  # as at its end
    await asyncio.gather(running, return_exceptions=True)
    world.endpoints.hangs.clear()
    async with world.another() as gateway:
        await gateway.deliverer.tick()
        await gateway.deliverer.idle()
        assert len(world.endpoints.sent) == 1
        world.clock.advance(timedelta(minutes=2))
        await gateway.deliverer.tick()
        await gateway.deliverer.idle()
    (delivery,) = await deliveries(world, new)
    assert (delivery.state, delivery.attempts) == (State.DELIVERED, 2)


async def test_an_endpoint_that_is_gone_is_paused(world: World) -> None:
    new = await made(world)
    await told(world, ended(world))
    world.endpoints.statuses[URL] = 410
    await turn(world)
    (delivery,) = await deliveries(world, new)
    assert delivery.state is State.FAILED
    assert (await webhooks(world).get(new.webhook.id)).paused
    await told(world, ended(world, 2))
    assert len(await deliveries(world, new)) == 1


async def test_a_webhook_is_told_of_what_it_asked_for_from_then_on(world: World) -> None:
    before = ended(world)
    world.clock.advance(timedelta(seconds=1))
    new = await made(world, URL, "run.failed")
    assert not (await told(world, before, ended(world, 2), ended(world, 3, Kind.RUN_FAILED)))
    assert [one.event_id for one in await deliveries(world, new)] == ["event_3"]
    await told(world, ended(world, 3, Kind.RUN_FAILED))
    assert len(await deliveries(world, new)) == 1


async def test_a_paused_webhook_keeps_what_waits(world: World) -> None:
    new = await made(world)
    await told(world, ended(world))
    await webhooks(world).update(new.webhook.id, URL, [], "", paused=True)
    await turn(world)
    await told(world, ended(world, 2))
    assert world.endpoints.sent == []
    await webhooks(world).update(new.webhook.id, OTHER, [], "", paused=False)
    await turn(world)
    assert [url for url, _, _ in world.endpoints.sent] == [OTHER]


async def test_without_a_webhook_nobody_asks_the_feed(world: World) -> None:
    await world.gateway.deliverer.receive()
    assert world.feed.looks == 0


async def test_a_release_that_ends_is_told_of_once(world: World) -> None:
    new = await made(world)
    release = await world.until_progressing(await world.release())
    await world.gateway.releases.roll_back(release.id, "worse")
    for _ in range(3):
        await world.tick()  # it is retired, and stored again
    assert (await world.releases.get(release.id)).state is ReleaseState.ROLLED_BACK
    (delivery,) = await deliveries(world, new)
    assert delivery.kind is Kind.RELEASE_ROLLED_BACK
    data = json.loads(delivery.body)["data"]
    assert data["resource"] == f"releases/{release.id}"
    assert (data["candidate"], data["reason"]) == ("starter@2", "worse")


async def test_a_promoted_release_is_told_of_when_its_candidate_is_the_champion(world: World) -> None:
    new = await made(world)
    release = await world.until_progressing(await world.release(watch=timedelta(hours=1)))
    await world.gateway.releases.promote(release.id, "", "")
    for _ in range(3):
        await world.tick()
    assert (await world.releases.get(release.id)).state is ReleaseState.WATCHING
    await world.gateway.releases.promote(release.id, "enough")
    assert (await world.releases.get(release.id)).state is ReleaseState.SUCCEEDED
    assert [one.kind for one in await deliveries(world, new)] == [Kind.RELEASE_PROMOTED]


@pytest.mark.parametrize(
    "url",
    [
        "https://elsewhere.example.com/ratchet",
        "https://hooks.example.com/ratchets",
        "https://hooks.example.com.evil.example/ratchet",
        "https://hooks.example.com@evil.example/ratchet",
        "https://hooks.example.com:8443/ratchet",
        "http://hooks.example.com/ratchet",
        "https://hooks.example.com/ratchet/../admin",
        "https://hooks.example.com/ratchet/%2e%2e/admin",
        "https://hooks.example.com/ratchet%2f..%2fadmin",
        "https://hooks.example.com/ratchet/..;x/admin",
        "https://hooks.example.com/ratchet/%25252e%25252e/admin",
        "https://hooks.example.com\\@evil.example/ratchet",
        "https://hooks.example.com/ratchet#a",
        "https://hooks.example.com/ratchet\r\nHost: evil",
        "http://127.0.0.1:6379",
        "http://169.254.169.254/latest/meta-data",
        "file:///etc/passwd",
        "hooks.example.com/ratchet",
        "",
    ],
)
async def test_an_address_is_below_what_the_operator_named(world: World, url: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        await made(world, url)
    assert [violation.field for violation in caught.value.violations] == ["url"]


@pytest.mark.parametrize("url", [URL, "HTTPS://Hooks.Example.com:443/ratchet?token=a/../b", "http://127.0.0.1:9000/a"])
async def test_the_same_host_and_port_and_folder_are_below_it(world: World, url: str) -> None:
    assert (await made(world, url)).webhook.url == url


async def test_what_the_operator_no_longer_allows_is_not_called(world: World) -> None:
    new = await made(world)
    await told(world, ended(world))
    world.settings = world.settings.model_copy(update={"webhook_urls": ""})
    await world.start()
    await turn(world)
    (delivery,) = await deliveries(world, new)
    assert world.endpoints.sent == []
    assert "RATCHET_GATEWAY_WEBHOOK_URLS" in delivery.error


async def test_names_every_field_at_fault(world: World) -> None:
    with pytest.raises(InvalidArgument) as caught:
        await made(world, "ftp://x", "run.succeeded", "run.exploded")
    assert [violation.field for violation in caught.value.violations] == ["url", "events[1]"]


async def test_the_secret_is_shown_once(world: World) -> None:
    new = await webhooks(world).create("req_1", URL)
    assert new.secret.startswith("whsec_")
    again = await webhooks(world).create("req_1", URL)
    assert (again.webhook.id, again.secret) == (new.webhook.id, "")
    with pytest.raises(AlreadyExists):
        await webhooks(world).create("req_1", OTHER)


async def test_there_is_a_limit(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(use_cases, "MAX_WEBHOOKS", 1)
    await webhooks(world).create("req_1", URL)
    with pytest.raises(ResourceExhausted):
        await made(world)
    assert (await webhooks(world).create("req_1", URL)).secret == ""


async def test_through_rest(world: World) -> None:
    async with world.http() as http:
        created = await http.post("/api/v1/webhooks", json={"url": URL, "events": ["run.succeeded"]})
        assert created.status_code == 200
        secret, id = created.json()["secret"], created.json()["webhook"]["id"]
        await told(world, ended(world))
        await turn(world)
        (listed,) = (await http.get("/api/v1/webhooks")).json()["webhooks"]
        assert listed["events"] == ["run.succeeded"]
        assert secret not in (await http.get(f"/api/v1/webhooks/{id}")).text
        (delivery,) = (await http.get(f"/api/v1/webhooks/{id}/deliveries")).json()["deliveries"]
        assert (delivery["state"], delivery["event_id"]) == ("STATE_DELIVERED", "event_1")
        updated = await http.put(f"/api/v1/webhooks/{id}", json={"url": OTHER, "paused": True})
        assert (updated.json()["webhook"]["url"], updated.json()["webhook"]["paused"]) == (OTHER, True)
        assert (await http.delete(f"/api/v1/webhooks/{id}")).status_code == 200
        assert (await http.get(f"/api/v1/webhooks/{id}")).status_code == 404
        assert (await http.get(f"/api/v1/webhooks/{id}/deliveries")).status_code == 404
        inference = (await http.post("/api/v1/keys", json={"name": "app"})).json()["secret"]
        refused = await http.get("/api/v1/webhooks", headers={"Authorization": f"Bearer {inference}"})
        assert refused.status_code == 403
    with pytest.raises(NotFound):
        await webhooks(world).delete(id)


def test_what_other_services_tell_of() -> None:
    time = datetime(2026, 1, 1, tzinfo=UTC)
    message = event_pb2.Event(
        id="event_1",
        create_time=timestamp_to_proto(time),
        service="eval",
        resource="evaluations/eval_1",
        state="SUCCEEDED",
        attributes={"model": "starter@2"},
    )
    assert event_of_message(message) == Event(
        "event_1", Kind.EVALUATION_SUCCEEDED, time, "evaluations/eval_1", {"model": "starter@2"}
    )
    message.state = "RUNNING"
    assert event_of_message(message) is None
    message.service, message.state = "sandbox", "SUCCEEDED"
    assert event_of_message(message) is None
