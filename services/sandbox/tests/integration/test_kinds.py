"""How tests of classes are judged, form by form: strictly, or only in the program's own process, and with the reason.

The forms are honest programs that ship (`honest/`), each file one of them; those of `only_shared.py` are the gaps.
"""

import pytest

from ratchet.common.v1 import problem_pb2
from ratchet.sandbox.v1 import program_pb2 as pb
from sandbox_service.convert import Bounds, programs_from_proto
from sandbox_service.domain.execution import Execution, Verdict
from sandbox_service.domain.sandbox import Sandbox
from sandbox_service.honest import borrowed, classes_of_values, nodes, only_shared, states
from sandbox_service.settings import Settings

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="module")]

STRICT = [case for module in (states, nodes, classes_of_values, borrowed) for case in module.CASES]


async def _graded(sandbox: Sandbox, case: pb.Program, grading: "problem_pb2.CheckTest.Grading.ValueType") -> Execution:
    program = pb.Program()
    program.CopyFrom(case)
    program.tests[0].check.grading = grading
    (read,) = programs_from_proto([program], Bounds(Settings().max_limits, Settings().max_source_bytes), 0)
    return await sandbox.execute(read)


@pytest.mark.parametrize("case", STRICT, ids=lambda case: case.id)
async def test_judged_strictly(sandbox: Sandbox, case: pb.Program) -> None:
    execution = await _graded(sandbox, case, problem_pb2.CheckTest.GRADING_STRICT)
    assert (execution.verdict, execution.forgeable) == (Verdict.PASSED, False), execution.detail


@pytest.mark.parametrize(
    ("test", "by_values"),
    [
        (problem_pb2.Test(call=problem_pb2.CallTest(args="[1]", expected="2")), True),
        (problem_pb2.Test(check=problem_pb2.CheckTest(code="assert f(1) == 2")), True),
        (problem_pb2.Test(check=problem_pb2.CheckTest(code="assert f(*[1]) == 2")), False),
        (problem_pb2.Test(call=problem_pb2.CallTest(args="[1]", expected="2"), held_out=True), False),
    ],
)
async def test_values_that_the_service_compares_are_told(
    sandbox: Sandbox, test: problem_pb2.Test, by_values: bool
) -> None:
    program = pb.Program(id="p", source="f = lambda x: x + 1", entry_point="f", tests=[test])
    (read,) = programs_from_proto([program], Bounds(Settings().max_limits, Settings().max_source_bytes), 0)
    (result,) = (await sandbox.execute(read)).results
    assert (result.passed, result.by_values) == (True, by_values)


@pytest.mark.parametrize("case", only_shared.CASES, ids=lambda case: case.id)
async def test_judged_only_in_its_own_process(sandbox: Sandbox, case: pb.Program) -> None:
    strict = await _graded(sandbox, case, problem_pb2.CheckTest.GRADING_STRICT)
    assert strict.verdict is not Verdict.PASSED
    assert "tests that need it are for the shared kind of grading" in strict.detail + strict.failure
    shared = await _graded(sandbox, case, problem_pb2.CheckTest.GRADING_SHARED)
    assert (shared.verdict, shared.forgeable) == (Verdict.PASSED, True), shared.detail
