"""From tests to jobs, without a cage."""

from dataclasses import replace
from datetime import timedelta

from sandbox_service.domain import signs
from sandbox_service.domain.execution import Verdict
from sandbox_service.domain.grading import conclude
from sandbox_service.domain.jobs import (
    CallJob,
    CheckJob,
    CheckReport,
    CheckVerdict,
    End,
    Raised,
    Report,
    Returned,
    ScriptJob,
    Stage,
)
from sandbox_service.domain.plan import plan
from sandbox_service.domain.program import CallTest, CheckTest, Limits, Program, StdioTest

ENDED = Report(End.EXITED, 0, Stage.ENDED, timedelta(seconds=0.1), timedelta(seconds=0.2), "scripted")
TESTS = [CallTest((1,), 2), CallTest((2,), 3)]
RIGHT = replace(ENDED, answers=(Returned(2), Returned(3)))


def test_no_job_carries_what_is_expected() -> None:
    tests = (CallTest((1,), "SECRET"), StdioTest("in", "SECRET"), CallTest((2,), "SECRET"))
    jobs = [step.job(Limits()) for step in plan(Program("p", "source", "f", tests))]
    assert [type(job) for job in jobs] == [CallJob, ScriptJob, CallJob]
    assert "SECRET" not in repr(jobs)


def test_calls_in_a_row_share_a_job() -> None:
    tests = (*TESTS, CheckTest("a"), CheckTest("b"), StdioTest("", ""), *TESTS)
    jobs = [step.job(Limits()) for step in plan(Program("p", "source", "f", tests))]
    assert [type(job) for job in jobs] == [CallJob, CheckJob, CheckJob, ScriptJob, CallJob]


def test_the_output_limit_is_no_less_than_what_is_expected_takes() -> None:
    (step,) = plan(Program("p", "", "", (StdioTest("", "é" * 1000),)))
    assert [step.job(Limits(output_bytes=most)).limits.output_bytes for most in (100, 9000)] == [4000, 9000]


def test_of_a_held_out_test_only_whether_it_passed_is_told() -> None:
    secret = (CallTest(("SECRET",), "SECRET", held_out=True),)
    program = Program("p", "source", "f", (CallTest((1,), 2), *secret, CheckTest("SECRET", held_out=True)))
    visible, hidden, check = plan(program)
    assert (visible.held_out, hidden.held_out, check.held_out) == (False, True, True)
    good = replace(ENDED, answers=(Returned(2),), stdout="shown")
    raised = replace(ENDED, answers=(Raised("KeyError", "SECRET"),), stdout="SECRET", stderr="SECRET")
    asserted = replace(ENDED, tester=CheckReport(CheckVerdict.FAILED, "SECRET"), stdout="SECRET")
    wrong = replace(ENDED, answers=(Returned("SECRET?"),), stdout="SECRET")
    died = replace(ENDED, stage=Stage.LOADED, exit_status=1, error=Raised("SECRET", ""), stderr="SECRET")
    for report in (raised, wrong, died):
        execution = conclude(program, [visible.outcome(good), hidden.outcome(report)], [good, report])
        assert execution.verdict is not Verdict.PASSED
        assert "SECRET" not in repr(execution)
        assert [result.held_out for result in execution.results] == [False, True]
    execution = conclude(program, [visible.outcome(good), check.outcome(asserted)], [good, asserted])
    assert (execution.verdict, "SECRET" in repr(execution)) == (Verdict.FAILED, False)
    mine = replace(
        good, cpu_time=timedelta(seconds=3), exit_status=83, max_rss_bytes=83, stage=Stage.LOADED, answers=()
    )
    loud = replace(good, malformed="unasked bytes: SECRET")
    for report in (mine, loud, replace(mine, end=End.CPU), replace(mine, end=End.MEMORY), replace(mine, exit_status=0)):
        execution = conclude(program, [visible.outcome(good), hidden.outcome(report)], [good, report])
        assert execution.verdict is Verdict.FAILED
        assert (execution.exit_status, execution.signs, execution.detail) == (None, (), "in a held-out test")
        assert (execution.cpu_time, execution.wall_time) == (good.cpu_time, good.wall_time)
        assert execution.max_memory_bytes == good.max_rss_bytes
        assert "SECRET" not in repr(execution)
        assert len(execution.results) == 2
    wordy = replace(good, stage=Stage.STARTED, exit_status=1, error=Raised("SyntaxError", "line 3"), answers=())
    assert "line 3" in conclude(program, [hidden.outcome(wordy)], [wordy]).detail


def test_signs_of_cheating_are_told_whatever_the_verdict() -> None:
    (step,) = plan(Program("p", "source", "f", (CallTest((1,), 2), CallTest((2,), 3))))
    left = replace(ENDED, stage=Stage.LOADED)
    assert "status 0" in str(step.outcome(left).signs[0])
    assert step.outcome(left).verdict is Verdict.RUNTIME_ERROR
    assert step.outcome(RIGHT).signs == ()
    assert step.outcome(replace(left, exit_status=1)).signs == ()
    assert "own type named 'int'" in str(
        step.outcome(replace(ENDED, answers=(Returned({"o": ["int", "1"]}, "int"),))).signs[0]
    )
    assert step.outcome(replace(RIGHT, malformed="unasked")).signs == (signs.unasked_bytes("unasked"),)
    (script,) = plan(Program("p", "source", tests=(StdioTest("", ""),)))
    assert script.outcome(replace(ENDED, stage=Stage.COMPILED)).signs == ()
