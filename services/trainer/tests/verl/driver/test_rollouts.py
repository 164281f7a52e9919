"""Groups of samples: what the platform failed is left out, what it lost is given back, what is foreign is refused."""

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

pytest.importorskip("verl", reason="needs the trainer environment")

from tensordict import TensorDict
from verl.utils import tensordict_utils as tu

from ratchet_benchmarks import Prompt
from ratchet_environments import Episode, Outcome, Task
from ratchet_kit.errors import DataLoss, FailedPrecondition, InvalidArgument, NotFound, RatchetError, Unavailable
from ratchet_policies import Completion, FinishReason, Generation, Sampling
from ratchet_problems import CallTest, Message, Problem
from ratchet_quality.own import Sample
from ratchet_rewards import Component, Grade, Measured, Reward
from trainer_service.job.background import Background
from trainer_service.job.curriculum import Evidence
from trainer_service.job.rewarding import Rewarding
from trainer_service.job.verl.driver.rollouts import Group, Prompted, Rollouts, Weights, _fields

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
    later_seeds: list[int | None] = field(default_factory=list)
    rooms: list[int | None] = field(default_factory=list)

    async def generate(self, prompt: Sequence[int], sampling: Sampling, policy_id: str) -> Generation:
        if self.error is not None:
            raise self.error
        if len(prompt) > 2:
            return self.later(prompt, sampling)
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

    def later(self, prompt: Sequence[int], sampling: Sampling) -> Generation:
        """An answer after a reply: its tokens are 10 more than the one before it."""
        self.later_seeds.append(sampling.seed)
        self.rooms.append(sampling.max_tokens)
        tokens = (prompt[-3] + 10,)
        reason = FinishReason.ABORTED if tokens[0] in self.broken else FinishReason.STOP
        return Generation((Completion(0, "", reason, tokens, (-float(tokens[0]),)),), "sha256:mine", len(prompt))

    async def loaded_weights(self) -> str | None:
        return self.weights


