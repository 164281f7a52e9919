"""What crosses between a program and its tests: values, objects, functions, exceptions, and what may be done with them.

crossing.txt holds programs, each with test code and the verdict that it gets. RUNTIME_ERROR: that can't be done from
another process, or would rest on the program's word alone.
"""

import ast
from datetime import timedelta
from pathlib import Path

import pytest

from sandbox_service.adapters.lanes.pool import LanePool
from sandbox_service.domain.program import CheckTest, Limits, Program
from sandbox_service.domain.sandbox import Sandbox

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="module")]
LIMITS = Limits(cpu_time=timedelta(seconds=2), memory_bytes=512 << 20)


def _cases() -> list[tuple[str, str, str]]:
    found = []
    for block in Path(__file__).with_name("crossing.txt").read_text().split("=== program\n")[1:]:
        source, *tests = block.split("--- ")
        for test in tests:
            verdict, _, code = test.partition("\n")
            found.append((source, code, verdict))
    return found


def _declared(source: str) -> tuple[str, ...]:
    definitions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    assigned = [
        target.id
        for node in ast.parse(source).body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    ]
    return (*assigned, *(node.name for node in ast.parse(source).body if isinstance(node, definitions)))


@pytest.mark.parametrize(("source", "code", "verdict"), _cases(), ids=[str(number) for number in range(len(_cases()))])
async def test_what_crosses(sandbox: Sandbox, executor: LanePool, source: str, code: str, verdict: str) -> None:
    if "numpy" in source and "numpy" not in {runtime.name for runtime in executor.capabilities.runtimes}:
        pytest.skip("the runtime numpy isn't built here: scripts/setup.sh sandbox-numpy")
    test = CheckTest(code, names=_declared(source))
    execution = await sandbox.execute(Program("p", source, "f", (test,), limits=LIMITS))
    assert execution.verdict.name == verdict, (source, code, execution)
