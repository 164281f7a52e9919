"""Tests with hundreds of inputs: `from ratchet import answers`, in the real cage."""

from datetime import timedelta

import pytest

from sandbox_service.domain.execution import Execution, Verdict
from sandbox_service.domain.program import CheckTest, Limits, Program
from sandbox_service.domain.sandbox import Sandbox

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="module")]
LIMITS = Limits(cpu_time=timedelta(seconds=5), memory_bytes=512 << 20, output_bytes=64 << 10)
ALL = """
from ratchet import answers
INPUTS = [[x] for x in range(500)]
def check(candidate):
    for (x,), got in zip(INPUTS, answers(candidate, INPUTS), strict=True):
        assert got == x + 1, x
"""


async def run(sandbox: Sandbox, source: str, code: str, *, shared: bool = False) -> Execution:
    return await sandbox.execute(Program("p", source, "f", (CheckTest(code, False, shared=shared),), "", LIMITS))


@pytest.mark.parametrize("shared", [False, True], ids=["apart", "beside"])
@pytest.mark.parametrize(
    ("source", "verdict", "detail"),
    [
        ("f = lambda x: x + 1", Verdict.PASSED, ""),
        ("f = lambda x: x + (x != 300)", Verdict.FAILED, "300"),
        ("f = lambda x: x + 1 + (1 // (x - 77)) * 0", Verdict.RUNTIME_ERROR, "ZeroDivisionError"),
        ("import sys\nf = lambda x: x + 1 if x < 9 else sys.exit(0)", Verdict.RUNTIME_ERROR, "SystemExit"),
    ],
)
async def test_each_answer_is_judged_in_its_turn(
    sandbox: Sandbox, source: str, verdict: Verdict, detail: str, shared: bool
) -> None:
    execution = await run(sandbox, source, ALL, shared=shared)
    assert execution.verdict is verdict, execution.detail
    assert detail in execution.detail


@pytest.mark.parametrize("shared", [False, True], ids=["apart", "beside"])
async def test_a_call_has_cpu_time_of_its_own(sandbox: Sandbox, shared: bool) -> None:
    code = ALL.replace("answers(candidate, INPUTS)", "answers(candidate, INPUTS, [0.3] * 500)")
    stuck = "def f(x):\n    while x == 40:\n        pass\n    return x + 1\n"
    execution = await run(sandbox, stuck, code, shared=shared)
    assert execution.verdict is Verdict.TIME_LIMIT
    assert execution.cpu_time < timedelta(seconds=2)
    slow_in_all = "def f(x):\n    for _ in range(20_000):\n        pass\n    return x + 1\n"
    assert (await run(sandbox, slow_in_all, code, shared=shared)).verdict is Verdict.PASSED


async def test_answers_are_what_they_were_at_their_time(sandbox: Sandbox) -> None:
    source = "kept = []\ndef f(x):\n    kept.append(x)\n    x.append(9)\n    return kept\n"
    code = """
from ratchet import answers
INPUTS = [[[n]] for n in range(3)]
def check(candidate):
    found = list(answers(candidate, INPUTS))
    assert found == [[[0, 9]], [[0, 9], [1, 9]], [[0, 9], [1, 9], [2, 9]]]
    assert INPUTS == [[[0]], [[1]], [[2]]]
"""
    assert (await run(sandbox, source, code)).verdict is Verdict.PASSED


async def test_large_answers_come_in_parts(sandbox: Sandbox) -> None:
    code = """
from ratchet import answers
def check(candidate):
    for got in answers(candidate, [[3_000_000]] * 20):
        assert len(got) == 3_000_000
"""
    assert (await run(sandbox, "f = lambda n: 'x' * n", code)).verdict is Verdict.PASSED


@pytest.mark.parametrize(
    "source",
    [
        "class Yes:\n    def __eq__(self, other): return True\nf = lambda x: Yes()",
        "class Yes(int):\n    def __eq__(self, other): return True\nf = lambda x: Yes(0)",
        "import sys\ndef f(x):\n    sys.modules['series'] = None\n    return 7",
        "import __main__, gc\ndef f(x):\n    for one in gc.get_objects():\n        "
        "if type(one) is list and len(one) == x:\n            one.append(0)\n    return 0",
    ],
)
async def test_nothing_but_the_right_answer_passes(sandbox: Sandbox, source: str) -> None:
    assert (await run(sandbox, source, ALL)).verdict is not Verdict.PASSED
