"""Groups for verl: each step's own, by the weights that the engine has, in verl's form."""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("verl", reason="needs the trainer environment")

from tensordict import TensorDict
from verl.utils import tensordict_utils as tu

from ratchet_kit.errors import FailedPrecondition, InvalidArgument
from ratchet_policies import Generation, Prompt, Sampling
from trainer_service.job.policy.weight_versions import Version
from trainer_service.job.samples.answers import Span
from trainer_service.job.samples.curriculum import Evidence
from trainer_service.job.samples.groups import Group
from trainer_service.job.samples.step_samples import Prompted, StepSamples
from trainer_service.verl.driver.rollouts import GATHER_S, Rollouts
from trainer_service.verl.driver.transfer import put, rows_of

from ...generating import GREEDY, PROBLEMS, Environment, Making, Measurer, Policy

pytestmark = pytest.mark.verl

Build = Callable[..., Rollouts]


@pytest.fixture
def build(make_groups: Callable[..., Making]) -> Build:
    def rollouts(policy: Policy, environment: Environment, **options: Any) -> Rollouts:
        made = make_groups(policy, environment, **options)
        return Rollouts(made.job, made.background, made.sent, made.groups, PROBLEMS)

    return rollouts


def step_of(*uids: str, step: int = 1) -> TensorDict:
    """The prompts of a step."""
    problems = np.arange(len(uids) * 2, 0, -2, dtype=object) - 2
    prompts = tu.get_tensordict({"uid": np.array(uids, dtype=object), "index": problems})
    tu.assign_non_tensor_data(prompts, "global_steps", step)
    return prompts


@pytest.fixture
def puts(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, tuple[Prompted, Group]]]:
    """The groups of each put into the queue, by uid."""
    puts: list[dict[str, tuple[Prompted, Group]]] = []

    def put(groups: Sequence[tuple[Prompted, Group]], compared: bool) -> None:
        puts.append({one.uid: (one, group) for one, group in groups})

    monkeypatch.setattr("trainer_service.verl.driver.transfer.put", put)
    return puts


def taken(rollouts: Rollouts, step: int, *uids: str) -> StepSamples:
    """What the step learns from, where it learns from these prompts."""
    rollouts.choose(step, uids)
    return rollouts.take(step)


Puts = list[dict[str, tuple[Prompted, Group]]]


def published(rollouts: Rollouts, puts: Puts) -> dict[str, int]:
    """Samples of each group of a step."""
    puts.clear()
    rollouts.generate_sequences(step_of("b", "a"))
    end = time.monotonic() + 5
    while sum(map(len, puts)) < 2 and time.monotonic() < end:
        rollouts.publish(5)
    return {uid: len(group.samples) for put in puts for uid, (_, group) in put.items()}


def test_groups_that_end_together_are_published_together(build, puts):
    rollouts = build(Policy(), Environment())
    rollouts.generate_sequences(step_of("b", "a"))
    began = time.monotonic()
    rollouts.publish(5)
    assert [set(put) for put in puts] == [{"a", "b"}]
    assert time.monotonic() - began < GATHER_S  # no more are under way


def test_a_group_is_not_held_up_by_a_slow_one(build, puts):
    class SlowFirst(Policy):
        called = 0

        async def generate(self, prompt: Prompt, sampling: Sampling, policy_id: str) -> Generation:
            self.called += 1
            if self.called == 1:  # of b, which is drawn first
                await asyncio.sleep(3 * GATHER_S)
            return await super().generate(prompt, sampling, policy_id)

    rollouts = build(SlowFirst(), Environment())
    rollouts.generate_sequences(step_of("b", "a"))
    rollouts.publish(5)
    rollouts.publish(5)
    assert [set(put) for put in puts] == [{"a"}, {"b"}]


def test_who_publishes_waits_no_longer_than_told(build, puts):
    rollouts = build(Policy(), Environment())
    published(rollouts, puts)
    began = time.monotonic()
    rollouts.publish(0.2)
    assert time.monotonic() - began >= 0.2