@dataclass
class Environment:
    """Passes all answers, each in the last of `turns`; cannot judge those in `faulty`."""

    faulty: set[str] = field(default_factory=set)
    turns: int = 1
    answers: list[str] = field(default_factory=list)

    async def start(self, task: Task) -> Episode:
        return Episode(task)

    async def step(self, episode: Episode, answer: str) -> Episode:
        self.answers.append(answer)
        if answer in self.faulty:
            raise Unavailable("the lane died")
        if len(episode.turns) + 1 < self.turns:
            return episode.go_on(answer, Grade("FAILED", 0, 1), Message("user", "again"))
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
        has_steps: bool = False,
        reply: Sequence[int] = (5, 6),
        weights: Weights | None = None,
    ) -> Rollouts:
        return Rollouts(
            has_greedy=has_greedy,
            has_steps=has_steps,
            has_turns=True,
            fewest=fewest,
            background=background,
            policy=policy,
            environment=environment,
            weights=weights or Weights(push=push, policy_id="sha256:mine"),
            put=lambda problem: put,
            tokenize=lambda prompt: [7, 8],
            detokenize=lambda tokens: words or str(tokens[0]),
            reply=lambda asked, replies, last: reply,
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
    assert [(list(sample.played.tokens), sample.earned.reward) for sample in group.samples] == [
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
    assert {sample.played.episode.turns[-1].grade.verdict for sample in group.samples} == {"PASSED"}
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


def step_of(*uids: str, step: int = 1) -> TensorDict:
    """The prompts of a step."""
    problems = np.arange(len(uids) * 2, 0, -2, dtype=object) - 2
    prompts = tu.get_tensordict({"uid": np.array(uids, dtype=object), "index": problems})
    tu.assign_non_tensor_data(prompts, "global_steps", step)
    return prompts


def published(rollouts: Rollouts, monkeypatch: pytest.MonkeyPatch) -> dict[str, tuple[int, bool]]:
    """Samples of each group of a step, and whether it was complete."""
    groups: dict[str, tuple[int, bool]] = {}

    def put(one: Prompted, group: Group, complete: bool) -> None:
        groups[one.uid] = (len(group.samples), complete)

    monkeypatch.setattr("trainer_service.job.verl.driver.rollouts._put", put)
    rollouts.generate_sequences(step_of("b", "a"))
    end = time.monotonic() + 5
    while len(groups) < 2 and time.monotonic() < end:
        rollouts.wait(5)
    return groups


def test_who_waits_hears_of_each_group_that_ends(build, monkeypatch):
    rollouts = build(Policy(), Environment())
    assert len(published(rollouts, monkeypatch)) == 2
    began = time.monotonic()
    rollouts.wait(0.2)  # of an end that came after the last look
    rollouts.wait(0.2)
    assert time.monotonic() - began >= 0.2


def test_who_waits_is_told_of_a_failure_at_once(build, monkeypatch):
    rollouts = build(Policy(error=InvalidArgument("no such thing")), Environment())
    with pytest.raises(InvalidArgument, match="no such thing"):
        published(rollouts, monkeypatch)


def test_what_is_abandoned_is_not_published(build, monkeypatch):
    class Slow(Policy):
        async def generate(self, prompt: Sequence[int], sampling: Sampling, policy_id: str) -> Generation:
            await asyncio.sleep(0.2)
            return await super().generate(prompt, sampling, policy_id)

    groups: list[str] = []
    monkeypatch.setattr(
        "trainer_service.job.verl.driver.rollouts._put", lambda one, group, complete: groups.append(one.uid)
    )
    rollouts = build(Slow(), Environment())
    rollouts.generate_sequences(step_of("b", "a"))
    rollouts.abandon()
    time.sleep(0.4)
    assert groups == []


def test_a_lone_survivor_teaches_nothing(build, monkeypatch):
    environment = Environment(faulty={"0", "1", "2"})
    assert published(build(Policy(), environment, fewest=2), monkeypatch) == {"a": (0, False), "b": (0, False)}
    assert published(build(Policy(), environment), monkeypatch) == {"a": (1, False), "b": (1, False)}


def test_a_greedy_completion_is_the_baseline_and_no_sample(build, monkeypatch):
    policy = Policy()
    rollouts = build(policy, Environment(), limit=0.0, measurer=Measurer({"9": 0.25}), has_greedy=True)
    assert published(rollouts, monkeypatch) == {"a": (4, True), "b": (4, True)}
    assert [rollouts.greedy_of(uid) for uid in ("a", "b", "pad")] == [0.25, 0.25, 0.0]
    assert rollouts.made(1).greedy_mean == 0.25
    assert policy.temperatures == {2.0, 0.0}  # of step 1, and the greedy one's
    assert rollouts.made(1).tally.take()["component_loud"] == (0 + 1 + 2 + 3) / 4


def test_a_group_tells_how_far_its_rewards_are_apart(build, monkeypatch):
    rollouts = build(Policy(), Environment(), fewest=2, limit=0.0)
    published(rollouts, monkeypatch)
    of_group = Evidence.of(2, [True] * 4, [0.0, 1.0, 1.0, 1.0])  # a score is cut to 1
    assert rollouts.evidence.take() == [of_group, replace(of_group, place=0)]  # as drawn, b before a
    lone = build(Policy(), Environment(faulty={"0", "1", "2"}), fewest=2)
    published(lone, monkeypatch)
    assert lone.evidence.take() == []


@pytest.mark.parametrize("options", [{"policy": Policy(broken={GREEDY})}, {"environment": Environment(faulty={"9"})}])
def test_without_its_baseline_a_group_teaches_nothing(options, build, monkeypatch):
    rollouts = build(**{"policy": Policy(), "environment": Environment()} | options, has_greedy=True)
    assert published(rollouts, monkeypatch) == {"a": (0, False), "b": (0, False)}


def test_a_lost_sample_leaves_the_others_their_baseline(build, monkeypatch):
    rollouts = build(
        Policy(), Environment(faulty={"1"}), measurer=Measurer({"9": 0.25, "2": None}), limit=0.0, has_greedy=True
    )
    assert published(rollouts, monkeypatch) == {"a": (2, False), "b": (2, False)}
    assert rollouts.greedy_of("a") == 0.25


def test_validations_are_sampled_as_at_the_end(build):
    policy = Policy()
    build(policy, Environment(), has_greedy=True).validate(PROBLEMS, samples=2, step=3)
    assert policy.temperatures == {10.0}  # of step 9, the last


def test_prompts_keep_the_order_in_which_they_were_drawn(build, monkeypatch):
    rollouts = build(Policy(), Environment())
    assert published(rollouts, monkeypatch) == {"a": (4, True), "b": (4, True)}
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
    assert [list(sample.played.tokens) for sample in group.samples] == [[0], [1]]


def test_an_episode_is_one_sample_whose_replies_are_not_learned(build):
    policy = Policy()
    measurer = Measurer({"20": 0.25, "21": 0.75})
    rollouts = build(policy, Environment(turns=3), limit=0.0, measurer=measurer)
    (group,) = rollouts.validate(PROBLEMS[:1], samples=2)
    played = [sample.played for sample in group.samples]
    assert [list(one.tokens) for one in played] == [[0, 5, 6, 10, 5, 6, 20], [1, 5, 6, 11, 5, 6, 21]]
    assert [list(one.mask) for one in played] == [[1, 0, 0, 1, 0, 0, 1]] * 2
    assert [list(one.log_probs) for one in played] == [[0, 0, 0, -10, 0, 0, -20], [-1, 0, 0, -11, 0, 0, -21]]
    assert [one.ends for one in played] == [[0, 3, 6]] * 2
    assert played[0].answers == [[0], [10], [20]]
    assert [(sample.earned.reward, list(sample.rewards)) for sample in group.samples] == [
        (0.25, [0.0, 0.0, 0.25]),
        (0.75, [0.0, 0.0, 0.75]),
    ]
    assert len(set(policy.later_seeds)) == 4
    assert sorted(policy.rooms) == [10, 10, 13, 13]


def test_an_answer_is_rewarded_by_what_it_gains(build):
    measurer = Measurer({"0": 0.25, "10": 0.75, "20": 0.5})
    rollouts = build(Policy(), Environment(turns=3), limit=0.0, measurer=measurer, has_steps=True)
    (group,) = rollouts.validate(PROBLEMS[:1], samples=1)
    assert [(sample.earned.reward, list(sample.rewards)) for sample in group.samples] == [(0.5, [0.25, 0.5, -0.25])]


def test_one_answer_that_cannot_be_measured_loses_its_episode(build):
    measurer = Measurer({"10": None, "11": 0.5})
    rollouts = build(Policy(), Environment(turns=2), limit=0.0, measurer=measurer, has_steps=True)
    (group,) = rollouts.validate(PROBLEMS[:1], samples=2)
    assert [list(sample.rewards) for sample in group.samples] == [[1.0, -0.5]]
    assert rollouts.last_fault == "p0: a reward must be a finite number"


@pytest.mark.parametrize("options", [{"policy": Policy(broken={11})}, {"environment": Environment({"11"}, turns=2)}])
def test_a_lost_turn_loses_its_episode(options, build, monkeypatch):
    rollouts = build(**{"policy": Policy(), "environment": Environment(turns=2)} | options)
    assert published(rollouts, monkeypatch) == {"a": (3, False), "b": (3, False)}
    taken = rollouts.made(1).tally.take()
    assert (taken["turns_mean"], taken["first_answers_passed"], taken["verdict_passed"]) == (2, 0, 1)


def test_what_has_no_room_ends_the_episode_as_it_was(build):
    rollouts = build(Policy(), Environment(turns=2), reply=[5] * 15)
    (group,) = rollouts.validate(PROBLEMS[:1], samples=1)
    (played,) = [sample.played for sample in group.samples]
    assert (list(played.tokens), list(played.mask)) == ([0], [1])
    assert played.episode.outcome == Outcome(Grade("FAILED", 0, 1))


def test_a_later_answer_of_foreign_weights_ends_the_run(build):
    policy = Policy()
    policy.later = lambda *unused: (_ for _ in ()).throw(FailedPrecondition("sha256:other"))
    policy.weights = "sha256:other"
    with pytest.raises(FailedPrecondition, match="sha256:other"):
        build(policy, Environment(turns=2)).validate(PROBLEMS[:1], samples=1)


def test_the_queue_has_masks_and_the_rewards_of_each_answer(build):
    measurer = Measurer({"0": 0.25, "10": 0.75})
    rollouts = build(Policy(), Environment(turns=2), limit=0.0, measurer=measurer, has_steps=True)
    (group,) = rollouts.validate(PROBLEMS[:1], samples=1)
    fields = _fields("a", group)
    assert fields["responses"][0].tolist() == [0, 5, 6, 10]
    assert fields["response_mask"][0].tolist() == fields["loss_mask"][0].tolist() == [1, 0, 0, 1]
    assert fields["rm_scores"][0].tolist() == [0.25, 0, 0, 0.5]
    assert fields["rollout_log_probs"][0].tolist() == [0, 0, 0, -10]
    assert fields["input_ids"][0].tolist() == [7, 8, 0, 5, 6, 10]


@pytest.fixture
def put(monkeypatch: pytest.MonkeyPatch) -> dict[str, Prompted]:
    """What was put into the queue, by uid."""
    prompts: dict[str, Prompted] = {}

    def put(one: Prompted, group: Group, complete: bool) -> None:
        prompts[one.uid] = one

    monkeypatch.setattr("trainer_service.job.verl.driver.rollouts._put", put)
    return prompts


def test_what_is_made_ahead_is_of_the_weights_that_the_engine_had(build, put):
    weights = Weights(push=lambda: "", policy_id="sha256:mine")
    rollouts = build(Policy(), Environment(), weights=weights)
    rollouts.generate_sequences(step_of("a", "b"))
    rollouts.generate_sequences(step_of("c", step=2))  # while step 1 is learned from
    rollouts.wait_made()
    weights.policy_id, weights.step = "sha256:new", 1
    rollouts.generate_sequences(step_of("d", step=2))  # more for the same step, as DAPO draws them
    rollouts.wait_made()
    assert {uid: (one.step, one.version, one.policy_id) for uid, one in put.items()} == {
        "a": (1, 0, "sha256:mine"),
        "b": (1, 0, "sha256:mine"),
        "c": (2, 0, "sha256:mine"),
        "d": (2, 1, "sha256:new"),
    }


def test_steps_that_are_made_at_a_time_are_counted_apart(build, put):
    rollouts = build(Policy(), Environment(), limit=0.0, measurer=Measurer({"9": 0.25}), has_greedy=True)
    rollouts.generate_sequences(step_of("a", "b"))
    rollouts.generate_sequences(step_of("c", step=2))
    rollouts.wait_made()
    assert [rollouts.place_of(uid) for uid in ("a", "b", "c")] == [0, 1, 0]
    assert [rollouts.made(step).tally.take()["groups"] for step in (1, 2)] == [2, 1]
    assert {one["problem"] for step in (1, 2) for one in rollouts.shown(step)} == {"p2", "p0"}
    rollouts.forget(1)
    assert [rollouts.greedy_of(uid) for uid in ("a", "c")] == [0.0, 0.25]
    assert [rollouts.made(step).greedy_mean for step in (1, 2)] == [0.0, 0.25]
    assert 0 < rollouts.made(2).seconds < 5


def test_what_ended_generation_keeps_new_weights_from_being_sent(build, put):
    policy = Policy(weights="sha256:other", error=FailedPrecondition("the policy has weights sha256:other"))
    rollouts = build(policy, Environment())
    rollouts.generate_sequences(step_of("a"))
    with pytest.raises(FailedPrecondition, match="sha256:other"):
        rollouts.wait_made()


def test_weights_that_a_lost_engine_did_not_have_are_not_learned_from(build):
    def push() -> str:
        policy.weights, policy.error = "sha256:newer", None
        return "sha256:newer"

    policy = Policy(weights=None, error=NotFound("no policy"))
    with pytest.raises(DataLoss, match="was lost with the weights sha256:mine, and was given sha256:newer"):
        build(policy, Environment(), push).validate(PROBLEMS[:1], samples=2)
