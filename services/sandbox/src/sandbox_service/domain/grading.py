"""From what the cage saw to a verdict. Pure: plan.py has what it was given to do.

The verdict is that of the first test that didn't pass, in order; TAMPERED stands above all. A pass needs, for each
test, a value, a text or a tester's word that was compared here or written by a process without the program in it: no
exit status and no printed word is one.
"""

import re
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from ratchet_kit.text import clip as clip_to
from sandbox_service.cage.wire.codec import encode
from sandbox_service.domain import shown
from sandbox_service.domain.compare import DEFAULT, Tolerance, matches, matches_unordered, tokens_match
from sandbox_service.domain.ended_tests import Marked
from sandbox_service.domain.execution import Execution, TestResult, Verdict
from sandbox_service.domain.forms import Form
from sandbox_service.domain.jobs import Answer, CheckVerdict, End, Oversized, Raised, Report, Stage
from sandbox_service.domain.program import CallTest, CheckTest, Program, StdioTest
from sandbox_service.domain.signs import Sighting

_TEXT_BYTES = 1024
_OF_ERROR = re.compile(r"error|exception|assert|panic", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one job came to. `stop`: the jobs after it would come to the same, or have nothing left to run on."""

    verdict: Verdict
    results: tuple[TestResult, ...] = ()
    detail: str = ""
    stop: bool = False
    held_out: bool = False
    signs: tuple[Sighting, ...] = ()
    failure: str = ""


@dataclass(frozen=True, slots=True)
class _Trouble:
    """Why a program didn't come to its end."""

    verdict: Verdict
    detail: str


def judged_whole(report: Report, judge: Callable[[Report], Outcome | None]) -> tuple[Report, Outcome | None]:
    """The whole report, without its answers, and what came of it."""
    whole = report.read()
    return whole.without_answers(), judge(whole)


def overrun() -> Outcome:
    """Of a program that answered what cannot be judged within the time and the memory that there are for it."""
    return Outcome(Verdict.OUTPUT_LIMIT, (), "its answers took too long to judge, or too much memory", stop=True)


def conclude(program: Program, outcomes: Sequence[Outcome], reports: Sequence[Report]) -> Execution:
    """One execution out of all the jobs of a program, at least one.

    Times add up; the texts are those of the job that decided. Of jobs whose tests are held out there is neither.
    """
    visible = [report for report, outcome in zip(reports, outcomes, strict=True) if not outcome.held_out]
    decisive = next((outcome for outcome in outcomes if outcome.verdict is Verdict.TAMPERED), None)
    decisive = decisive or next(
        (outcome for outcome in outcomes if outcome.verdict is not Verdict.PASSED), outcomes[-1]
    )
    seen = reports[outcomes.index(decisive)]
    shown = replace(seen, stdout="", stderr="", output_cut=False, files=()) if decisive.held_out else seen
    most = program.limits.output_bytes
    stdout, stderr = shown.stdout[:most], shown.stderr[:most]
    no_process = seen.stage is Stage.STARTED and seen.compile_time > timedelta()
    return Execution(
        program_id=program.id,
        verdict=decisive.verdict,
        results=tuple(result for outcome in outcomes for result in outcome.results),
        tests_total=len(program.tests),
        stdout=stdout,
        stderr=stderr,
        output_cut=shown.output_cut or (len(stdout), len(stderr)) < (len(shown.stdout), len(shown.stderr)),
        cpu_time=sum((report.cpu_time for report in visible), timedelta()),
        wall_time=sum((report.wall_time for report in visible), timedelta()),
        layers=seen.layers,
        detail=clip(decisive.detail),
        runtime=seen.runtime,
        files=shown.files,
        compile_output=seen.compile_output,
        compile_time=seen.compile_time,
        exit_status=None if decisive.held_out or no_process else seen.exit_status,
        max_memory_bytes=max((report.max_rss_bytes for report in visible), default=0),
        level=min(report.level for report in reports),
        signs=signs_of(outcomes, held_out=False),
        failure=clip(decisive.failure),
        forgeable=any(isinstance(test, CheckTest) and test.shared for test in program.tests),
    )


def signs_of(outcomes: Sequence[Outcome], *, held_out: bool) -> tuple[Sighting, ...]:
    """Each once. Those that were shown in held-out tests are counted, and never sent."""
    return tuple(dict.fromkeys(sign for outcome in outcomes if outcome.held_out == held_out for sign in outcome.signs))


def judge_run(report: Report) -> Outcome:
    """A program without tests."""
    trouble = _script_trouble(report)
    return Outcome(trouble.verdict, (), trouble.detail) if trouble else Outcome(Verdict.PASSED)


def judge_after_program(tests: Marked, report: Report) -> Outcome:
    """Code in another language than Python, which stands after the program, passes where all of its tests wrote that
    they ended and the status is 0. Who asserted, program or test, nobody sees."""
    trouble = _script_trouble(report)
    missing = tests.missing(report.stderr)
    if trouble is None and not missing:
        return Outcome(Verdict.PASSED, (TestResult(True),))
    if trouble is None:
        trouble = _Trouble(Verdict.RUNTIME_ERROR, "the program ended with status 0 before its tests did")
    failed = report.end is End.EXITED and trouble.verdict is Verdict.RUNTIME_ERROR
    verdict = Verdict.FAILED if failed else trouble.verdict
    said = next((line.strip() for line in report.stderr.splitlines() if failed and _OF_ERROR.search(line)), "")
    detail = f"{trouble.detail}: {said}" if said else trouble.detail
    if failed and len(tests.marks) > 1:
        passed = len(tests.marks) - len(missing)
        detail = f"{passed} of {len(tests.marks)} tests passed, and not {', '.join(missing)}; {detail}"
    detail = clip(detail)
    return Outcome(verdict, (TestResult(False, error=detail),), detail, stop=_is_final(trouble))


def judge_stdio(test: StdioTest, report: Report) -> Outcome:
    got, expected = clip(report.stdout), clip(test.expected_stdout)
    if trouble := _script_trouble(report):
        result = TestResult(False, got, expected, clip(trouble.detail))
        return Outcome(trouble.verdict, (result,), trouble.detail, stop=_is_final(trouble))
    passed = tokens_match(report.stdout, test.expected_stdout, test.tolerance)
    return Outcome(Verdict.PASSED if passed else Verdict.FAILED, (TestResult(passed, got, expected),))


def judge_calls(tests: Sequence[CallTest], report: Report) -> Outcome:
    if report.malformed:
        return _tampered(report.malformed)
    if len(report.answers) > len(tests):
        return _tampered(f"{len(report.answers)} answers to {len(tests)} calls")
    results = [_judge_answer(test, answer) for test, answer in zip(tests, report.answers, strict=False)]
    verdicts = [_verdict_of_answer(result, answer) for result, answer in zip(results, report.answers, strict=True)]
    details = [result.error for result in results]
    trouble = _trouble(report) if len(results) < len(tests) else None
    if trouble:
        verdicts.append(trouble.verdict)
        details.append(trouble.detail)
        if report.stage is Stage.LOADED:
            in_progress = tests[len(results)]
            results.append(TestResult(False, "", _wanted(in_progress), clip(trouble.detail)))
    first = next((i for i, verdict in enumerate(verdicts) if verdict is not Verdict.PASSED), None)
    if first is None:
        return Outcome(Verdict.PASSED, tuple(results))
    return Outcome(verdicts[first], tuple(results), details[first], stop=trouble is not None)


def _judge_answer(test: CallTest, answer: Answer) -> TestResult:
    if isinstance(answer, Oversized):
        return TestResult(False, "", _wanted(test), f"answered with more than {answer.limit >> 10} KiB")
    if isinstance(answer, Raised):
        if test.raises and test.raises in (answer.type_name, *answer.kinds):
            return TestResult(True, clip(str(answer)), _wanted(test))
        return TestResult(False, "", _wanted(test), clip(str(answer)))
    if test.raises:
        return TestResult(False, show(answer.value), _wanted(test))
    same = matches_unordered if test.unordered else matches
    tolerance = DEFAULT if test.tolerance is None else Tolerance(test.tolerance, test.tolerance)
    return TestResult(same(answer.value, encode(test.expected), tolerance), show(answer.value), _wanted(test))


def _wanted(test: CallTest) -> str:
    return f"raises {test.raises}" if test.raises else show(encode(test.expected))


def _verdict_of_answer(result: TestResult, answer: Answer) -> Verdict:
    if isinstance(answer, Oversized):
        return Verdict.OUTPUT_LIMIT
    if isinstance(answer, Raised) and not result.passed:
        return Verdict.MEMORY_LIMIT if answer.type_name == "MemoryError" else Verdict.RUNTIME_ERROR
    return Verdict.PASSED if result.passed else Verdict.FAILED


def judge_check(report: Report) -> Outcome:
    if report.malformed:
        return _tampered(report.malformed)
    tester = report.tester
    if report.end is not End.EXITED or report.error or tester is None:
        trouble = _trouble(report)
    elif tester.verdict is CheckVerdict.PASSED:
        return Outcome(Verdict.PASSED, (TestResult(True),))
    elif tester.verdict is CheckVerdict.FAILED:
        trouble = _Trouble(Verdict.FAILED, tester.detail)
    elif tester.verdict is CheckVerdict.RAISED:
        memory = tester.detail.startswith("MemoryError")
        trouble = _Trouble(Verdict.MEMORY_LIMIT if memory else Verdict.RUNTIME_ERROR, tester.detail)
    elif tester.verdict is CheckVerdict.BROKEN:
        trouble = _Trouble(Verdict.RUNTIME_ERROR, f"the test code raised {tester.detail}")
    elif tester.verdict is CheckVerdict.UNABLE:
        return Outcome(Verdict.NONE, stop=True, failure=tester.detail)
    elif tester.verdict is CheckVerdict.SLOW:
        trouble = _Trouble(Verdict.TIME_LIMIT, tester.detail)
    elif tester.verdict is CheckVerdict.GARBLED:
        trouble = _Trouble(Verdict.TAMPERED, "unasked bytes on the channel to the tests")
    else:
        trouble = _trouble(report)
    result = TestResult(False, "", "", clip(trouble.detail))
    return Outcome(trouble.verdict, (result,), trouble.detail, stop=_is_final(trouble))


def _tampered(how: str) -> Outcome:
    return Outcome(Verdict.TAMPERED, (), how, stop=True)


def _is_final(trouble: _Trouble) -> bool:
    return trouble.verdict in (Verdict.COMPILE_ERROR, Verdict.TIME_LIMIT, Verdict.TAMPERED)


def _script_trouble(report: Report) -> _Trouble | None:
    if report.malformed:
        return _Trouble(Verdict.TAMPERED, report.malformed)
    if report.end is End.EXITED and report.exit_status == 0:
        return None
    return _trouble(report)


def _trouble(report: Report) -> _Trouble:
    """Of a job that didn't end as it should: which limit, which error, which signal."""
    if report.end is End.CPU:
        return _Trouble(Verdict.TIME_LIMIT, f"used {report.cpu_time.total_seconds():.2f} s of CPU time")
    if report.end is End.TESTS:
        return _Trouble(Verdict.TIME_LIMIT, "its tests used more CPU time than the program itself may")
    if report.end is End.MEMORY:
        return _Trouble(Verdict.MEMORY_LIMIT, "its processes and files took more memory than its limit")
    if report.end in (End.IDLE, End.WALL):
        clock, cpu = report.wall_time.total_seconds(), report.cpu_time.total_seconds()
        return _Trouble(Verdict.TIME_LIMIT, f"not done after {clock:.1f} s on the clock, {cpu:.2f} s of them computing")
    if report.end is End.OUTPUT:
        return _Trouble(Verdict.OUTPUT_LIMIT, "printed more than its limit")
    if report.end is End.RESULT:
        return _Trouble(Verdict.OUTPUT_LIMIT, "its answers together are more than the sandbox takes")
    if report.end is End.LANE:
        return _Trouble(Verdict.RUNTIME_ERROR, f"took down the lane that it ran in, each time: {report.error}")
    if report.stage is Stage.STARTED:
        reason = str(report.error) if report.error else f"the compiler {_how_it_ended(report.exit_status)}"
        return _Trouble(Verdict.COMPILE_ERROR, reason)
    if report.error:
        memory = report.error.type_name == "MemoryError"
        return _Trouble(Verdict.MEMORY_LIMIT if memory else Verdict.RUNTIME_ERROR, str(report.error))
    if report.exit_status == -signal.SIGXCPU:
        return _Trouble(Verdict.TIME_LIMIT, "used up its CPU time")
    if report.exit_status == -signal.SIGXFSZ:
        return _Trouble(Verdict.OUTPUT_LIMIT, "wrote more to a file than a file may hold")
    return _Trouble(Verdict.RUNTIME_ERROR, f"the program {_how_it_ended(report.exit_status)} before it was done")


def _how_it_ended(status: int) -> str:
    if status >= 0:
        return f"exited with status {status}"
    try:
        return f"was killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"was killed by signal {-status}"


def show(form: Form) -> str:
    """A value for people."""
    return clip(shown.text(form, _TEXT_BYTES))


def clip(text: str) -> str:
    """At most 1 KiB of valid UTF-8."""
    return clip_to(text, _TEXT_BYTES)
