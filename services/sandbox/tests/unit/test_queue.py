import pytest

from ratchet_kit.work import Priority
from sandbox_service.domain.queue import Entry, FairQueue


def _filled(*lines: tuple[str, Priority, int]) -> FairQueue[str]:
    queue: FairQueue[str] = FairQueue()
    for caller, priority, count in lines:
        for i in range(count):
            queue.put(Entry(f"{caller}{i}", caller, priority))
    return queue


def _drain(queue: FairQueue[str]) -> list[str]:
    return [queue.take().content for _ in range(len(queue))]


def test_callers_take_turns_whatever_they_have_queued() -> None:
    queue = _filled(("a", Priority.NORMAL, 4000), ("b", Priority.NORMAL, 1), ("c", Priority.NORMAL, 2))
    assert _drain(queue)[:6] == ["a0", "b0", "c0", "a1", "c1", "a2"]


def test_a_callers_own_are_in_order() -> None:
    assert _drain(_filled(("a", Priority.LOW, 20))) == [f"a{i}" for i in range(20)]


def test_who_comes_late_is_soon_served() -> None:
    queue = _filled(("a", Priority.NORMAL, 4000))
    for _ in range(100):
        queue.take()
    queue.put(Entry("late", "b", Priority.NORMAL))
    assert "late" in [queue.take().content for _ in range(2)]


def test_the_more_urgent_goes_first_and_the_less_urgent_is_not_forgotten() -> None:
    queue = _filled(("low", Priority.LOW, 3), ("normal", Priority.NORMAL, 30), ("high", Priority.HIGH, 100))
    order = _drain(queue)
    assert sum(name.startswith("high") for name in order[:32]) == 28
    assert [name for name in order[:32] if not name.startswith("high")] == ["low0", "low1", "low2", "normal0"]
    assert len(order) == 133


def test_what_is_withdrawn_is_gone() -> None:
    queue = _filled(("a", Priority.NORMAL, 2))
    mine = Entry("mine", "b", Priority.NORMAL)
    queue.put(mine)
    assert (len(queue), queue.length(Priority.NORMAL), queue.length(Priority.HIGH)) == (3, 3, 0)
    queue.remove(mine)
    with pytest.raises(ValueError):
        queue.remove(mine)
    assert _drain(queue) == ["a0", "a1"]
    with pytest.raises(IndexError):
        queue.take()
