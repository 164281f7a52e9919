"""A completion against a row of a data set: prepared, run, judged, answered in SandboxFusion's words."""

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from ratchet.common.v1 import problem_pb2, verdict_pb2
from ratchet.sandbox.v1 import program_pb2 as pb
from ratchet_kit.errors import FieldViolation, InvalidArgument
from ratchet_problems.convert import test_to_proto
from sandbox_service.fusion import datasets
from sandbox_service.fusion.row_folder import RowFolder
from sandbox_service.fusion.rows import Case, Row, Work, lines_match
from sandbox_service.fusion.running import Runner, patience, response
from sandbox_service.fusion.shapes import EvalResult, EvalTestCase, SubmitRequest, TestConfig

_SHOWN = 1000  # characters of a case's input and output


async def submit(request: SubmitRequest, runner: Runner, rows: RowFolder) -> EvalResult:
    """Raises InvalidArgument, NotFound, FailedPrecondition, Unimplemented; Unavailable and ResourceExhausted: retry."""
    config = request.config
    read = datasets.reader(request.dataset, config.dataset_type)
    if config.custom_extract_logic is not None:
        field = "config.custom_extract_logic"
        raise InvalidArgument(f"{field} is not run here", [FieldViolation(field, "is not run here: leave it out")])
    row = _row(request, rows)
    work = await asyncio.to_thread(read, row, request.completion, datasets.options(read, config))
    if work.cases:
        tests = await _run_cases(work, config, runner)
    else:
        tests = [await _run_once(work, config, runner)]
    return EvalResult(
        id=request.id,
        accepted=all(test.passed for test in tests),
        extracted_code=work.extracted,
        full_code=work.source,
        test_code=work.test_code or None,
        tests=tests,
        extra={"forgeable": True} if work.forgeable else None,
    )


def _row(request: SubmitRequest, rows: RowFolder) -> Row:
    given = request.config.provided_data
    if isinstance(given, list):
        what = "must be one row, an object, and is a list"
        raise InvalidArgument(f"config.provided_data {what}", [FieldViolation("config.provided_data", what)])
    data: Mapping[str, Any] = given if given else rows.row(request.dataset, request.id)
    return Row(data, "config.provided_data")


async def _run_once(work: Work, config: TestConfig, runner: Runner) -> EvalTestCase:
    timeout = config.run_timeout or min(datasets.RUN_TIMEOUT, runner.most_cpu_time.total_seconds())
    execution = await runner.run(_program(work, runner.limits(timeout)), patience(0, timeout))
    if execution.HasField("failure"):
        raise InvalidArgument(f"the row's tests can judge no program: {execution.failure.message}")
    results = [
        {"passed": result.passed, "got": result.got, "expected": result.expected, "error": result.error}
        for result in execution.results
    ]
    # a pass is what the verdict says, which no exit status and no printed word can make
    passed = execution.verdict == verdict_pb2.VERDICT_PASSED
    return EvalTestCase(passed=passed, exec_info=response(execution), test_info={"results": results})


async def _run_cases(work: Work, config: TestConfig, runner: Runner) -> list[EvalTestCase]:
    """In order, as many at a time as there are lanes; the first that fails ends it, unless extra.run_all_cases."""
    done: list[EvalTestCase] = []
    step = max(1, runner.lanes)
    for start in range(0, len(work.cases), step):
        cases = work.cases[start : start + step]
        done += await asyncio.gather(*(_run_case(work, case, config, runner) for case in cases))
        failed = next((i for i, test in enumerate(done) if not test.passed), None)
        if failed is not None and not config.extra.get("run_all_cases"):
            return done[: failed + 1]
    return done


async def _run_case(work: Work, case: Case, config: TestConfig, runner: Runner) -> EvalTestCase:
    timeout = config.run_timeout or min(datasets.RUN_TIMEOUT, runner.most_cpu_time.total_seconds())
    program = _program(work, runner.limits(timeout), case.stdin)
    bound: timedelta = patience(config.compile_timeout or datasets.COMPILE_TIMEOUT, timeout)
    execution = await runner.run(program, bound, case.expected)
    passed = execution.verdict == verdict_pb2.VERDICT_PASSED and lines_match(execution.stdout, case.expected)
    row = case.row if config.extra.get("return_full_case") else _short(case.row)
    return EvalTestCase(passed=passed, exec_info=response(execution), test_info=row)


def _short(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _short(item) for name, item in value.items()}
    return value if len(value) <= _SHOWN else f"{value[:_SHOWN]}..."


def _program(work: Work, limits: problem_pb2.Limits, stdin: str = "") -> pb.Program:
    return pb.Program(
        source=work.source,
        entry_point=work.entry_point,
        tests=[test_to_proto(test) for test in work.tests],
        stdin=stdin,
        limits=limits,
        language=work.language,
    )
