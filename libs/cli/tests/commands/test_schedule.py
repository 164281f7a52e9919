"""`ratchet evaluate --every`: once in each period."""

from collections.abc import Callable
from typing import Any

import pytest

from ratchet_cli.commands import schedule
from ratchet_cli.commands.schedule import period_of, repeat
from ratchet_cli.terminal.errors import CommandError
from ratchet_client import Unreachable
from ratchet_testing.gateway import ScriptedGateway


class Clock:
    def __init__(self, now: float, sleeps: int) -> None:
        self.time, self.left = now, sleeps

    def now(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        if not self.left:
            raise KeyboardInterrupt
        self.left -= 1
        self.time += seconds


def run(clock: Clock, work: Callable[[int], None]) -> None:
    with pytest.raises(KeyboardInterrupt):
        repeat(100, work, clock.now, clock.sleep)


def test_periods() -> None:
    assert [period_of(text) for text in ("30m", "6h", "1d")] == [1800, 21_600, 86_400]
    for text in ("", "0h", "5", "1w", "-1d", "1.5h"):
        with pytest.raises(CommandError, match="as 30m, 6h, 1d"):
            period_of(text)


def test_the_present_period_is_due_at_once_and_each_next_one_when_it_begins() -> None:
    clock, times = Clock(1050.0, 2), list[tuple[int, float]]()
    run(clock, lambda turn: times.append((turn, clock.time)))
    assert times == [(10, 1050.0), (11, 1100.0), (12, 1200.0)]


def test_what_takes_longer_than_a_period_leaves_periods_out() -> None:
    clock, turns = Clock(1050.0, 1), list[int]()

    def work(turn: int) -> None:
        turns.append(turn)
        clock.time += 330

    run(clock, work)
    assert turns == [10, 13]


def test_what_fails_later_is_said_and_the_next_one_comes(capfd: pytest.CaptureFixture[str]) -> None:
    clock, turns = Clock(1000.0, 4), list[int]()
    errors: list[Exception | None] = [None, CommandError("it failed"), Unreachable("nobody answers"), None]

    def work(turn: int) -> None:
        turns.append(turn)
        if errors and (error := errors.pop(0)):
            raise error

    run(clock, work)
    assert turns == [10, 11, 12, 12, 13], "nobody answered: that one is tried again"
    said = capfd.readouterr().err
    assert "it failed" in said
    assert "nobody answers" in said


def test_an_error_of_the_first_time_ends_it() -> None:
    def work(turn: int) -> None:
        raise CommandError("there is no such model")

    with pytest.raises(CommandError, match="no such model"):
        repeat(100, work)


def test_a_period_has_one_evaluation(ratchet: Any, gateway: ScriptedGateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RATCHET_URL", gateway.url)
    monkeypatch.setattr(schedule, "repeat", lambda period, work: [work(7), work(7), work(8)])
    for _ in range(3):
        gateway.answers({"evaluation": {"id": "e1", "state": "STATE_QUEUED"}})
    result = ratchet("evaluate", "--model", "m:champion", "--benchmark", "basics", "--every", "1d", "--detach")
    assert (result.returncode, result.stdout) == (0, "e1\n" * 3)
    first, again, second = (one.body["request_id"] for one in gateway.received if one.body)
    assert first == again
    assert (first.rpartition("-")[0], first[-2:], second[-2:]) == (second.rpartition("-")[0], "-7", "-8")
    assert ratchet("evaluate", "--samples", __file__, "--every", "1d").returncode != 0
