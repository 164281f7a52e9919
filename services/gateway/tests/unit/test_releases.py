"""The use cases around releases."""

from datetime import timedelta

import pytest

from gateway_service.domain.ports import GateResult
from gateway_service.domain.releases.release import Bounds, Release, ReleaseSpec, Stage, State
from gateway_service.domain.traffic.feedback import FeedbackRequest, Score
from ratchet_kit.errors import AlreadyExists, FailedPrecondition, InvalidArgument, NotFound
from ratchet_kit.names import CHAMPION, VersionRef

from ..world import World

HALF_THEN_ALL = (Stage(50, timedelta(seconds=60), 30), Stage(100, timedelta(seconds=60), 30))


async def traffic(world: World, requests: int = 100) -> None:
    for n in range(requests):
        await world.ask(key=f"user-{n}")
    await world.gateway.recorder.flush()


async def progressing(world: World, stages=HALF_THEN_ALL, bounds: Bounds = Bounds()) -> Release:
    return await world.until_progressing(await world.release(stages, bounds))


async def test_a_user_rolls_back(world: World) -> None:
    release = await progressing(world)
    view = await world.gateway.releases.roll_back(release.id, "customers complain")
    assert view.release.state is State.ROLLED_BACK
    assert view.release.events[-1].reason == "customers complain"
    answers = [await world.ask(key=f"user-{n}") for n in range(50)]
    assert {answer.version.number for answer in answers} == {1}
    again = await world.gateway.releases.roll_back(release.id, "again")
    assert again.release == view.release


async def test_create_is_idempotent_under_its_request_id(world: World) -> None:
    spec = ReleaseSpec(VersionRef("starter", 2), "gate_2", HALF_THEN_ALL)
    first = await world.gateway.releases.create("req_1", spec)
    assert await world.gateway.releases.create("req_1", spec) == first
    with pytest.raises(AlreadyExists):
        await world.gateway.releases.create("req_1", ReleaseSpec(VersionRef("starter", 2), "gate_2"))


async def test_create_needs_a_passed_gate_for_the_pair(world: World) -> None:
    gates = world.registry.gates
    gates["failed"] = GateResult("failed", VersionRef("starter", 2), VersionRef("starter", 1), False, "not better")
    gates["other"] = GateResult("other", VersionRef("starter", 3), VersionRef("starter", 1), True, "better")
    gates["old"] = GateResult("old", VersionRef("starter", 2), VersionRef("starter", 3), True, "better than 3")
    for gate_id in ("", "unknown", "failed", "other", "old"):
        with pytest.raises(FailedPrecondition, match="gate"):
            await world.gateway.releases.create("", ReleaseSpec(VersionRef("starter", 2), gate_id))


async def test_create_refuses_what_cannot_be(world: World) -> None:
    with pytest.raises(InvalidArgument):
        await world.gateway.releases.create("", ReleaseSpec(VersionRef("starter", 0), "gate_2"))
    with pytest.raises(NotFound):
        await world.gateway.releases.create("", ReleaseSpec(VersionRef("nobody", 2), "gate_2"))
    with pytest.raises(NotFound):
        await world.gateway.releases.create("", ReleaseSpec(VersionRef("starter", 9), "gate_2"))
    with pytest.raises(FailedPrecondition, match="champion already"):
        await world.gateway.releases.create("", ReleaseSpec(VersionRef("starter", 1), "gate_2"))
    await world.release()
    with pytest.raises(FailedPrecondition, match="under way"):
        await world.release()
    del world.registry.aliases["starter", CHAMPION]
    with pytest.raises(FailedPrecondition, match="no champion"):
        await world.gateway.releases.create("", ReleaseSpec(VersionRef("starter", 2), "gate_2"))


async def test_watch_shows_changes_and_ends_with_the_release(world: World) -> None:
    release = await progressing(world)
    views = world.gateway.releases.watch(release.id)
    assert (await anext(views)).release.percent == 50
    await traffic(world, 10)
    assert (await anext(views)).candidate.requests > 0
    await world.gateway.releases.roll_back(release.id, "")
    assert [view.release.state async for view in views] == [State.ROLLED_BACK]


async def test_list_pages_newest_first(world: World) -> None:
    made = []
    for _ in range(3):
        release = await world.release()
        await world.gateway.releases.roll_back(release.id, "")
        made.append(release.id)
    first = await world.gateway.releases.page("starter", 2, "")
    rest = await world.gateway.releases.page("", 2, first.next_page_token)
    assert [view.release.id for view in (*first.items, *rest.items)] == made[::-1]
    assert rest.next_page_token == ""


async def test_each_bound_is_shown_with_its_interval(world: World) -> None:
    release = await progressing(world)
    assert [check.beyond for check in (await world.gateway.releases.get(release.id)).findings] == [None] * 4
    for n in range(200):
        answer = await world.ask(key=f"user-{n}")
        await world.gateway.feedback.give(
            FeedbackRequest(answer.id, Score(1.0 if answer.version.number == 1 else n % 2 / 2))
        )
    await world.gateway.recorder.flush()
    async with world.http() as http:
        shown = (await http.get(f"/api/v1/releases/{release.id}")).json()["release"]
    errors, left, latency, quality = shown["checks"]
    assert [check["bound"] for check in (errors, left, latency, quality)] == [
        "BOUND_ERROR_RATE",
        "BOUND_LEFT",
        "BOUND_LATENCY",
        "BOUND_QUALITY",
    ]
    assert quality["state"] == "STATE_BROKEN"
    assert 0 < quality["beyond"]["low"] < quality["beyond"]["value"] == pytest.approx(0.7, abs=0.1)
    assert errors["beyond"]["value"] == left["beyond"]["value"] == pytest.approx(-0.02)
    assert "quality 0." in quality["sentence"]
    assert shown["spec"]["baseline_percent"] == 5
    await world.gateway.releases.roll_back(release.id, "")
    assert (await world.gateway.releases.get(release.id)).findings == ()
