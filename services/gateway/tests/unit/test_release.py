from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from gateway_service.domain.releases.release import Bounds, Release, ReleaseSpec, Stage, State, Unproven
from ratchet_kit.errors import FailedPrecondition, Failure, InvalidArgument
from ratchet_kit.names import VersionRef

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SPEC = ReleaseSpec(VersionRef("starter", 2), "gate", (Stage(10, timedelta(0), 0), Stage(100, timedelta(0), 0)))

NOT_LOADED = FailedPrecondition("config.json is missing")


def new() -> Release:
    return Release("rel_1", SPEC, baseline=VersionRef("starter", 1), create_time=NOW)


def test_the_way_to_success() -> None:
    release = new()
    assert (release.state, release.percent) == (State.PREPARING, 0)
    release = release.begin(NOW)
    assert (release.state, release.percent, release.stage_start_time) == (State.PROGRESSING, 10, NOW)
    later = NOW + timedelta(minutes=1)
    release = release.advance(later, "good so far")
    assert (release.percent, release.stage, release.stage_start_time) == (95, 1, later)
    release = release.promote(later, "good")
    assert (release.state, release.percent, release.stage, release.end_time) == (State.PROMOTING, 95, 2, None)
    release = release.succeed(later)
    assert (release.state, release.percent, release.stage, release.stage_start_time) == (State.WATCHING, 95, 2, later)
    release = release.promote(later, "nothing dropped")
    assert (release.state, release.percent, release.end_time) == (State.SUCCEEDED, 100, later)
    assert str(release.loser) == "starter@1"
    assert [event.percent for event in release.events] == [10, 95, 95, 100]
    assert release.retire(later).retire_time == later


def test_a_rollback_sends_everything_back() -> None:
    release = new().begin(NOW).roll_back(NOW, "slow")
    assert (release.state, release.percent, str(release.loser)) == (State.ROLLED_BACK, 0, "starter@2")
    assert release.events[-1].reason == "slow"
    assert release.roll_back(NOW, "again") == release


def test_a_roll_back_sets_the_champion_back_where_it_may_have_been_set() -> None:
    promoting = new().begin(NOW).promote(NOW, "by a user", "key_1")
    for release in (promoting, promoting.succeed(NOW)):
        falling = release.roll_back(NOW, "slow")
        assert (falling.state, falling.percent, falling.active) == (State.FALLING_BACK, 0, True)
        assert falling.roll_back(NOW, "again") == falling
        ended = falling.fallen_back(NOW)
        assert (ended.state, ended.end_time, str(ended.loser)) == (State.ROLLED_BACK, NOW, "starter@2")


def test_nothing_is_watched_where_the_spec_says_so() -> None:
    release = replace(new(), spec=replace(SPEC, watch=timedelta(0))).begin(NOW).promote(NOW, "good").succeed(NOW)
    assert (release.state, release.end_time) == (State.SUCCEEDED, NOW)


def test_the_time_of_a_pause_is_no_time_of_the_stage() -> None:
    minute = timedelta(minutes=1)
    release = new().begin(NOW).pause(NOW + minute, "look", "key_1")
    assert (release.state, release.percent, release.events[-1].actor) == (State.PAUSED, 0, "key_1")
    assert release.pause(NOW, "again") == release
    release = release.resume(NOW + 3 * minute, "go on")
    assert (release.percent, release.stage_start_time, release.pause_time) == (10, NOW + 2 * minute, None)
    assert release.resume(NOW, "again") == release
    assert release.pause(NOW, "").roll_back(NOW, "").state is State.ROLLED_BACK


def test_a_failure_says_what_the_platform_could_not_do() -> None:
    release = new().fail(NOW, NOT_LOADED)
    assert (release.state, release.percent) == (State.FAILED, 0)
    assert release.failure == Failure("FAILED_PRECONDITION", "config.json is missing")