def test_who_waits_is_told_of_a_failure_at_once(build, puts):
    rollouts = build(Policy(error=InvalidArgument("no such thing")), Environment())
    with pytest.raises(InvalidArgument, match="no such thing"):
        published(rollouts, puts)


@pytest.mark.parametrize(("algorithm", "compared"), [("grpo", False), ("dapo", True), ("dapo_steps", True)])
def test_what_dynamic_sampling_compares_is_in_the_queue(algorithm: str, compared: bool, build, monkeypatch):
    said: list[bool] = []
    monkeypatch.setattr("trainer_service.verl.driver.transfer.put", lambda groups, compared: said.append(compared))
    rollouts = build(Policy(), Environment(), algorithm=algorithm)
    rollouts.generate_sequences(step_of("a", "b"))
    rollouts.wait_made()
    rollouts.publish(5)
    assert said == [compared]


def test_what_is_abandoned_is_not_published(build, puts):
    class Slow(Policy):
        async def generate(self, prompt: Prompt, sampling: Sampling, policy_id: str) -> Generation:
            await asyncio.sleep(0.2)
            return await super().generate(prompt, sampling, policy_id)

    rollouts = build(Slow(), Environment())
    rollouts.generate_sequences(step_of("b", "a"))
    rollouts.abandon()
    time.sleep(0.4)
    rollouts.publish(0)
    assert puts == []


def test_a_lone_survivor_teaches_nothing(build, puts):
    environment = Environment(faulty={"0", "1", "2"})
    assert published(build(Policy(), environment, algorithm="grpo"), puts) == {"a": 0, "b": 0}
    assert published(build(Policy(), environment), puts) == {"a": 1, "b": 1}


def test_a_greedy_completion_is_the_baseline_and_no_sample(build, puts):
    policy = Policy()
    rollouts = build(policy, Environment(), limit=0.0, measurer=Measurer({"9": 0.25}), algorithm="remax")
    assert published(rollouts, puts) == {"a": 4, "b": 4}
    rollouts.choose(1, ["a", "b"])
    assert [rollouts.greedy_of(uid) for uid in ("a", "b", "pad")] == [0.25, 0.25, 0.0]
    made = taken(rollouts, 1, "a", "b")
    assert made.greedy_mean == 0.25
    assert policy.temperatures == {2.0, 0.0}  # of step 1, and the greedy one's
    assert made.tally.take()["component_loud"] == (0 + 1 + 2 + 3) / 4


def test_a_group_tells_how_far_its_rewards_are_apart(build, puts):
    rollouts = build(Policy(), Environment(), algorithm="grpo", limit=0.0)
    published(rollouts, puts)
    of_group = Evidence.of(2, [True] * 4, [0.0, 1.0, 1.0, 1.0])  # a score is cut to 1
    assert rollouts.evidence(1) == [of_group, replace(of_group, place=0)]  # as drawn, b before a
    lone = build(Policy(), Environment(faulty={"0", "1", "2"}), algorithm="grpo")
    published(lone, puts)
    assert lone.evidence(1) == []


@pytest.mark.parametrize("options", [{"policy": Policy(broken={GREEDY})}, {"environment": Environment(faulty={"9"})}])
def test_without_its_baseline_a_group_teaches_nothing(options, build, puts):
    rollouts = build(**{"policy": Policy(), "environment": Environment()} | options, algorithm="remax")
    assert published(rollouts, puts) == {"a": 0, "b": 0}


def test_a_lost_sample_leaves_the_others_their_baseline(build, puts):
    rollouts = build(
        Policy(), Environment(faulty={"1"}), measurer=Measurer({"9": 0.25, "2": None}), limit=0.0, algorithm="remax"
    )
    assert published(rollouts, puts) == {"a": 2, "b": 2}
    rollouts.choose(1, ["a"])
    assert rollouts.greedy_of("a") == 0.25


