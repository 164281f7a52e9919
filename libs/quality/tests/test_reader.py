"""Programs are read in a process of their own, which hostile ones may take down and nothing else."""

import signal

import pytest

from ratchet_kit.errors import Unavailable
from ratchet_problems import Problem, StdioTest
from ratchet_quality import read, reader
from ratchet_quality.reader import MAX_BYTES, Reader

PROBLEM = Problem("p", "Sum xs.", (StdioTest("", ""),), references=("def f(xs):\n    return sum(xs)\n",))
PLAIN = PROBLEM.references[0]
HOSTILE = {
    "no Python": "def f(:",
    "parentheses": "(" * 50_000,
    "operators": "-" * 60_000 + "1",
    "calls": "f" + "()" * 30_000,
    "sum": "1" + "+1" * 30_000,
    "alternatives": "if 1:\n  pass\n" + "elif 1:\n  pass\n" * 4000,
    "braces": "f'" + "{1}" * 20_000 + "'",
    "a number": "1" * 100_001,
    "a null": "a\0b",
    "nothing": "# no code\n",
    "too much": "x = 1\n" * MAX_BYTES,
}


def test_all_components_in_order() -> None:
    ugly = "import os\n" + PLAIN
    found = read([(PLAIN, PROBLEM), (ugly, PROBLEM)])
    assert [list(scores) for scores in found] == [["style", "complexity", "safety", "length"]] * 2
    assert {score.value for score in found[0].values()} == {1.0}
    assert found[1]["style"].value < 1.0


def test_half_a_surrogate_pair_is_read() -> None:
    (found,) = read([("x = '\ud800'\n", PROBLEM)], ["length"])
    assert found["length"].value == 1.0


def test_no_hostile_source_costs_another_its_score() -> None:
    sources = [source for hostile in HOSTILE.values() for source in (hostile, PLAIN)]
    found = read([(source, PROBLEM) for source in sources], ["complexity", "safety"])
    for name, hostile, plain in zip(HOSTILE, found[::2], found[1::2], strict=True):
        assert {score.value for score in hostile.values()} == {0.0}, name
        assert all(score.detail.startswith("not read: ") for score in hostile.values()), name
        assert {score.value for score in plain.values()} == {1.0}, name


def test_a_reader_that_dies_or_hangs_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    with Reader(["length"]) as slow:
        slow.read(PLAIN, PROBLEM)
        assert slow._process is not None
        slow._process.send_signal(signal.SIGSTOP)  # else it may answer before it is waited for
        monkeypatch.setattr(reader, "TIMEOUT_S", 0.0)  # whatever it has computed is too much
        assert slow.read(PLAIN, PROBLEM)["length"].detail == "not read: it took its reader down, or too much time"
        monkeypatch.undo()
        assert slow.read(PLAIN, PROBLEM)["length"].value == 1.0


def test_a_machine_too_busy_to_read_is_no_fault_of_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    with Reader(["length"]) as slow:
        slow.read(PLAIN, PROBLEM)
        monkeypatch.setattr(reader, "TIMEOUT_S", 0.5)
        monkeypatch.setattr(reader, "ATTEMPTS", 1)
        assert slow._process is not None
        slow._process.send_signal(signal.SIGSTOP)
        with pytest.raises(Unavailable, match="too busy to read programs"):
            slow.read(PLAIN, PROBLEM)
        monkeypatch.undo()
        assert slow.read(PLAIN, PROBLEM)["length"].value == 1.0


def test_a_reader_that_does_not_start_is_no_fault_of_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader.sys, "executable", "/bin/true")
    with Reader(["length"]) as none, pytest.raises(Unavailable, match="does not start"):
        none.read(PLAIN, PROBLEM)


def test_a_component_that_there_is_not() -> None:
    with pytest.raises(KeyError):
        read([], ["beauty"])
