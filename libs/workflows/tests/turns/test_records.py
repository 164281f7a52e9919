"""The folder of turns."""

import multiprocessing
from dataclasses import replace
from pathlib import Path

import pytest

from ratchet_workflows.errors import WorkflowError
from ratchet_workflows.turns.records import State, Turns


def test_the_latest_turn_is_read_as_it_was_saved(tmp_path: Path) -> None:
    turns = Turns(tmp_path / "turns")
    assert turns.latest() is None
    with turns.locked():
        first = turns.begin("digest", "starter", 3)
        assert (first.number, first.base, first.champion, first.state) == (1, 3, 3, State.RUNNING)
        saved = turns.save(replace(first, run="run_1", evaluations={"starter@3": "eval_1"}, state=State.REFUSED))
        assert turns.latest() == saved
        second = turns.begin("digest", "starter", 3, "7d-12")
    assert (second.number, second.due) == (2, "7d-12")
    assert second.key != first.key, "what one turn made is not the other's"
    assert turns.latest() == second


def test_ten_comes_after_nine(tmp_path: Path) -> None:
    turns = Turns(tmp_path)
    for _ in range(10):
        turns.begin("digest", "starter", 1)
    latest = turns.latest()
    assert latest is not None
    assert latest.number == 10


def hold(folder: Path, taken: "multiprocessing.synchronize.Event", done: "multiprocessing.synchronize.Event") -> None:
    with Turns(folder).locked():
        taken.set()
        done.wait(30)


def test_one_process_works_in_a_folder(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    taken, done = context.Event(), context.Event()
    other = context.Process(target=hold, args=(tmp_path, taken, done))
    other.start()
    assert taken.wait(30)
    with pytest.raises(WorkflowError, match="Another `ratchet improve` is at work"), Turns(tmp_path).locked():
        pass
    other.kill()
    other.join()
    with Turns(tmp_path).locked():
        assert list(tmp_path.glob("turn-*")) == []


def test_what_is_no_record_is_said(tmp_path: Path) -> None:
    (tmp_path / "turn-1.json").write_text("{}")
    with pytest.raises(WorkflowError, match=r"turn-1.json is not a record of a turn"):
        Turns(tmp_path).latest()


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(WorkflowError, match="Name another folder"), Turns(tmp_path / "file" / "below").locked():
        pass


def test_the_log_has_times(tmp_path: Path) -> None:
    Turns(tmp_path).log("it began")
    assert (tmp_path / "log.txt").read_text().endswith("+00:00 it began\n")