def test_prompts_keep_the_order_in_which_they_were_drawn(build, puts):
    rollouts = build(Policy(), Environment())
    assert published(rollouts, puts) == {"a": 4, "b": 4}
    assert [rollouts.order_of(uid) for uid in ("b", "a")] == [(1, 0), (1, 1)]


@pytest.mark.parametrize("options", [{"policy": Policy(broken={11})}, {"environment": Environment({"11"}, turns=2)}])
def test_a_lost_turn_loses_its_episode(options, build, puts):
    rollouts = build(**{"policy": Policy(), "environment": Environment(turns=2)} | options)
    assert published(rollouts, puts) == {"a": 3, "b": 3}
    told = taken(rollouts, 1, "a", "b").tally.take()
    assert (told["turns_mean"], told["first_answers_passed"], told["verdict_passed"]) == (2, 0, 1)


def test_the_queue_has_groups_under_their_prompts(build, puts, monkeypatch):
    calls: list[dict[str, Any]] = []
    monkeypatch.setattr("transfer_queue.kv_batch_put", lambda **arguments: calls.append(arguments))
    published(build(Policy(), Environment(faulty={"1"})), puts)
    one, group = puts[0]["a"]
    full = (replace(one, uid="full"), replace(group, samples=[*group.samples, group.samples[0]]))
    put([(one, group), full], compared=False)
    rows, prompts = calls
    assert rows["keys"] == ["a_0_0", "a_1_0", "a_2_0", "full_0_0", "full_1_0", "full_2_0", "full_3_0"]
    assert [len(response) for response in rows["fields"]["responses"].unbind()] == [1] * 7
    assert [tag["weights"] for tag in rows["tags"]] == [[(0, "sha256:mine")]] * 7
    assert dict(zip(prompts["keys"], prompts["tags"], strict=True)) == {
        "a": {"status": "failure"},
        "full": {"status": "finished"},
    }
    calls.clear()
    put([(one, replace(group, samples=[]))], compared=False)
    assert [call["keys"] for call in calls] == [["a"]]


async def test_the_queue_has_masks_and_the_rewards_of_each_answer(make_groups):
    measurer = Measurer({"0": 0.25, "10": 0.75})
    made = make_groups(Policy(), Environment(turns=2), limit=0.0, measurer=measurer, algorithm="dapo_steps")
    (group,) = await made.groups.validate(PROBLEMS[:1], samples=1)
    (fields,) = rows_of("a", group, compared=True)
    assert fields["extra_fields"] == {"reward_extra_info": {"before_length": 0.75}}
    assert fields["responses"].tolist() == [0, 5, 6, 10]
    assert fields["response_mask"].tolist() == fields["loss_mask"].tolist() == [1, 0, 0, 1]
    assert fields["rm_scores"].tolist() == [0.25, 0, 0, 0.5]
    assert fields["rollout_log_probs"].tolist() == [0, 0, 0, -10]
    assert fields["input_ids"].tolist() == [7, 8, 0, 5, 6, 10]


def test_what_is_made_ahead_is_of_the_weights_that_the_engine_had(make_groups, puts):
    made = make_groups(Policy(), Environment())
    rollouts = Rollouts(made.job, made.background, made.sent, made.groups, PROBLEMS)
    rollouts.generate_sequences(step_of("a", "b"))
    rollouts.generate_sequences(step_of("c", step=2))  # while step 1 is learned from
    rollouts.wait_made()
    made.sent.now("sha256:new", 1)
    rollouts.generate_sequences(step_of("d", step=2))  # more for the same step, as DAPO draws them
    rollouts.wait_made()
    rollouts.publish(5)
    rollouts.publish(5)
    made = [
        {uid: (one.draw.step, one.version, *group.samples[0].played.spans) for uid, (one, group) in put.items()}
        for put in puts
    ]
    old, new = Span(Version(0, "sha256:mine"), 1), Span(Version(1, "sha256:new"), 1)
    assert made == [{"a": (1, 0, old), "b": (1, 0, old)}, {"c": (2, 0, old), "d": (2, 1, new)}]


