"""References of a caller's problems are run at Create: which, for how long, and what is made of it."""

import asyncio
import json
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from ratchet.common.v1 import problem_pb2, verdict_pb2
from ratchet.sandbox.v1 import program_pb2 as pb
from ratchet_kit.errors import Unavailable
from trainer_service.adapters import trials
from trainer_service.adapters.trials import SandboxTrials
from trainer_service.domain.inputs.found import Trial
from trainer_service.domain.spec.spec import ProblemSetRef


class Node:
    """Passes a program that holds what the test's code asks for; "beside" passes where they share a process."""

    def __init__(self) -> None:
        self.programs: list[pb.Program] = []

    async def execute_batch(self, programs: Sequence[pb.Program]) -> Sequence[pb.ExecutionItem]:
        self.programs += programs
        return [pb.ExecutionItem(execution=self._execution(program)) for program in programs]

    def _execution(self, program: pb.Program) -> pb.Execution:
        check = program.tests[0].check
        wanted = check.code.partition("# ")[2]
        shared = check.grading == problem_pb2.CheckTest.GRADING_SHARED
        passed = shared if wanted == "beside" else wanted in program.source
        return pb.Execution(verdict=verdict_pb2.VERDICT_PASSED if passed else verdict_pb2.VERDICT_FAILED)


def problem(id: str, wanted: str = "1", **changes: Any) -> dict[str, Any]:
    check = {"check": f"assert f() # {wanted}"}
    return {
        "id": id,
        "prompt": "f",
        "entry_point": "f",
        "tests": [check],
        "references": ["def f(): return 1"],
    } | changes


@pytest.fixture
def ref(tmp_path: Path) -> Any:
    def make(*problems: dict[str, Any]) -> ProblemSetRef:
        (tmp_path / "mine.jsonl").write_text("\n".join(map(json.dumps, problems)))
        return ProblemSetRef(str(tmp_path / "mine.jsonl"), digest=f"sha256:{len(problems)}")

    return make


async def test_references_that_do_not_pass_are_named_with_the_reason(ref: Any) -> None:
    found = await SandboxTrials(Node()).of(
        ref(
            problem("good"),
            problem("wrong", "2"),
            problem("any", "def"),
            problem("beside", "beside"),
            problem("says so", tests=[{"check": "assert f() # beside", "shared": True}]),
            problem("no reference", "2", references=[]),
        )
    )
    assert found.tried == 5
    said = dict(fault.split(": ", 1) for fault in found.faults)
    assert set(said) == {"wrong", "any", "beside"}
    assert "its reference does not pass: FAILED" in said["wrong"]
    assert said["any"] == "its tests pass whatever the program gives"
    assert said["beside"].startswith("its reference passes only where its tests share the program's process")


async def test_a_set_is_tried_once_and_ours_never(ref: Any) -> None:
    node = Node()
    asked = SandboxTrials(node)
    first = await asked.of(mine := ref(problem("good")))
    assert node.programs
    ran = len(node.programs)
    assert await asked.of(mine) == first == Trial(1, 1)
    assert await asked.of(ProblemSetRef("composed/train")) == Trial()
    assert len(node.programs) == ran


async def test_of_many_some_are_tried_from_all_over(ref: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trials, "MOST", 3)
    found = await SandboxTrials(Node()).of(ref(*[problem(str(number), "2") for number in range(8)]))
    assert [fault.partition(":")[0] for fault in found.faults] == ["0", "3", "6"]


async def test_what_is_slow_is_taken_as_it_is(ref: Any) -> None:
    class Slow(Node):
        async def execute_batch(self, programs: Sequence[pb.Program]) -> Sequence[pb.ExecutionItem]:
            await asyncio.sleep(60)
            raise AssertionError

    assert await SandboxTrials(Slow(), timedelta(milliseconds=50)).of(ref(problem("slow"))) == Trial(1, 0)


async def test_without_a_sandbox_nothing_is_said_and_the_next_time_it_is_tried(ref: Any) -> None:
    class Returning(Node):
        is_away = True

        async def execute_batch(self, programs: Sequence[pb.Program]) -> Sequence[pb.ExecutionItem]:
            if self.is_away:
                raise Unavailable("away")
            return await super().execute_batch(programs)

    node, mine = Returning(), ref(problem("good"))
    asked = SandboxTrials(node)
    assert await asked.of(mine) == Trial(1, 0)
    node.is_away = False
    assert await asked.of(mine) == Trial(1, 1)
