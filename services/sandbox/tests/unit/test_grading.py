"""What follows from a report, without a cage."""

from dataclasses import replace
from datetime import timedelta

import pytest

from sandbox_service.domain.execution import Verdict
from sandbox_service.domain.grading import clip, conclude, judge_calls, judge_check, judge_run, judge_stdio, show
from sandbox_service.domain.jobs import (
    CheckReport,
    CheckVerdict,
    End,
    Raised,
    Report,
    Returned,
    Stage,
)
from sandbox_service.domain.program import CallTest, Program, StdioTest

ENDED = Report(End.EXITED, 0, Stage.ENDED, timedelta(seconds=0.1), timedelta(seconds=0.2), "scripted")
TESTS = [CallTest((1,), 2), CallTest((2,), 3)]
RIGHT = replace(ENDED, answers=(Returned(2), Returned(3)))


def test_only_right_values_pass() -> None:
    assert judge_calls(TESTS, RIGHT).verdict is Verdict.PASSED
    assert judge_calls(TESTS, replace(RIGHT, answers=(Returned(2), Returned(4)))).verdict is Verdict.FAILED


@pytest.mark.parametrize("status", [0, 1, 97, -9, -11, -24])
def test_no_exit_status_passes(status: int) -> None:
    for answers in ((), (Returned(2),)):
        outcome = judge_calls(TESTS, replace(ENDED, stage=Stage.LOADED, exit_status=status, answers=answers))
        assert outcome.verdict is not Verdict.PASSED
        assert len(outcome.results) == len(answers) + 1


def test_right_answers_stand_even_if_the_process_dies_after_them() -> None:
    assert judge_calls(TESTS, replace(RIGHT, exit_status=-11)).verdict is Verdict.PASSED


def test_more_bytes_than_were_asked_for_are_tampering_even_beside_right_answers() -> None:
    outcome = judge_calls(TESTS, replace(RIGHT, malformed="unasked bytes"))
    assert (outcome.verdict, outcome.results, outcome.stop) == (Verdict.TAMPERED, (), True)


def test_more_answers_than_calls_are_tampering() -> None:
    outcome = judge_calls(TESTS, replace(RIGHT, answers=(Returned(2), Returned(3), Returned(4))))
    assert (outcome.verdict, outcome.results, outcome.stop) == (Verdict.TAMPERED, (), True)


@pytest.mark.parametrize(
    ("change", "verdict"),
    [
        ({"end": End.CPU}, Verdict.TIME_LIMIT),
        ({"end": End.IDLE}, Verdict.TIME_LIMIT),
        ({"end": End.WALL}, Verdict.TIME_LIMIT),
        ({"end": End.OUTPUT}, Verdict.OUTPUT_LIMIT),
        ({"end": End.RESULT}, Verdict.OUTPUT_LIMIT),
        ({"exit_status": -24}, Verdict.TIME_LIMIT),
        ({"exit_status": -25}, Verdict.OUTPUT_LIMIT),
        ({"exit_status": -11}, Verdict.RUNTIME_ERROR),
        ({"exit_status": -200}, Verdict.RUNTIME_ERROR),
        ({"error": Raised("MemoryError", "")}, Verdict.MEMORY_LIMIT),
        ({"error": Raised("KeyError", "'a'")}, Verdict.RUNTIME_ERROR),
        ({"stage": Stage.STARTED, "error": Raised("SyntaxError", "bad")}, Verdict.COMPILE_ERROR),
        ({"stage": Stage.STARTED, "error": Raised("MemoryError", "")}, Verdict.COMPILE_ERROR),
        ({"stage": Stage.STARTED, "exit_status": -11}, Verdict.COMPILE_ERROR),
    ],
)
def test_troubles_are_told_apart_for_every_kind_of_test(change: dict, verdict: Verdict) -> None:
    report = replace(ENDED, **{"stage": Stage.LOADED, "exit_status": 1, **change})
    assert judge_calls(TESTS, report).verdict is verdict
    assert judge_run(report).verdict is verdict
    assert judge_stdio(StdioTest("", ""), report).verdict is verdict
    assert judge_check(report).verdict is verdict


