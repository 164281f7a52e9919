"""From a program's tests to the jobs that they take. Pure: grading.py has what becomes of the reports."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby

from ratchet_problems.languages import PYTHON
from sandbox_service.domain import asserted, signs
from sandbox_service.domain.ended_tests import Marked, marked
from sandbox_service.domain.execution import TestResult, Verdict
from sandbox_service.domain.grading import (
    Outcome,
    judge_after_program,
    judge_calls,
    judge_check,
    judge_run,
    judge_stdio,
)
from sandbox_service.domain.jobs import CallJob, CheckJob, CommandJob, Job, Report, ScriptJob, Setting, Stage
from sandbox_service.domain.program import (
    MAX_OUTPUT_BYTES,
    CallTest,
    CheckTest,
    Limits,
    Program,
    StdioTest,
    Test,
    output_for,
)


@dataclass(frozen=True, slots=True)
class Step:
    """One job and how to judge it. `job` takes the limits that are left when its turn comes."""

    job: Callable[[Limits], Job]
    judge: Callable[[Report], Outcome | None]
    """None: what came can't be judged, and step `instead` is to be taken."""
    held_out: bool = False
    tests: int = 1
    size: int = 0
    """How much is compared with what the program says, about, in characters."""
    instead: "Step | None" = None
    marked: Marked | None = None
    """The marks that its job writes, which nobody is shown."""

    def shown(self, report: Report) -> Report:
        return replace(report, stderr=self.marked.without_marks(report.stderr)) if self.marked else report

    def outcome(self, report: Report) -> Outcome | None:
        return self.concluded(self.judge(report), report)

    def concluded(self, outcome: Outcome | None, report: Report) -> Outcome | None:
        """What the caller is shown of what `judge` found."""
        if outcome is None:
            return None
        if outcome.verdict is Verdict.TAMPERED:
            outcome = replace(outcome, signs=(signs.unasked_bytes(outcome.detail), *outcome.signs))
        return self._hidden(outcome, report) if self.held_out else outcome

    def _hidden(self, outcome: Outcome, report: Report) -> Outcome:
        """Of held-out tests only which passed: how a program fails could reveal what it was asked.

        What went wrong before the program saw any is shown.
        """
        early = outcome.verdict is Verdict.COMPILE_ERROR and report.stage is Stage.STARTED
        shown = early or outcome.verdict in (Verdict.PASSED, Verdict.NONE)
        results = tuple(TestResult(result.passed, held_out=True) for result in outcome.results)
        return replace(
            outcome,
            verdict=outcome.verdict if shown else Verdict.FAILED,
            results=results + self.unreached().results[len(results) :],
            detail=outcome.detail if early else "in a held-out test" if outcome.verdict is not Verdict.PASSED else "",
            held_out=True,
            failure="a held-out test can judge no program" if outcome.failure else "",
        )

    def unreached(self) -> Outcome:
        """For held-out tests after one that ended the program: as if they had failed, so that the caller cannot see
        which one it was."""
        results = (TestResult(False, held_out=True),) * self.tests
        return Outcome(Verdict.FAILED, results, "in a held-out test", held_out=True)


def plan(program: Program) -> list[Step]:
    """Call tests that follow one another share a process, held-out ones another; every other test has its own."""
    if not program.tests:
        return [Step(lambda limits: _script(program, program.stdin, limits), judge_run)]
    steps: list[Step] = []
    for (kind, held_out), group in groupby(program.tests, key=lambda test: (type(test), test.held_out)):
        tests = tuple(group)
        if kind is CallTest:
            steps.append(_call_step(program, [test for test in tests if isinstance(test, CallTest)], held_out))
        else:
            steps += [_single_step(program, test) for test in tests]
    return steps


def _call_step(program: Program, tests: Sequence[CallTest], held_out: bool) -> Step:
    calls, size = tuple(test.args for test in tests), sum(test.size for test in tests)
    return Step(
        lambda limits: CallJob(program.source, program.entry_point, calls, limits, _setting(program), size),
        partial(_judge_calls, tests),
        held_out,
        len(tests),
        size,
    )


def _single_step(program: Program, test: Test) -> Step:
    if isinstance(test, StdioTest):
        return Step(
            lambda limits: _script(program, test.stdin, _with_room(limits, test.expected_stdout)),
            partial(_judge_stdio, test),
            test.held_out,
            size=len(test.expected_stdout),
        )
    assert isinstance(test, CheckTest)
    return _asserted_step(program, test) if test.asserted else _check_step(program, test)


def _asserted_step(program: Program, test: CheckTest) -> Step:
    """In one process, as call tests, where that shows what the test code would have said."""
    calls = tuple(one.args for one in test.asserted)
    return Step(
        lambda limits: CallJob(program.source, program.entry_point, calls, limits, _setting(program), plain=True),
        partial(_judge_asserted, test),
        test.held_out,
        instead=_check_step(program, test),
    )


def _check_step(program: Program, test: CheckTest) -> Step:
    if program.language != PYTHON:
        return _after_program_step(program, test)
    return Step(
        lambda limits: CheckJob(
            program.source,
            program.entry_point,
            test.code,
            not test.calls_check,
            limits,
            _setting(program),
            test.names,
            test.modules,
            test.shared,
            test.unknown,
        ),
        partial(_judge_check, test.shared),
        test.held_out,
    )


def _after_program_step(program: Program, test: CheckTest) -> Step:
    tests = marked(program.language, program.source, test.code)
    assert tests, "settle refuses others"
    return Step(
        lambda limits: CommandJob(
            tests.source, program.language, "", _with_room_for_marks(limits), _setting(program), tests.runner
        ),
        partial(_judge_after_program, tests),
        test.held_out,
        marked=tests,
    )


def _labelled(outcome: Outcome, *, forgeable: bool = False, by_values: bool = False) -> Outcome:
    labelled = (replace(result, forgeable=forgeable, by_values=by_values) for result in outcome.results)
    return replace(outcome, results=tuple(labelled))


def _judge_stdio(test: StdioTest, report: Report) -> Outcome:
    return _labelled(judge_stdio(test, report), by_values=True)


def _judge_calls(tests: Sequence[CallTest], report: Report) -> Outcome:
    return _labelled(replace(judge_calls(tests, report), signs=signs.of(report)), by_values=True)


def _judge_asserted(test: CheckTest, report: Report) -> Outcome | None:
    seen = asserted.as_tested(test.asserted, report)
    return None if seen is None else _labelled(_judge_check(False, seen), by_values=True)


def _judge_check(shared: bool, report: Report) -> Outcome:
    return _labelled(replace(judge_check(report), signs=signs.of(report)), forgeable=shared)


def _judge_after_program(tests: Marked, report: Report) -> Outcome:
    return _labelled(judge_after_program(tests, report), forgeable=True)


def _script(program: Program, stdin: str, limits: Limits) -> ScriptJob | CommandJob:
    if program.language == PYTHON:
        return ScriptJob(program.source, stdin, limits, _setting(program))
    return CommandJob(program.source, program.language, stdin, limits, _setting(program))


def _with_room_for_marks(limits: Limits) -> Limits:
    """They come after all that the program says."""
    return replace(limits, output_bytes=MAX_OUTPUT_BYTES)


def _with_room(limits: Limits, expected: str) -> Limits:
    return replace(limits, output_bytes=max(limits.output_bytes, output_for(expected)))


def _setting(program: Program) -> Setting:
    return Setting(program.runtime or "python", program.processes, program.files, program.fetch_files)
