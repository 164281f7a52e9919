"""Components of a reward, measured: what reads is real, the sandbox answers as written."""

import asyncio
import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

from ratchet.common.v1 import verdict_pb2
from ratchet.sandbox.v1 import program_pb2 as pb
from ratchet_environments import Task
from ratchet_environments.executor import Executor
from ratchet_environments.own import Sample
from ratchet_kit.errors import InvalidArgument
from ratchet_kit.names import Location
from ratchet_problems import CallTest, Problem
from ratchet_quality.measuring import Measurer
from ratchet_rewards import Component, Grade, Measured, Reward

REFERENCE = "def f(xs):\n    return sum(xs)\n"
PROBLEM = Problem("p", "Sum xs.", (CallTest.of([[1, 2]], 3),), entry_point="f", references=(REFERENCE,))
BARE = Problem("bare", "Sum xs.", (CallTest.of([[1, 2]], 3),), entry_point="f")


class Sandbox:
    """The reference takes 100 ms, unless it fails; programs without tests print `scores`."""

    def __init__(self, scores: str = "[]", fails: bool = False) -> None:
        self._scores = scores
        self._fails = fails
        self.references = 0

    async def execute_batch(self, programs: Sequence[pb.Program]) -> Sequence[pb.ExecutionItem]:
        return [pb.ExecutionItem(index=i, execution=self._run(one)) for i, one in enumerate(programs)]

    def _run(self, program: pb.Program) -> pb.Execution:
        if not program.tests:
            return pb.Execution(verdict=verdict_pb2.VERDICT_PASSED, stdout=self._scores)
        self.references += 1
        done = pb.Execution(verdict=verdict_pb2.VERDICT_FAILED if self._fails else verdict_pb2.VERDICT_PASSED)
        done.cpu_time.FromMilliseconds(100)
        return done


def sample(source: str, verdict: str = "PASSED", passed: int = 4, milliseconds: int = 200) -> Sample:
    return Sample(source, source, Grade(verdict, passed, 4, cpu_time=timedelta(milliseconds=milliseconds)))


async def measured(
    sandbox: Sandbox, names: Sequence[str | Component], *samples: Sample, problem: Problem = PROBLEM
) -> list[Measured | None]:
    components = tuple(one if isinstance(one, Component) else Component(one) for one in names)
    async with Executor(sandbox) as executor, Measurer(Reward(components=components), executor) as measurer:
        return await measurer.measure(Task.of(problem), samples)


async def test_tests_are_what_the_grade_says() -> None:
    names = ("tests_passed", "tests_fraction")
    found = await measured(
        Sandbox(),
        names,
        sample("x"),
        sample("x", "FAILED", 3),
        sample("x", "TAMPERED", 3),
        sample("x", "TIME_LIMIT", 0),
    )
    assert [one and tuple(one.values.values()) for one in found] == [(1, 1), (0, 0.75), (0, 0), (0, 0)]
    assert [one and (one.passed, one.tampered) for one in found] == [
        (True, False), (False, False), (False, True), (False, False),
    ]  # fmt: skip


async def test_programs_are_read_side_by_side_and_in_order() -> None:
    sources = [REFERENCE, "import os, sys\n", "no Python (", "x = 1\n" * 40]
    names = ("style", "similarity", Component("length", parameters={"tokens": 60.0}))
    found = await measured(Sandbox(), names, *(sample(source) for source in sources))
    values = [dict(one.values) for one in found if one]
    assert values[0] == {"style": 1.0, "similarity": 1.0, "length": 1.0}
    assert values[1]["style"] == 0.0
    assert values[2] == {"style": 0.0, "similarity": 0.0, "length": 0.0}
    assert values[3]["length"] == 0.5


async def test_programs_in_another_language_are_not_read() -> None:
    problem = replace(PROBLEM, tests=(), language="go")
    found = await measured(Sandbox(), ("style", "length"), sample("package main"), problem=problem)
    assert [one and dict(one.values) for one in found] == [{"style": 0.0, "length": 0.0}]


async def test_efficiency_is_the_references_time_over_the_programs() -> None:
    sandbox = Sandbox()
    async with Executor(sandbox) as executor:
        async with Measurer(Reward(components=(Component("efficiency"),)), executor) as measurer:
            groups = [[sample("a"), sample("b", milliseconds=50)], [sample("c", "FAILED", 3)]]
            found = await asyncio.gather(*(measurer.measure(Task.of(PROBLEM), group) for group in groups))
    assert [one.values["efficiency"] for group in found for one in group if one] == [0.5, 1.0, 0.0]
    assert sandbox.references == 3  # once for the problem, the median of three runs


