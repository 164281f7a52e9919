"""A reward of one's own: what it is given, and what it may print."""

import json
import math
from collections.abc import Sequence
from datetime import timedelta

import pytest

from ratchet.common.v1 import verdict_pb2
from ratchet.sandbox.v1 import program_pb2 as pb
from ratchet_environments.executor import Executor
from ratchet_environments.own import Sample, read, scores
from ratchet_kit.errors import InvalidArgument
from ratchet_problems import CallTest, Problem
from ratchet_rewards import Component, Grade

PROBLEM = Problem("p", "Write f.", (CallTest("[1]", "2"),), entry_point="f", references=("def f(x): return 2\n",))
LOUD = Component("loud", program="the program")
SAMPLE = Sample("Sure: f", "f", Grade("PASSED", 1, 1, cpu_time=timedelta(milliseconds=20)))


class Sandbox:
    def __init__(self, execution: pb.Execution) -> None:
        self._execution = execution
        self.programs: list[pb.Program] = []

    async def execute_batch(self, programs: Sequence[pb.Program]) -> Sequence[pb.ExecutionItem]:
        self.programs += programs
        return [pb.ExecutionItem(execution=self._execution) for _ in programs]


async def test_it_is_given_the_samples_and_no_tests() -> None:
    sandbox = Sandbox(pb.Execution(verdict=verdict_pb2.VERDICT_PASSED, stdout="[0.5]\n"))
    async with Executor(sandbox) as executor:
        assert await scores(executor, LOUD, PROBLEM, [SAMPLE]) == [0.5]
    [program] = sandbox.programs
    assert (program.source, list(program.tests)) == ("the program", [])
    [sample] = json.loads(program.stdin)["samples"]
    assert sample == {
        "problem": {
            "id": "p",
            "prompt": "Write f.",
            "conversation": [],
            "entry_point": "f",
            "references": ["def f(x): return 2\n"],
            "answers": [],
            "language": "python",
            "difficulty": 1,
            "tags": [],
        },
        "answer": "Sure: f",
        "source": "f",
        "passed": True,
        "verdict": "PASSED",
        "tests_passed": 1,
        "tests_total": 1,
        "cpu_seconds": 0.02,
    }


async def test_one_that_fails_says_how() -> None:
    trace = "Traceback (most recent call last):\n  ...\nKeyError: 'answr'\n"
    failed = pb.Execution(verdict=verdict_pb2.VERDICT_RUNTIME_ERROR, stderr=trace)
    async with Executor(Sandbox(failed)) as executor:
        with pytest.raises(InvalidArgument, match="the reward loud ended in RUNTIME_ERROR: KeyError: 'answr'"):
            await scores(executor, LOUD, PROBLEM, [SAMPLE])


def test_it_prints_a_list_of_numbers() -> None:
    assert read("loud", "[1, -0.5]\n", 2) == [1.0, -0.5]
    assert [math.isnan(one) for one in read("loud", "[null, NaN, Infinity, 2]", 4)] == [True, True, True, False]


@pytest.mark.parametrize(
    "printed", ["", "1", "[1]", "[1, 2, 3]", '[1, "2"]', "[1, true]", '{"scores": [1, 2]}', "[" * 9999]
)
def test_whatever_else_it_prints_is_refused(printed: str) -> None:
    with pytest.raises(InvalidArgument, match="the reward loud"):
        read("loud", printed, 2)