@pytest.mark.parametrize(
    "move",
    [
        lambda: new().advance(NOW, ""),
        lambda: new().succeed(NOW),
        lambda: new().pause(NOW, ""),
        lambda: new().promote(NOW, ""),
        lambda: new().begin(NOW).fallen_back(NOW),
        lambda: new().begin(NOW).roll_back(NOW, "").promote(NOW, ""),
        lambda: new().begin(NOW).promote(NOW, "").pause(NOW, ""),
        lambda: new().begin(NOW).promote(NOW, "").roll_back(NOW, "").succeed(NOW),
        lambda: new().retire(NOW),
        lambda: new().begin(NOW).begin(NOW),
        lambda: new().begin(NOW).succeed(NOW),
        lambda: new().begin(NOW).advance(NOW, "").advance(NOW, ""),
        lambda: new().fail(NOW, NOT_LOADED).roll_back(NOW, ""),
        lambda: new().fail(NOW, NOT_LOADED).begin(NOW),
        lambda: new().roll_back(NOW, "").fail(NOW, NOT_LOADED),
    ],
)
def test_refuses_what_is_not_allowed(move: Callable[[], Release]) -> None:
    with pytest.raises(FailedPrecondition):
        move()


def test_names_every_fault_of_a_spec() -> None:
    stages = (Stage(50, timedelta(seconds=-1), 0), Stage(20, timedelta(1), -1, -1, timedelta(hours=1)))
    with pytest.raises(InvalidArgument) as caught:
        ReleaseSpec(
            VersionRef("", 0), "", stages, Bounds(-0.1, 0.5, 2.0, 2.0), watch=timedelta(-1), baseline_percent=51
        ).check()
    assert [violation.field for violation in caught.value.violations] == [
        "spec.candidate.model",
        "spec.candidate.number",
        "spec.stages[0].min_duration",
        "spec.stages[1].percent",
        "spec.stages[1].min_samples",
        "spec.stages[1].min_scored",
        "spec.stages[1].max_duration",
        "spec.stages",
        "spec.watch",
        "spec.baseline_percent",
        "spec.bounds.max_error_rate_increase",
        "spec.bounds.max_latency_ratio",
        "spec.bounds.max_quality_drop",
        "spec.bounds.max_left_increase",
    ]


def test_zero_is_a_bound() -> None:
    ReleaseSpec(VersionRef("starter", 2), "gate", bounds=Bounds(0.0, 1.0, 0.0, 0.0), baseline_percent=0).check()


def test_what_could_never_be_compared_is_refused() -> None:
    only = ReleaseSpec(VersionRef("starter", 2), "gate", (Stage(100, timedelta(0), 0),), baseline_percent=0)
    with pytest.raises(InvalidArgument, match="nothing could be compared"):
        only.check()
    replace(only, unproven=Unproven.PROCEED).check()
    replace(only, baseline_percent=1).check()


@pytest.mark.parametrize(("kept", "percents"), [(0, [97, 100, 100]), (5, [95, 95, 95]), (50, [50, 50, 50])])
def test_what_is_kept_stays_with_the_baseline_until_the_watch_ends(kept: int, percents: list[int]) -> None:
    stages = (Stage(97, timedelta(0), 0), Stage(100, timedelta(0), 0))
    release = replace(new(), spec=replace(SPEC, stages=stages, baseline_percent=kept)).begin(NOW)
    watched = release.advance(NOW, "").promote(NOW, "").succeed(NOW)
    assert [one.percent for one in (release, release.advance(NOW, ""), watched)] == percents
    assert watched.promote(NOW, "").percent == 100


def test_the_defaults_are_right() -> None:
    spec = ReleaseSpec(VersionRef("starter", 2), "gate")
    spec.check()
    assert [stage.percent for stage in spec.stages] == [1, 5, 25, 50, 100]


@pytest.mark.parametrize("duration", [timedelta(days=366), timedelta(seconds=400_000_000_000), timedelta.max])
def test_a_stage_that_no_answer_could_show_is_refused(duration: timedelta) -> None:
    """JSON of protobuf ends at 10,000 years: one stored beyond it would break each list of releases."""
    spec = ReleaseSpec(VersionRef("starter", 2), "gate", (Stage(100, duration, 0),))
    with pytest.raises(InvalidArgument) as caught:
        spec.check()
    assert [violation.field for violation in caught.value.violations] == ["spec.stages[0].min_duration"]