@pytest.mark.parametrize(("problem", "sandbox"), [(BARE, Sandbox(fails=True)), (PROBLEM, Sandbox(fails=True))])
async def test_without_a_reference_that_passes_nothing_is_measured(problem: Problem, sandbox: Sandbox) -> None:
    with pytest.raises(InvalidArgument, match="efficiency can't be measured"):
        await measured(sandbox, ["efficiency"], sample("a"), problem=problem)


async def test_a_score_of_ones_own_is_cut_to_its_limit_and_divided_by_it() -> None:
    loud = Component("loud", parameters={"limit": 2.0}, program="the program")
    found = await measured(Sandbox("[1, -8, null]"), ["tests_passed", loud], *[sample("x")] * 3)
    assert [one and (one.values["loud"], one.cut) for one in found] == [(0.5, False), (-1.0, True), None]


async def test_a_plugin_is_called_with_the_samples_and_counts_as_ones_own() -> None:
    given: list[dict[str, object]] = []

    def short(samples: list[dict[str, object]]) -> list[float | None]:
        given.extend(samples)
        return [0.5, 3.0, None]

    reward = Reward(components=(Component("tests_passed"), Component("plugin:short")))
    async with Executor(Sandbox()) as executor, Measurer(reward, executor, {"short": short}) as measurer:
        found = await measurer.measure(Task.of(PROBLEM), [sample("x")] * 3)
        assert [one and (one.values["plugin:short"], one.cut) for one in found] == [(0.5, False), (1.0, True), None]
        assert (given[0]["source"], given[0]["verdict"]) == ("x", "PASSED")
        with pytest.raises(InvalidArgument, match="the reward short must give a list of 1 numbers"):
            await measurer.measure(Task.of(PROBLEM), [sample("x")])


async def test_a_group_of_none_needs_nothing() -> None:
    assert await measured(Sandbox(), ["efficiency"]) == []


class Judge:
    def __init__(self, scores: Sequence[float]) -> None:
        self._scores = scores
        self.asked: list[tuple[str, list[str]]] = []

    async def scores(self, problem: Problem, answers: Sequence[str]) -> Sequence[float]:
        self.asked.append((problem.prompt, list(answers)))
        return self._scores


async def test_what_a_reward_model_gives_is_from_0_to_1_and_a_sample_that_it_cannot_score_has_no_number() -> None:
    component = Component("preference", parameters={"center": 1.0, "scale": 2.0}, model=Location("/models/judge"))
    judge = Judge([1.0, 3.0, -1e9, float("nan")])
    samples = [sample(text) for text in ("a", "b", "c", "d")]
    async with Executor(Sandbox()) as executor:
        async with Measurer(Reward(components=(component,)), executor, scorer=judge) as measurer:
            found = await measurer.measure(Task.of(PROBLEM), samples)
    assert judge.asked == [("Sum xs.", ["a", "b", "c", "d"])]
    assert [one and one.values["preference"] for one in found] == [
        0.5, pytest.approx(1 / (1 + math.exp(-1.0))), 0.0, None,
    ]  # fmt: skip


async def test_without_its_model_preference_is_refused() -> None:
    reward = Reward(components=(Component("preference", model=Location("/models/judge")),))
    async with Executor(Sandbox()) as executor:
        with pytest.raises(InvalidArgument, match="in the trainer's jobs only"):
            Measurer(reward, executor)


async def test_a_component_is_measured_for_problems_with_one_of_its_tags_alone() -> None:
    sandbox = Sandbox("[0.5]")
    loud = Component("loud", program="print([0.5])", tags=("maths", "words"))
    names = ("tests_passed", Component("efficiency", tags=("code",)), loud)
    [of_code] = await measured(sandbox, names, sample("x"), problem=replace(PROBLEM, tags=("code",)))
    assert of_code is not None
    assert of_code.values == {"tests_passed": 1, "efficiency": 0.5}
    before = sandbox.references
    [of_words] = await measured(sandbox, names, sample("x"), problem=replace(PROBLEM, tags=("words", "old")))
    assert of_words is not None
    assert (of_words.values, sandbox.references) == ({"tests_passed": 1, "loud": 0.5}, before)
