"""One suite for the stores of webhooks, and for what other stores tell them: as test_stores."""

from dataclasses import replace
from datetime import timedelta

import pytest

from gateway_service.domain.webhooks.event import Event, Kind
from gateway_service.domain.webhooks.webhook import LONGEST, State, Webhook
from ratchet_kit.errors import Aborted, AlreadyExists, NotFound

from .test_experiments import experiment
from .test_stores import NOW, Stores, release, request, stores

__all__ = ["stores"]

LATER = NOW + timedelta(minutes=1)


def webhook(number: int = 1, *kinds: Kind) -> Webhook:
    return Webhook(
        f"hook_{number}", f"https://example.com/{number}", "whsec_QQ==", NOW, frozenset(kinds), actor="key_1"
    )


def event(number: int = 1, kind: Kind = Kind.RUN_SUCCEEDED) -> Event:
    return Event(f"event_{number}", kind, NOW, f"runs/run_{number}")


class TestWebhookStore:
    async def test_gives_back_what_was_stored(self, stores: Stores) -> None:
        hooks = stores.webhooks
        one = webhook(1, Kind.RUN_FAILED)
        assert await hooks.create(one, request()) == one
        assert await hooks.create(webhook(2), request()) == one == await hooks.find(request())
        assert await hooks.find(request(2)) is None
        with pytest.raises(AlreadyExists):
            await hooks.create(webhook(2), request(content="another"))
        two = await hooks.create(webhook(2), request(2))
        assert (await hooks.get("hook_1"), await hooks.count()) == (one, 2)
        assert await hooks.page(5, None) == [two, one]
        assert await hooks.page(5, "hook_2") == [one]
        changed = await hooks.change("hook_1", lambda present: replace(present, paused=True, kinds=frozenset()))
        assert changed.paused
        assert await hooks.get("hook_1") == changed

    async def test_what_does_not_exist(self, stores: Stores) -> None:
        for missing in (
            stores.webhooks.get("hook_9"),
            stores.webhooks.delete("hook_9"),
            stores.webhooks.change("hook_9", lambda present: present),
        ):
            with pytest.raises(NotFound):
                await missing
        assert await stores.webhooks.take("hook_9", NOW, LATER) is None

    async def test_an_event_is_announced_once_to_each_that_wants_it(self, stores: Stores) -> None:
        hooks = stores.webhooks
        await hooks.create(webhook(1), request(1))
        await hooks.create(webhook(2, Kind.RUN_FAILED), request(2))
        await hooks.announce([event(1), event(2, Kind.RUN_FAILED)], NOW)
        await hooks.announce([event(1), event(2, Kind.RUN_FAILED)], LATER)
        await hooks.announce([], LATER)
        assert {one.event_id for one in await hooks.deliveries("hook_1", 5, None)} == {"event_1", "event_2"}
        (only,) = await hooks.deliveries("hook_2", 5, None)
        assert (only.event_id, only.body, only.next_time) == ("event_2", event(2, Kind.RUN_FAILED).body(), NOW)
        newest, oldest = await hooks.deliveries("hook_1", 5, None)
        assert await hooks.deliveries("hook_1", 5, newest.id) == [oldest]

    async def test_one_takes_a_delivery_until_its_time_is_over(self, stores: Stores) -> None:
        hooks = stores.webhooks
        await hooks.create(webhook(), request())
        await hooks.announce([event()], NOW)
        assert await hooks.with_due(NOW - timedelta(seconds=1)) == []
        assert [one.id for one in await hooks.with_due(NOW)] == ["hook_1"]
        taken = await hooks.take("hook_1", NOW, LATER)
        assert taken is not None
        assert (taken.attempts, taken.next_time) == (1, LATER)
        assert await hooks.take("hook_1", NOW, LATER) is None
        assert await hooks.with_due(NOW) == []
        again = await hooks.take("hook_1", LATER, LATER + timedelta(minutes=1))
        assert again is not None
        assert (again.id, again.attempts) == (taken.id, 2)
        await hooks.save(again.succeed(204, LATER))
        assert await hooks.take("hook_1", LATER + timedelta(days=1), LATER) is None
        (stored,) = await hooks.deliveries("hook_1", 5, None)
        assert (stored.state, stored.status, stored.end_time) == (State.DELIVERED, 204, LATER)

    async def test_what_has_waited_longest_goes_first(self, stores: Stores) -> None:
        hooks = stores.webhooks
        await hooks.create(webhook(), request())
        await hooks.announce([event(2)], LATER)
        await hooks.announce([event(1)], NOW)
        taken = await hooks.take("hook_1", LATER, LATER)
        assert taken is not None
        assert taken.event_id == "event_1"

    async def test_a_paused_webhook_has_nothing_due(self, stores: Stores) -> None:
        await stores.webhooks.create(webhook(), request())
        await stores.webhooks.announce([event()], NOW)
        await stores.webhooks.change("hook_1", lambda present: replace(present, paused=True))
        assert await stores.webhooks.with_due(LATER) == []

    async def test_a_deleted_webhook_takes_its_deliveries_along(self, stores: Stores) -> None:
        hooks = stores.webhooks
        await hooks.create(webhook(), request())
        await hooks.announce([event()], NOW)
        taken = await hooks.take("hook_1", NOW, LATER)
        assert taken is not None
        await hooks.delete("hook_1")
        await hooks.save(taken.succeed(204, NOW))
        assert await hooks.deliveries("hook_1", 5, None) == []
        assert (await hooks.with_due(LATER), await hooks.count()) == ([], 0)
        assert (await hooks.create(webhook(3), request())).id == "hook_3"

    async def test_forgets_what_ended(self, stores: Stores) -> None:
        hooks = stores.webhooks
        await hooks.create(webhook(), request())
        await hooks.announce([event(1), event(2)], NOW)
        taken = await hooks.take("hook_1", NOW, LATER)
        assert taken is not None
        await hooks.save(taken.succeed(204, NOW))
        assert await hooks.forget(NOW) == 0
        assert await hooks.forget(LATER) == 1
        assert len(await hooks.deliveries("hook_1", 5, None)) == 1

    async def test_forgets_what_waits_for_longer_than_all_retries_take(self, stores: Stores) -> None:
        """An endpoint that is dead takes twenty seconds an attempt: more events than those would wait without end."""
        hooks = stores.webhooks
        await hooks.create(webhook(), request())
        await hooks.announce([event(1)], NOW)
        await hooks.announce([event(2)], LATER)
        assert await hooks.forget(NOW + LONGEST) == 0
        assert await hooks.forget(LATER + LONGEST) == 1
        assert [one.event_id for one in await hooks.deliveries("hook_1", 5, None)] == ["event_2"]

    async def test_what_ends_is_announced_with_it(self, stores: Stores) -> None:
        await stores.webhooks.create(webhook(), request())
        going = (await stores.releases.create(release(), request())).begin(NOW)
        going = await stores.releases.save(going)
        assert await stores.webhooks.deliveries("hook_1", 5, None) == []
        over = await stores.releases.save(going.roll_back(NOW, "worse"))
        await stores.releases.save(over.retire(NOW))
        with pytest.raises(Aborted):
            await stores.releases.save(replace(going, id="rel_2"))
        (delivery,) = await stores.webhooks.deliveries("hook_1", 5, None)
        assert (delivery.kind, delivery.event_id) == (Kind.RELEASE_ROLLED_BACK, "rel_1.release.rolled_back")
        test = await stores.experiments.create(experiment(), request())
        test = await stores.experiments.save(test.start(NOW))
        await stores.experiments.save(test.stop(NOW, "no need"))
        newest, _ = await stores.webhooks.deliveries("hook_1", 5, None)
        assert newest.event_id == "exp_1.experiment.stopped"
