import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from gateway_service.domain.completions.router import choose_arm
from gateway_service.domain.releases.release import Release, ReleaseSpec, Stage
from gateway_service.domain.traffic.record import Arm
from ratchet_kit.names import VersionRef

NOW = datetime(2026, 1, 1, tzinfo=UTC)
KEYS = [f"user-{n}" for n in range(20_000)]


def at(percent: int, release_id: str = "rel_1") -> Release:
    spec = ReleaseSpec(VersionRef("starter", 2), "gate", (Stage(percent, timedelta(0), 0), Stage(100, timedelta(0), 0)))
    return Release(release_id, spec, baseline=VersionRef("starter", 1), create_time=NOW).begin(NOW)


def on_candidate(release: Release) -> set[str]:
    chance = random.Random(0)
    return {key for key in KEYS if choose_arm(release, key, chance) is Arm.CANDIDATE}


@pytest.mark.parametrize("percent", [1, 5, 25, 50])
def test_keys_reach_the_candidate_in_proportion(percent: int) -> None:
    share = 100 * len(on_candidate(at(percent))) / len(KEYS)
    assert share == pytest.approx(percent, rel=0.15)


def test_a_key_on_the_candidate_stays_on_it() -> None:
    assert on_candidate(at(1)) < on_candidate(at(5)) < on_candidate(at(25)) < on_candidate(at(50))


def test_releases_do_not_always_meet_the_same_keys_first() -> None:
    first, second = on_candidate(at(5)), on_candidate(at(5, "rel_2"))
    assert len(first & second) < 0.2 * len(first)


def test_without_a_key_each_request_is_by_itself() -> None:
    chance = random.Random(1)
    hits = sum(choose_arm(at(25), "", chance) is Arm.CANDIDATE for _ in range(10_000))
    assert hits == pytest.approx(2_500, rel=0.1)


def test_who_stays_with_the_baseline_does_so_at_all_stages() -> None:
    last = at(50).advance(NOW, "on")
    kept = set(KEYS) - on_candidate(last)
    assert len(kept) == pytest.approx(0.05 * len(KEYS), rel=0.15)
    for release in (at(1), at(50), at(97), last.promote(NOW, ""), last.promote(NOW, "").succeed(NOW)):
        assert not kept & on_candidate(release)


def test_all_or_nothing_at_the_ends() -> None:
    whole = at(99)
    whole = replace(whole, spec=replace(whole.spec, baseline_percent=0))
    assert on_candidate(whole.advance(NOW, "on")) == set(KEYS)
    assert on_candidate(at(50).roll_back(NOW, "worse")) == set()