def test_what_is_printed_may_be_within_the_tolerance_that_its_test_states() -> None:
    report = replace(ENDED, stage=Stage.LOADED, stdout="0.33333333\n")
    assert judge_stdio(StdioTest("", "0.33333334"), report).verdict is Verdict.FAILED
    assert judge_stdio(StdioTest("", "0.33333334", tolerance=1e-6), report).verdict is Verdict.PASSED


@pytest.mark.parametrize(
    ("tester", "verdict"),
    [
        (CheckReport(CheckVerdict.PASSED), Verdict.PASSED),
        (CheckReport(CheckVerdict.FAILED, "AssertionError"), Verdict.FAILED),
        (CheckReport(CheckVerdict.RAISED, "ValueError: x"), Verdict.RUNTIME_ERROR),
        (CheckReport(CheckVerdict.RAISED, "MemoryError"), Verdict.MEMORY_LIMIT),
        (CheckReport(CheckVerdict.BROKEN, "NameError: x"), Verdict.RUNTIME_ERROR),
        (CheckReport(CheckVerdict.GARBLED), Verdict.TAMPERED),
        (CheckReport(CheckVerdict.GONE), Verdict.RUNTIME_ERROR),
        (None, Verdict.RUNTIME_ERROR),
    ],
)
def test_the_testers_word(tester: CheckReport | None, verdict: Verdict) -> None:
    assert judge_check(replace(ENDED, tester=tester)).verdict is verdict


def test_a_tester_that_passed_before_a_limit_does_not_count() -> None:
    assert (
        judge_check(replace(ENDED, end=End.OUTPUT, tester=CheckReport(CheckVerdict.PASSED))).verdict
        is Verdict.OUTPUT_LIMIT
    )


def test_the_first_test_that_did_not_pass_decides_and_tampering_stands_above() -> None:
    program = Program("p", "", "f", (*TESTS, StdioTest("", "x")))
    wrong = replace(ENDED, answers=(Returned(2), Returned(0)), stdout="first")
    passed, failed = judge_calls(TESTS, RIGHT), judge_calls(TESTS, wrong)
    slow = judge_run(replace(ENDED, end=End.CPU, stdout="second"))
    both = [wrong, replace(ENDED, stdout="second")]
    execution = conclude(program, [failed, slow], both)
    assert (execution.verdict, execution.stdout, execution.tests_passed, execution.tests_total) == (
        Verdict.FAILED,
        "first",
        1,
        3,
    )
    assert execution.cpu_time == timedelta(seconds=0.2)
    tampered = judge_run(replace(ENDED, malformed="m"))
    assert conclude(program, [failed, tampered], both).verdict is Verdict.TAMPERED
    assert conclude(program, [passed], [RIGHT]).verdict is Verdict.PASSED


def test_an_expected_exception_is_of_that_name_or_of_a_kind_of_it() -> None:
    raised = Raised("JSONDecodeError", "no", ("JSONDecodeError", "ValueError", "Exception", "BaseException"))
    for name, verdict in {
        "JSONDecodeError": Verdict.PASSED,
        "ValueError": Verdict.PASSED,
        "KeyError": Verdict.RUNTIME_ERROR,
        "": Verdict.RUNTIME_ERROR,
    }.items():
        outcome = judge_calls([CallTest((1,), None, raises=name)], replace(ENDED, answers=(raised,)))
        assert outcome.verdict is verdict, name
    outcome = judge_calls([CallTest((1,), raises="ValueError")], replace(ENDED, answers=(Returned(None),)))
    assert (outcome.verdict, outcome.results[0].expected) == (Verdict.FAILED, "raises ValueError")


def test_order_matters_unless_the_test_says_not() -> None:
    answers = replace(ENDED, answers=(Returned([3, 1, 2]),))
    assert judge_calls([CallTest((1,), [1, 2, 3])], answers).verdict is Verdict.FAILED
    assert judge_calls([CallTest((1,), [1, 2, 3], unordered=True)], answers).verdict is Verdict.PASSED


def test_texts_are_short_and_valid() -> None:
    assert len(clip("é" * 5000).encode()) <= 1024
    assert clip("a\ud800b").encode() == b"a?b"
    assert clip("short") == "short"
    assert show({"i": hex(1 << 100_000)}) == "<int of 100001 bits>"
    assert show([1, {"i": hex(1 << 100_000)}]) == "[1, <int of 100001 bits>]"
    assert len(show("x" * 10_000)) == 1024
