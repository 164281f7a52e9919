"""What is said of work under way where there is no terminal."""

import pytest

from ratchet_workflows.following import pace as module
from ratchet_workflows.following.pace import Count, Pace


def test_about_twenty_lines_from_first_to_last() -> None:
    pace = Pace()
    due = [done for done in range(1, 61) if pace.is_due(done, 60)]
    assert due == [1, *range(3, 61, 3)]


def test_a_line_is_said_once() -> None:
    pace = Pace()
    assert pace.is_due(60, 60)
    assert not pace.is_due(60, 60)


def test_slow_work_says_each_step(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(module.time, "monotonic", lambda: now)
    pace = Pace()
    assert pace.is_due(1, 1000)
    assert not pace.is_due(2, 1000)
    now += 31
    assert pace.is_due(3, 1000)


def test_a_count_estimates_the_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(module.time, "monotonic", lambda: now)
    count = Count("evaluating starter@2", "problems")
    assert count.news() == []
    now += 138
    count.update(1, 399)
    assert count.news() == ["evaluating starter@2: 1 of 399 problems, 2 min 18 s"], "the first says nothing of the pace"
    now += 5
    count.update(100, 399)
    assert count.news() == ["evaluating starter@2: 100 of 399 problems, 2 min 23 s"], "nor do those that come together"
    now += 5
    count.update(200, 399)
    assert count.news() == ["evaluating starter@2: 200 of 399 problems, about 10 s left"]
    count.update(399, 399)
    assert count.news() == ["evaluating starter@2: 399 of 399 problems, 2 min 28 s"]
    count.update(1, 400, "samples")
    now += 1
    assert count.news() == ["evaluating starter@2: 1 of 400 samples, 1 s"], "its own clock"


def test_a_count_says_once_what_it_waits_for(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(module.time, "monotonic", lambda: now)
    count = Count("evaluating starter@2", "samples")
    for _ in range(2):
        count.wait("a worker: busy with eval_1 of humaneval")
    assert count.news() == ["evaluating starter@2: waits for a worker: busy with eval_1 of humaneval"]
    assert count.news() == []
    count.wait("a worker: none has taken it yet")
    assert count.news() == ["evaluating starter@2: waits for a worker: none has taken it yet"]
    now += 50
    count.update(0, 4)
    now += 2
    count.update(1, 4)
    assert count.news() == ["evaluating starter@2: 1 of 4 samples, 2 s"]
