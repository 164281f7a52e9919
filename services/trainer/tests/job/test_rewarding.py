"""What the completions of a prompt earn, with a measurer that answers as written."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from ratchet_environments import Task
from ratchet_environments.own import Sample
from ratchet_problems import CallTest, Problem
from ratchet_rewards import Component, Grade, Measured, Point, Reward
from trainer_service.domain.spec.hyperparameters import Hyperparameters
from trainer_service.job.reward.rewarding import Earned, Graded, Overlong, Rewarding

PROBLEM = Problem("p", "Write f.", (CallTest("[1]", "2"),), entry_point="f")
PASSED = Grade("PASSED", 1, 1)
REWARD = Reward(
    components=(Component("tests_passed", schedule=(Point(1, 1.0), Point(3, 0.0))), Component("style")),
    combination="weighted_sum",
)


class Measurer:
    def __init__(self, *measured: Measured | None) -> None:
        self._measured = list(measured)
        self.samples: Sequence[Sample] = ()

    async def measure(self, task: Task, samples: Sequence[Sample]) -> list[Measured | None]:
        self.samples = samples
        return self._measured


def seen(passed: float, style: float, **options: bool) -> Measured:
    return Measured({"tests_passed": passed, "style": style}, passed=passed == 1.0, **options)


async def test_each_completion_earns_by_the_weights_of_the_step() -> None:
    measurer = Measurer(seen(1, 0.5), None, seen(0, 1))
    rewarding = Rewarding(REWARD, measurer)
    graded = [Graded(f"```python\ndef f(x): return {i}\n```", PASSED) for i in range(3)]
    first = await rewarding.of_group(PROBLEM, graded, step=1)
    assert [one and one.reward for one in first] == [0.75, None, 0.5]
    last = await rewarding.of_group(PROBLEM, graded, step=3)
    assert [one and one.reward for one in last] == [0.5, None, 1.0]
    assert [sample.source for sample in measurer.samples] == [f"def f(x): return {i}\n" for i in range(3)]
    assert rewarding.weights(2) == {"weight_tests_passed": 0.5}


async def test_what_does_not_count_for_a_problem_has_no_weight_there() -> None:
    reward = replace(REWARD, components=(Component("tests_passed", 1.0), Component("style", 3.0, tags=("code",))))
    [maths] = await Rewarding(reward, Measurer(Measured({"tests_passed": 1.0}, passed=True))).of_group(
        replace(PROBLEM, tags=("maths",)), [Graded("4", PASSED)], step=1
    )
    assert maths is not None
    assert (maths.reward, maths.score, dict(maths.values)) == (1.0, 1.0, {"tests_passed": 1.0})
    [code] = await Rewarding(reward, Measurer(seen(1, 0))).of_group(
        replace(PROBLEM, tags=("code", "old")), [Graded("x", PASSED)], step=1
    )
    assert code is not None
    assert code.reward == 0.25


async def test_a_reward_is_cut_to_the_runs_limit_and_a_score_to_its_own() -> None:
    measurer = Measurer(seen(1, 1), seen(0, 0, cut=True), seen(0, 0, tampered=True))
    earned = await Rewarding(REWARD, measurer, limit=0.6).of_group(PROBLEM, [Graded("", PASSED)] * 3, step=1)
    assert [(one.reward, one.score, one.cut, one.vetoed) for one in earned if one] == [
        (0.6, 1.0, True, False),
        (0.0, 0.0, True, False),
        (0.0, 0.0, False, True),
    ]


@pytest.mark.parametrize(
    ("tokens", "punishment"),
    [(0, 0.0), (80, 0.0), (81, 0.025), (90, 0.25), (100, 0.5)],  # the buffer is the last 20 of 100
)
async def test_a_long_completion_is_punished(tokens: int, punishment: float) -> None:
    """Equation 13 of arXiv:2503.14476, halved: ((L_max - L_cache) - |y|) / L_cache within the buffer."""
    hyper = Hyperparameters(overlong_penalty=0.5, overlong_buffer=0.2, max_response_tokens=100)
    rewarding = Rewarding(REWARD, Measurer(seen(1, 1)), overlong=Overlong.of(hyper))
    [earned] = await rewarding.of_group(PROBLEM, [Graded("", PASSED, tokens)], step=1)
    assert earned is not None
    assert earned.reward == pytest.approx(1 - punishment)
    assert (earned.before_length, earned.score) == (1, 1)


def test_nothing_is_punished_unless_the_run_says_so() -> None:
    assert Overlong.of(Hyperparameters(overlong_penalty=0.0, overlong_buffer=0.2, max_response_tokens=100)) is None
    assert Overlong.of(Hyperparameters(max_response_tokens=100)) is None  # a run of old


async def test_values_are_shown_as_measured() -> None:
    values = {"tests_passed": 0.0, "style": 1.0}
    reward = Reward(components=(Component("tests_passed"), Component("style", passing_only=True)))
    [earned] = await Rewarding(reward, Measurer(Measured(values, passed=False))).of_group(
        PROBLEM, [Graded("", PASSED)], step=1
    )
    assert earned == Earned(0.0, 0.0, 0.0, values, cut=False, vetoed=False)


async def test_what_the_measurer_raises_goes_on() -> None:
    class Broken(Measurer):
        async def measure(self, task: Task, samples: Sequence[Sample]) -> list[Measured | None]:
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        await Rewarding(REWARD, Broken()).of_group(PROBLEM, [Graded("", PASSED)], step=1)
