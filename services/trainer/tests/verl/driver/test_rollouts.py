"""Groups of samples: what the platform failed is left out, what it lost is given back, what is foreign is refused."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

pytest.importorskip("verl", reason="needs the trainer environment")

from verl.utils import tensordict_utils as tu

from ratchet_benchmarks import Prompt
from ratchet_environments import Episode, Outcome, Task
from ratchet_kit.errors import DataLoss, FailedPrecondition, InvalidArgument, NotFound, RatchetError, Unavailable
from ratchet_policies import Completion, FinishReason, Generation, Sampling
from ratchet_problems import CallTest, Problem
from ratchet_quality.own import Sample
from ratchet_rewards import Component, Grade, Measured, Reward
from trainer_service.job.background import Background
from trainer_service.job.rewarding import Rewarding
from trainer_service.job.verl.driver.rollouts import Group, Prompted, Rollouts, Weights

pytestmark = pytest.mark.verl

LOUD = Reward(components=(Component("loud", program="one's own"),), combination="weighted_sum")
PROBLEMS = [Problem(id=f"p{i}", prompt="Return x.", entry_point="f", tests=(CallTest.of([i], i),)) for i in range(3)]


GREEDY = 9
"""What a policy answers at temperature 0."""


@dataclass
class Policy:
    """Answers with the tokens 1..n of a sample's index; raises `error` until the weights are pushed. Those in `broken`
    were broken off, those in `empty` have no token."""

    weights: str | None = "sha256:mine"
    error: RatchetError | None = None
    broken: set[int] = field(default_factory=set)
    empty: set[int] = field(default_factory=set)
    seeds: list[int | None] = field(default_factory=list)
    stops: set[tuple[str, ...]] = field(default_factory=set)
    temperatures: set[float | None] = field(default_factory=set)

    async def generate(self, prompt: Sequence[int], sampling: Sampling, policy_id: str) -> Generation:
        if self.error is not None:
            raise self.error
        self.seeds.append(sampling.seed)
        self.stops.add(sampling.stop)
        self.temperatures.add(sampling.temperature)
        if sampling.temperature == 0:
            return Generation((self._completion(GREEDY),), policy_id, len(prompt))
        return Generation(tuple(map(self._completion, range(sampling.n))), policy_id, len(prompt))

    def _completion(self, index: int) -> Completion:
        reason = FinishReason.ABORTED if index in self.broken else FinishReason.STOP
        tokens = () if index in self.empty else (index,)
        return Completion(index, "", reason, tokens, tuple(-float(token) for token in tokens))

    async def loaded_weights(self) -> str | None:
        return self.weights


@dataclass
class Environment:
    """Passes all answers; cannot judge those in `faulty`."""

    faulty: set[str] = field(default_factory=set)
    answers: list[str] = field(default_factory=list)

    async def start(self, task: Task) -> Episode:
        return Episode(task)

    async def step(self, episode: Episode, answer: str) -> Episode:
        self.answers.append(answer)
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
        fewest: int = 1,
        put: Prompt = Prompt(text="Return x.\n"),
        words: str = "",
        has_greedy: bool = False,
        weights: Weights | None = None,
    ) -> Rollouts:
        return Rollouts(
            has_greedy=has_greedy,
            fewest=fewest,
            background=background,
            policy=policy,
            environment=environment,
            weights=weights or Weights(push=push, policy_id="sha256:mine"),
            put=lambda problem: put,
            tokenize=lambda prompt: [7, 8],
            detokenize=lambda tokens: words or str(tokens[0]),
            problems=PROBLEMS,
            group_size=4,
            temperature=lambda step: 1.0 + step,
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


def test_a_completion_that_the_engine_broke_off_is_not_the_policys(build):
    rollouts = build(Policy(broken={1}, empty={2}), Environment())
    (group,) = rollouts.validate(PROBLEMS[:1], samples=4)
    assert [sample.earned.reward for sample in group.samples] == [0.0, 0.5]
    assert rollouts.last_fault == "p0: the engine broke a completion off after 0 tokens"


def test_samples_are_drawn_by_seeds_of_run_step_and_problem(build):
    drawn = []
    for step in (1, 1, 2):
        policy = Policy()
        build(policy, Environment()).validate(PROBLEMS, samples=2, step=step)
        drawn.append(policy.seeds)
    assert drawn[0] == drawn[1]
    assert len({*drawn[0], *drawn[2]}) == 6


def generate(rollouts: Rollouts, step: int, *uids: str) -> None:
    drawn = {"uid": np.array(uids, dtype=object), "index": np.array([2, 0][: len(uids)], dtype=object)}
    prompts = tu.get_tensordict(drawn)
    tu.assign_non_tensor_data(prompts, "global_steps", step)
    rollouts.generate_sequences(prompts)


def until(rollouts: Rollouts, holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 5
    while not holds() and time.monotonic() < end:
        rollouts.raise_failure()
        time.sleep(0.01)
    assert holds()


@pytest.fixture
def put(monkeypatch: pytest.MonkeyPatch) -> dict[str, tuple[Prompted, Group, str, bool]]:
    """What was put into the queue, by uid."""
    groups: dict[str, tuple[Prompted, Group, str, bool]] = {}

    def put(one: Prompted, group: Group, policy_id: str, complete: bool) -> None:
        groups[one.uid] = (one, group, policy_id, complete)

    monkeypatch.setattr("trainer_service.job.verl.driver.rollouts._put", put)
    return groups


def published(rollouts: Rollouts, put: dict[str, Any]) -> dict[str, tuple[int, bool]]:
    """Samples of each group of a step, and whether it was complete."""
    put.clear()
    generate(rollouts, 1, "b", "a")
    until(rollouts, lambda: len(put) == 2)
    return {uid: (len(group.samples), complete) for uid, (_, group, _, complete) in put.items()}


def test_a_lone_survivor_teaches_nothing(build, put):
    environment = Environment(faulty={"0", "1", "2"})
    assert published(build(Policy(), environment, fewest=2), put) == {"a": (0, False), "b": (0, False)}
    assert published(build(Policy(), environment), put) == {"a": (1, False), "b": (1, False)}


def test_a_greedy_completion_is_the_baseline_and_no_sample(build, put):
    policy = Policy()
    rollouts = build(policy, Environment(), limit=0.0, measurer=Measurer({"9": 0.25}), has_greedy=True)
    assert published(rollouts, put) == {"a": (4, True), "b": (4, True)}
    assert [rollouts.greedy_of(uid) for uid in ("a", "b", "pad")] == [0.25, 0.25, 0.0]
    assert rollouts.made(1).greedy_mean == 0.25
    assert policy.temperatures == {2.0, 0.0}  # of step 1, and the greedy one's
    assert rollouts.made(1).tally.take()["component_loud"] == (0 + 1 + 2 + 3) / 4


@pytest.mark.parametrize("options", [{"policy": Policy(broken={GREEDY})}, {"environment": Environment(faulty={"9"})}])
def test_without_its_baseline_a_group_teaches_nothing(options, build, put):
    rollouts = build(**{"policy": Policy(), "environment": Environment()} | options, has_greedy=True)
    assert published(rollouts, put) == {"a": (0, False), "b": (0, False)}


def test_a_lost_sample_leaves_the_others_their_baseline(build, put):
    rollouts = build(
        Policy(), Environment(faulty={"1"}), measurer=Measurer({"9": 0.25, "2": None}), limit=0.0, has_greedy=True
    )
    assert published(rollouts, put) == {"a": (2, False), "b": (2, False)}
    assert rollouts.greedy_of("a") == 0.25


def test_validations_are_sampled_as_at_the_end(build):
    policy = Policy()
    build(policy, Environment(), has_greedy=True).validate(PROBLEMS, samples=2, step=3)
    assert policy.temperatures == {10.0}  # of step 9, the last


def test_prompts_keep_the_order_in_which_they_were_drawn(build, put):
    rollouts = build(Policy(), Environment())
    assert published(rollouts, put) == {"a": (4, True), "b": (4, True)}
    assert [rollouts.place_of(uid) for uid in ("b", "a")] == [0, 1]


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


def test_a_text_ends_at_its_stop_and_what_was_sampled_of_it_is_learned(build):
    policy, environment = Policy(), Environment()
    rollouts = build(policy, environment, put=Prompt(text="f\n", stop=("\nprint(",)), words="7\nprint(1)")
    (group,) = rollouts.validate(PROBLEMS[:1], samples=2)
    assert policy.stops == {("\nprint(",)}
    assert environment.answers == ["7"] * 2
    assert [list(sample.tokens) for sample in group.samples] == [[0], [1]]


def test_what_is_made_ahead_is_of_the_weights_that_the_engine_had(build, put):
    weights = Weights(push=lambda: "", policy_id="sha256:mine")
    rollouts = build(Policy(), Environment(), weights=weights)
    generate(rollouts, 1, "a", "b")
    generate(rollouts, 2, "c")  # while step 1 is learned from
    rollouts.wait_drawn()
    until(rollouts, lambda: len(put) == 3)
    weights.policy_id, weights.step = "sha256:new", 1
    assert {uid: (one.step, one.version, policy_id) for uid, (one, _, policy_id, _) in put.items()} == {
        "a": (1, 0, "sha256:mine"),
        "b": (1, 0, "sha256:mine"),
        "c": (2, 0, "sha256:mine"),
    }
    generate(rollouts, 2, "d")  # more for the same step, as DAPO draws them
    until(rollouts, lambda: "d" in put)
    assert (put["d"][0].version, put["d"][2]) == (1, "sha256:new")


def test_steps_that_are_made_at_a_time_are_counted_apart(build, put):
    rollouts = build(Policy(), Environment(), limit=0.0, measurer=Measurer({"9": 0.25}), has_greedy=True)
    generate(rollouts, 1, "a", "b")
    generate(rollouts, 2, "c")
    until(rollouts, lambda: len(put) == 3)
    assert [rollouts.place_of(uid) for uid in ("a", "b", "c")] == [0, 1, 0]
    assert [rollouts.made(step).tally.take()["groups"] for step in (1, 2)] == [2, 1]
    rollouts.forget(1)
    assert [rollouts.greedy_of(uid) for uid in ("a", "c")] == [0.0, 0.25]
    assert [rollouts.made(step).greedy_mean for step in (1, 2)] == [0.0, 0.25]
    assert 0 < rollouts.made(2).seconds < 5


def test_new_weights_wait_for_what_is_with_the_engine(build, put):
    policy = Policy(weights="sha256:other", error=FailedPrecondition("the policy has weights sha256:other"))
    rollouts = build(policy, Environment())
    generate(rollouts, 1, "a")
    with pytest.raises(FailedPrecondition, match="sha256:other"):
        rollouts.wait_drawn()


def test_weights_that_a_lost_engine_did_not_have_are_not_learned_from(build):
    def push() -> str:
        policy.weights, policy.error = "sha256:newer", None
        return "sha256:newer"

    policy = Policy(weights=None, error=NotFound("no policy"))
    with pytest.raises(DataLoss, match="was lost with the weights sha256:mine, and was given sha256:newer"):
        build(policy, Environment(), push).validate(PROBLEMS[:1], samples=2)
