"""Problems without tests, judged by a reward of one's own."""

import json
from collections.abc import Sequence

import pytest

from ratchet.common.v1 import verdict_pb2
from ratchet.sandbox.v1 import program_pb2 as pb
from ratchet_environments import Task, judge
from ratchet_environments.code import CodeEnvironment
from ratchet_environments.executor import Executor
from ratchet_environments.rewarded import RewardedEnvironment
from ratchet_kit.errors import InvalidArgument
from ratchet_problems import CallTest, Problem
from ratchet_rewards import Component

FACTS = Component("facts", program="the program")
ASKED = Problem("q", "Who wrote Faust?", (), references=("Goethe",))
TESTED = Problem("p", "Write f.", (CallTest("[1]", "2"),), entry_point="f")


class Sandbox:
    """A program of one's own prints this; tests fail."""

    def __init__(self, prints: str) -> None:
        self._prints = prints
        self.answers: list[str] = []

    async def execute_batch(self, programs: Sequence[pb.Program]) -> Sequence[pb.ExecutionItem]:
        return [pb.ExecutionItem(index=place, execution=self._run(one)) for place, one in enumerate(programs)]

    def _run(self, program: pb.Program) -> pb.Execution:
        if program.tests:
            return pb.Execution(verdict=verdict_pb2.VERDICT_FAILED, tests_total=1)
        self.answers += [sample["answer"] for sample in json.loads(program.stdin)["samples"]]
        return pb.Execution(verdict=verdict_pb2.VERDICT_PASSED, stdout=self._prints)


@pytest.mark.parametrize(
    ("prints", "verdict", "detail"),
    [("[0.5]", "PASSED", ""), ("[2]", "PASSED", ""), ("[0.25]", "FAILED", "scored 0.25, below 0.5")],
)
async def test_an_answer_that_scores_enough_has_passed(prints: str, verdict: str, detail: str) -> None:
    sandbox = Sandbox(prints)
    async with Executor(sandbox) as executor:
        environment = RewardedEnvironment(CodeEnvironment(executor), executor, FACTS, 0.5)
        grade = (await judge(environment, Task.of(ASKED), "Goethe did.")).grade
        assert (grade.verdict, grade.detail, sandbox.answers) == (verdict, detail, ["Goethe did."])
        tested = (await judge(environment, Task.of(TESTED), "def f(x): return 1")).grade
        assert (tested.verdict, tested.tests_total, len(sandbox.answers)) == ("FAILED", 1, 1)


async def test_no_number_is_no_verdict() -> None:
    async with Executor(Sandbox("[null]")) as executor:
        environment = RewardedEnvironment(CodeEnvironment(executor), executor, FACTS, 0.5)
        with pytest.raises(InvalidArgument, match="q: the reward facts gave an answer no number"):
            await judge(environment, Task.of(ASKED), "Goethe")