def test_a_step_waits_for_no_group_of_the_next(build, puts):
    class SlowSecond(Policy):
        called = 0

        async def generate(self, prompt: Prompt, sampling: Sampling, policy_id: str) -> Generation:
            self.called += 1
            if self.called == 2:
                await asyncio.sleep(3 * GATHER_S)
            return await super().generate(prompt, sampling, policy_id)

    rollouts = build(SlowSecond(), Environment())
    rollouts.generate_sequences(step_of("a"))
    rollouts.wait_made()
    rollouts.generate_sequences(step_of("b", step=2))
    began = time.monotonic()
    rollouts.publish(5)
    assert time.monotonic() - began < GATHER_S
    assert [set(put) for put in puts] == [{"a"}]


def test_steps_that_are_made_at_a_time_are_counted_apart(build, puts):
    rollouts = build(Policy(), Environment(), limit=0.0, measurer=Measurer({"9": 0.25}), algorithm="remax")
    rollouts.generate_sequences(step_of("a", "b"))
    rollouts.generate_sequences(step_of("c", step=2))
    rollouts.wait_made()
    assert [rollouts.order_of(uid) for uid in ("a", "b", "c")] == [(1, 0), (1, 1), (2, 0)]
    assert [len(rollouts.evidence(step)) for step in (1, 2)] == [2, 1]
    assert [rollouts.order_of(uid) for uid in ("a", "b", "c")] == [(1, 0), (1, 1), (2, 0)]
    first = rollouts.take(1)
    assert [rollouts.greedy_of(uid) for uid in ("a", "c")] == [0.0, 0.25]
    made = (first, rollouts.take(2))
    assert [one.tally.take()["groups"] for one in made] == [2, 1]
    assert {kept.problem_id for one in made for kept in one.records(str, {}, 1, 16)} == {"p2", "p0"}
    assert [one.greedy_mean for one in made] == [0.25, 0.25]


def test_a_step_learns_from_what_is_there_and_waits_for_what_grows_too_old(make_groups, puts):
    going = asyncio.Event()

    class SlowSecond(Policy):
        called = 0

        async def generate(self, prompt: Prompt, sampling: Sampling, policy_id: str) -> Generation:
            self.called += 1
            if self.called == 2:
                await going.wait()
            return await super().generate(prompt, sampling, policy_id)

    made = make_groups(SlowSecond(), Environment())
    rollouts = Rollouts(made.job, made.background, made.sent, made.groups, PROBLEMS)
    rollouts.generate_sequences(step_of("a", "slow"))
    rollouts.generate_sequences(step_of("c", "d", step=2))
    while sum(map(len, puts)) < 3:
        rollouts.publish(5)
    assert [rollouts.is_awaited(step, max_staleness=2) for step in (1, 2, 3)] == [False, False, True]
    first = taken(rollouts, 1, "a", "c")
    assert [str(one.id) for one in first.records(str, {}, 1, 16)][::4] == ["1-0-0", "1-1-0"]
    made.background.wait(asyncio.to_thread(made.background._loop.call_soon_threadsafe, going.set))
    rollouts.publish(5)
    assert not rollouts.is_awaited(3, max_staleness=2)
    second = taken(rollouts, 2, "slow", "d")
    assert [one.staleness for one in second.records(str, {}, 1, 16)] == [1] * 8


def test_what_ended_generation_keeps_new_weights_from_being_sent(build, puts):
    policy = Policy(weights="sha256:other", error=FailedPrecondition("the policy has weights sha256:other"))
    rollouts = build(policy, Environment())
    rollouts.generate_sequences(step_of("a"))
    with pytest.raises(FailedPrecondition, match="sha256:other"):
        rollouts.wait_made()
