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
from ratchet_policies import Generation, Sampling
from trainer_service.job.curriculum import Evidence
from trainer_service.job.groups import Group
from trainer_service.job.made import Prompted
from trainer_service.job.verl.driver.rollouts import Rollouts
from trainer_service.job.verl.driver.transfer import fields_of

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


def published(rollouts: Rollouts, monkeypatch: pytest.MonkeyPatch) -> dict[str, tuple[int, bool]]:
    """Samples of each group of a step, and whether it was complete."""
    groups: dict[str, tuple[int, bool]] = {}

    def put(one: Prompted, group: Group, complete: bool) -> None:
        groups[one.uid] = (len(group.samples), complete)

    monkeypatch.setattr("trainer_service.job.verl.driver.transfer.put", put)
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
        "trainer_service.job.verl.driver.transfer.put", lambda one, group, complete: groups.append(one.uid)
    )
    rollouts = build(Slow(), Environment())
    rollouts.generate_sequences(step_of("b", "a"))
    rollouts.abandon()
    time.sleep(0.4)
    assert groups == []


def test_a_lone_survivor_teaches_nothing(build, monkeypatch):
    environment = Environment(faulty={"0", "1", "2"})
    assert published(build(Policy(), environment, algorithm="grpo"), monkeypatch) == {"a": (0, False), "b": (0, False)}
    assert published(build(Policy(), environment), monkeypatch) == {"a": (1, False), "b": (1, False)}


def test_a_greedy_completion_is_the_baseline_and_no_sample(build, monkeypatch):
    policy = Policy()
    rollouts = build(policy, Environment(), limit=0.0, measurer=Measurer({"9": 0.25}), algorithm="remax")
    assert published(rollouts, monkeypatch) == {"a": (4, True), "b": (4, True)}
    assert [rollouts.greedy_of(uid) for uid in ("a", "b", "pad")] == [0.25, 0.25, 0.0]
    made = rollouts.take(1)
    assert made.greedy_mean == 0.25
    assert policy.temperatures == {2.0, 0.0}  # of step 1, and the greedy one's
    assert made.tally.take()["component_loud"] == (0 + 1 + 2 + 3) / 4


def test_a_group_tells_how_far_its_rewards_are_apart(build, monkeypatch):
    rollouts = build(Policy(), Environment(), algorithm="grpo", limit=0.0)
    published(rollouts, monkeypatch)
    of_group = Evidence.of(2, [True] * 4, [0.0, 1.0, 1.0, 1.0])  # a score is cut to 1
    assert rollouts.evidence(1) == [of_group, replace(of_group, place=0)]  # as drawn, b before a
    lone = build(Policy(), Environment(faulty={"0", "1", "2"}), algorithm="grpo")
    published(lone, monkeypatch)
    assert lone.evidence(1) == []


@pytest.mark.parametrize("options", [{"policy": Policy(broken={GREEDY})}, {"environment": Environment(faulty={"9"})}])
def test_without_its_baseline_a_group_teaches_nothing(options, build, monkeypatch):
    rollouts = build(**{"policy": Policy(), "environment": Environment()} | options, algorithm="remax")
    assert published(rollouts, monkeypatch) == {"a": (0, False), "b": (0, False)}


def test_a_lost_sample_leaves_the_others_their_baseline(build, monkeypatch):
    rollouts = build(
        Policy(), Environment(faulty={"1"}), measurer=Measurer({"9": 0.25, "2": None}), limit=0.0, algorithm="remax"
    )
    assert published(rollouts, monkeypatch) == {"a": (2, False), "b": (2, False)}
    assert rollouts.greedy_of("a") == 0.25


def test_prompts_keep_the_order_in_which_they_were_drawn(build, monkeypatch):
    rollouts = build(Policy(), Environment())
    assert published(rollouts, monkeypatch) == {"a": (4, True), "b": (4, True)}
    assert [rollouts.place_of(uid) for uid in ("b", "a")] == [0, 1]


@pytest.mark.parametrize("options", [{"policy": Policy(broken={11})}, {"environment": Environment({"11"}, turns=2)}])
def test_a_lost_turn_loses_its_episode(options, build, monkeypatch):
    rollouts = build(**{"policy": Policy(), "environment": Environment(turns=2)} | options)
    assert published(rollouts, monkeypatch) == {"a": (3, False), "b": (3, False)}
    taken = rollouts.take(1).tally.take()
    assert (taken["turns_mean"], taken["first_answers_passed"], taken["verdict_passed"]) == (2, 0, 1)


async def test_the_queue_has_masks_and_the_rewards_of_each_answer(make_groups):
    measurer = Measurer({"0": 0.25, "10": 0.75})
    made = make_groups(Policy(), Environment(turns=2), limit=0.0, measurer=measurer, algorithm="dapo_steps")
    (group,) = await made.groups.validate(PROBLEMS[:1], samples=1)
    fields = fields_of("a", group)
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

    monkeypatch.setattr("trainer_service.job.verl.driver.transfer.put", put)
    return prompts


def test_what_is_made_ahead_is_of_the_weights_that_the_engine_had(make_groups, put):
    made = make_groups(Policy(), Environment())
    rollouts = Rollouts(made.job, made.background, made.sent, made.groups, PROBLEMS)
    rollouts.generate_sequences(step_of("a", "b"))
    rollouts.generate_sequences(step_of("c", step=2))  # while step 1 is learned from
    rollouts.wait_made()
    made.sent.now("sha256:new", 1)
    rollouts.generate_sequences(step_of("d", step=2))  # more for the same step, as DAPO draws them
    rollouts.wait_made()
    assert {uid: (one.draw.step, one.version, one.draw.policy_id) for uid, one in put.items()} == {
        "a": (1, 0, "sha256:mine"),
        "b": (1, 0, "sha256:mine"),
        "c": (2, 0, "sha256:mine"),
        "d": (2, 1, "sha256:new"),
    }


def test_steps_that_are_made_at_a_time_are_counted_apart(build, put):
    rollouts = build(Policy(), Environment(), limit=0.0, measurer=Measurer({"9": 0.25}), algorithm="remax")
    rollouts.generate_sequences(step_of("a", "b"))
    rollouts.generate_sequences(step_of("c", step=2))
    rollouts.wait_made()
    assert [rollouts.place_of(uid) for uid in ("a", "b", "c")] == [0, 1, 0]
    assert [len(rollouts.evidence(step)) for step in (1, 2)] == [2, 1]
    first = rollouts.take(1)
    assert [rollouts.greedy_of(uid) for uid in ("a", "c")] == [0.0, 0.25]
    made = (first, rollouts.take(2))
    assert [one.tally.take()["groups"] for one in made] == [2, 1]
    assert {shown["problem"] for one in made for shown in one.shown(lambda tokens: "")} == {"p2", "p0"}
    assert [one.greedy_mean for one in made] == [0.25, 0.25]


def test_what_ended_generation_keeps_new_weights_from_being_sent(build, put):
    policy = Policy(weights="sha256:other", error=FailedPrecondition("the policy has weights sha256:other"))
    rollouts = build(policy, Environment())
    rollouts.generate_sequences(step_of("a"))
    with pytest.raises(FailedPrecondition, match="sha256:other"):
        rollouts.wait_made()
