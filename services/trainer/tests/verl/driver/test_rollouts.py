"""Groups of samples: what the platform failed is left out, what it lost is given back, what is foreign is refused."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import pytest

pytest.importorskip("verl", reason="needs the trainer environment")

from ratchet_environments import Episode, Outcome, Task
from ratchet_kit.errors import FailedPrecondition, InvalidArgument, NotFound, RatchetError, Unavailable
from ratchet_policies import Completion, Generation, Sampling
from ratchet_problems import CallTest, Problem
from ratchet_quality.own import Sample
from ratchet_rewards import Component, Grade, Measured, Reward
from trainer_service.job.background import Background
from trainer_service.job.rewarding import Rewarding
from trainer_service.job.verl.driver.rollouts import Rollouts, Weights

pytestmark = pytest.mark.verl

LOUD = Reward(components=(Component("loud", program="one's own"),), combination="weighted_sum")
PROBLEMS = [Problem(id=f"p{i}", prompt="Return x.", entry_point="f", tests=(CallTest.of([i], i),)) for i in range(3)]


@dataclass
class Policy:
    """Answers with the tokens 1..n of a sample's index; raises `error` until the weights are pushed."""

    weights: str | None = "sha256:mine"
    error: RatchetError | None = None

    async def generate(self, prompt: Sequence[int], sampling: Sampling, policy_id: str) -> Generation:
        if self.error is not None:
            raise self.error
        completions = [Completion(i, "", token_ids=(i,), log_probs=(-float(i),)) for i in range(sampling.n)]
        return Generation(tuple(completions), policy_id, len(prompt))

    async def loaded_weights(self) -> str | None:
        return self.weights


@dataclass
class Environment:
    """Passes all answers; cannot judge those in `faulty`."""

    faulty: set[str] = field(default_factory=set)

    async def start(self, task: Task) -> Episode:
        return Episode(task)

    async def step(self, episode: Episode, answer: str) -> Episode:
        if answer in self.faulty:
            raise Unavailable("the lane died")
        return episode.end(answer, Outcome(Grade("PASSED", 1, 1)))


@dataclass
class Measurer:
    """An answer's value is its token, or that of `values`; None is no number."""

    values: dict[str, float | None] = field(default_factory=dict)
    error: RatchetError | None = None

    async def measure(self, task: Task, samples: Sequence[Sample]) -> list[Measured | None]:
        if self.error is not None:
            raise self.error
        found = [self.values.get(sample.answer, float(sample.answer)) for sample in samples]
        return [None if value is None else Measured({"loud": value}, passed=True) for value in found]


@pytest.fixture
def background() -> Iterator[Background]:
    with Background() as running:
        yield running


@pytest.fixture
def build(background: Background) -> Callable[..., Rollouts]:
    def rollouts(
        policy: Policy,
        environment: Environment,
        push: Callable[[], str] = lambda: "",
        measurer: Measurer | None = None,
        limit: float = 0.5,
    ) -> Rollouts:
        return Rollouts(
            background=background,
            policy=policy,
            environment=environment,
            weights=Weights(push=push, policy_id="sha256:mine"),
            tokenize=lambda problem: [7, 8],
            detokenize=lambda tokens: str(tokens[0]),
            problems=PROBLEMS,
            group_size=4,
            temperature=1.0,
            max_tokens=16,
            rewarding=Rewarding(LOUD, measurer or Measurer(), limit),
            last_step=9,
        )

    return rollouts


def test_a_group_has_a_reward_for_each_sample(build):
    (group,) = build(Policy(), Environment()).validate(PROBLEMS[:1], samples=3)
    assert list(group.prompt) == [7, 8]
    assert [(list(sample.tokens), sample.earned.reward) for sample in group.samples] == [
        ([0], 0.0),
        ([1], 0.5),
        ([2], 0.5),
    ]
    assert [sample.earned.score for sample in group.samples] == [0.0, 1.0, 1.0]


def test_a_sample_that_the_platform_failed_is_not_a_sample_of_reward_0(build):
    rollouts = build(Policy(), Environment(faulty={"1"}), measurer=Measurer({"2": -1.0}), limit=0.0)
    (group,) = rollouts.validate(PROBLEMS[:1], samples=3)
    assert [sample.earned.reward for sample in group.samples] == [0.0, -1.0]
    assert rollouts.last_fault == "the lane died"


def test_a_reward_beyond_the_limit_is_cut_and_one_that_is_no_number_is_none(build):
    rollouts = build(Policy(), Environment(), measurer=Measurer({"1": None, "2": -7.0}))
    (group,) = rollouts.validate(PROBLEMS[:1], samples=4)
    earned = [sample.earned for sample in group.samples]
    assert [(one.reward, one.cut) for one in earned] == [(0.0, False), (-0.5, True), (0.5, True)]
    assert {sample.verdict for sample in group.samples} == {"PASSED"}
    assert rollouts.last_fault == "p0: a reward must be a finite number"


def test_a_group_that_cannot_be_measured_is_lost_and_the_run_goes_on(build):
    rollouts = build(
        Policy(), Environment(), measurer=Measurer(error=InvalidArgument("the reward loud printed no JSON"))
    )
    (group,) = rollouts.validate(PROBLEMS[:1], samples=2)
    assert group.samples == []
    assert rollouts.last_fault == "the reward loud printed no JSON"


def test_a_lost_policy_gets_its_weights_back_once_for_all_groups(build):
    policy, pushes = Policy(weights=None, error=NotFound("no policy")), []

    def push() -> str:
        pushes.append(1)
        policy.weights, policy.error = "sha256:mine", None
        return "sha256:mine"

    groups = build(policy, Environment(), push).validate(PROBLEMS, samples=2)
    assert [len(group.samples) for group in groups] == [2, 2, 2]
    assert len(pushes) == 1


def test_foreign_weights_are_not_trained_on(build):
    policy = Policy(weights="sha256:other", error=FailedPrecondition("the policy has weights sha256:other"))
    with pytest.raises(FailedPrecondition, match="sha256:other"):
        build(policy, Environment()).validate(PROBLEMS, samples=2)
