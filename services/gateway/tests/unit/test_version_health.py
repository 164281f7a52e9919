"""The traffic of a version by day and arm, and whether it is worse than before."""

from datetime import datetime, timedelta

import httpx
import pytest
from prometheus_client import REGISTRY

from gateway_service.domain.releases.findings import Bound
from gateway_service.domain.traffic.record import Arm, CompletionRecord
from gateway_service.domain.version_health import DAY
from ratchet_kit.names import VersionRef
from ratchet_kit.usage import Prices

from ..world import World

ONE, TWO = VersionRef("starter", 1), VersionRef("starter", 2)
PATH = "/api/v1/models/starter/versions/1/health"


async def day(
    world: World,
    start: datetime,
    version: VersionRef = ONE,
    *,
    requests: int = 400,
    failing: float = 0.0,
    seconds: float = 1.0,
) -> None:
    """Requests of as many users from `start` on, one a second, of which some fail."""
    await world.completions.append(
        [
            CompletionRecord(
                f"cmpl_{start:%d}_{version.number}_{number}",
                start + timedelta(seconds=number),
                version,
                Arm.NONE,
                timedelta(seconds=seconds),
                error="died" if number < failing * requests else "",
                prompt_tokens=3,
                completion_tokens=5,
                unit=f"user-{number}",
            )
            for number in range(requests)
        ]
    )


def midnight(world: World) -> datetime:
    return world.clock.now().replace(hour=0, minute=0, second=0, microsecond=0)


async def test_days_and_arms(world: World, http: httpx.AsyncClient) -> None:
    today = midnight(world)
    await day(world, today - DAY, requests=40, failing=0.25, seconds=2.0)
    await world.ask()
    await world.gateway.recorder.flush()
    await world.completions.append([CompletionRecord("cmpl_f", today, ONE, Arm.FALLBACK, DAY, left=True)])
    reply = (await http.get(PATH)).json()
    before, fallback, now = reply["days"]
    assert (before["arm"], before["requests"], before["errors"]) == ("ARM_NONE", "40", "10")
    assert (before["latency_p50"], before["latency_p95"], before["prompt_tokens"]) == ("2s", "2s", "120")
    assert (fallback["arm"], fallback["left"], fallback.get("latency_p50")) == ("ARM_FALLBACK", "1", None)
    assert (now["requests"], now["errors"]) == ("1", "0")
    assert reply["notices"] == []
    assert (reply["answers"], reply["usage"]["prompt_tokens"]) == ("42", str(120 + int(now["prompt_tokens"])))
    assert "cost" not in reply["usage"]
    world.completions.prices = Prices(currency="EUR", million_prompt_tokens=1e6)
    priced = (await http.get(PATH, params={"days": 1})).json()
    assert (priced["answers"], priced["usage"]["cost"]) == ("2", float(now["prompt_tokens"]))
    assert [one["requests"] for one in (await http.get(PATH, params={"days": 1})).json()["days"]] == ["1", "1"]


async def test_what_is_asked_wrongly(world: World, http: httpx.AsyncClient) -> None:
    refused = await http.get(PATH, params={"days": 31})
    assert (refused.status_code, refused.json()["error"]["message"]) == (400, "days must be from 0 to 30")
    assert (await http.get(PATH.replace("versions/1", "versions/9"))).status_code == 404
    assert (await http.get(PATH.replace("starter", "nobody"))).status_code == 404
    assert (await http.get(PATH, headers={"Authorization": "Bearer rk_wrong"})).status_code == 401


@pytest.fixture
def noon(world: World) -> datetime:
    """It is; today's midnight."""
    world.clock.advance(midnight(world) + DAY * 1.5 - world.clock.now())
    return midnight(world)


async def notices(world: World, days: int = 7) -> list[tuple[Bound, VersionRef, int]]:
    found = (await world.gateway.health.get(ONE, days)).notices
    return [(one.drift.bound, one.against, (midnight(world) - one.start_time).days) for one in found]


async def test_a_day_is_held_against_the_same_hours_of_days_before(world: World, noon: datetime) -> None:
    for back in (1, 2):
        await day(world, noon - DAY * back)
        await day(world, noon - DAY * back + timedelta(hours=13), failing=1.0)  # as it is each afternoon
    await day(world, noon)
    assert await notices(world) == []
    world.clock.advance(timedelta(hours=11, minutes=59))
    await day(world, noon + timedelta(hours=13), failing=1.0)
    assert await notices(world) == []


async def test_a_version_that_gets_worse_is_noticed_for_two_days(world: World, noon: datetime) -> None:
    await day(world, noon - DAY)
    await day(world, noon, failing=0.2)
    assert await notices(world) == [(Bound.ERROR_RATE, ONE, 0)]
    world.clock.advance(DAY)
    await day(world, noon + DAY)
    assert await notices(world, days=1) == [(Bound.ERROR_RATE, ONE, 1)]
    world.clock.advance(DAY)
    assert await notices(world) == []


async def test_a_champion_is_held_against_the_one_before(world: World, noon: datetime, http: httpx.AsyncClient) -> None:
    world.registry.before["starter"] = 2
    await day(world, noon - DAY * 3, TWO)
    await day(world, noon, seconds=2.0)
    assert await notices(world) == [(Bound.LATENCY, TWO, 0)]
    (notice,) = (await http.get(PATH)).json()["notices"]
    assert (notice["bound"], notice["against"], notice["start_time"][:10]) == (
        "latency",
        {"model": "starter", "number": 2},
        f"{noon:%Y-%m-%d}",
    )
    took_longer = "100.0 % of answers took longer than 1.5 times the p95 of before, and 5 % may"
    assert notice["message"] == f"{noon:%Y-%m-%d}: {took_longer}; before: 1 day of starter@2"


async def test_a_few_users_prove_nothing(world: World, noon: datetime) -> None:
    await day(world, noon - DAY)
    await day(world, noon, requests=15, failing=1.0)
    assert await notices(world) == []


async def test_a_look_says_in_the_metrics_who_is_worse(world: World, noon: datetime) -> None:
    def said() -> float | None:
        return REGISTRY.get_sample_value(
            "ratchet_gateway_drift", {"model": "starter", "version": "1", "bound": "error_rate"}
        )

    await day(world, noon - DAY)
    await day(world, noon, failing=0.2)
    await world.gateway.health.look()
    assert said() == 1
    world.clock.advance(DAY * 2)
    await world.gateway.health.look()
    assert said() == 0
