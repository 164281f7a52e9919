"""Groups of samples: what the platform failed is left out, what it lost is given back, what is foreign is refused."""

from dataclasses import replace
from typing import Any

import pytest

from ratchet_environments import Outcome, Task
from ratchet_environments.code import Ran
from ratchet_kit.errors import DataLoss, FailedPrecondition, InvalidArgument, NotFound
from ratchet_problems.prompting import Prompt
from ratchet_rewards import Grade
from trainer_service.job.reward.second_hand import SecondHand
from trainer_service.job.samples.groups import Draw

from ..generating import PROBLEMS, Environment, Measurer, Policy, Prompts


async def test_a_group_has_a_reward_for_each_sample(make_groups: Any) -> None:
    (group,) = await make_groups(Policy(), Environment()).groups.validate(PROBLEMS[:1], samples=3)
    assert [list(way.prompt) for sample in group.samples for way in sample.played.trajectories] == [[7, 8]] * 3
    assert [(list(sample.played.trajectories[0].tokens), sample.earned.reward) for sample in group.samples] == [
        ([0], 0.0),
        ([1], 0.5),
        ([2], 0.5),
    ]
    assert [sample.earned.score for sample in group.samples] == [0.0, 1.0, 1.0]


async def test_a_sample_that_the_platform_failed_is_not_a_sample_of_reward_0(make_groups: Any) -> None:
    made = make_groups(Policy(), Environment(faulty={"1"}), measurer=Measurer({"2": -1.0}), limit=0.0)
    (group,) = await made.groups.validate(PROBLEMS[:1], samples=3)
    assert [sample.earned.reward for sample in group.samples] == [0.0, -1.0]
    assert str(made.groups.last_fault) == "the lane died"


async def test_a_reward_beyond_the_limit_is_cut_and_one_that_is_no_number_is_none(make_groups: Any) -> None:
    made = make_groups(Policy(), Environment(), measurer=Measurer({"1": None, "2": -7.0}))
    (group,) = await made.groups.validate(PROBLEMS[:1], samples=4)
    earned = [sample.earned for sample in group.samples]
    assert [(one.reward, one.cut) for one in earned] == [(0.0, False), (-0.5, True), (0.5, True)]
    assert {sample.played.episode.turns[-1].grade.verdict for sample in group.samples} == {"PASSED"}
    assert str(made.groups.last_fault) == "p0: loud must give a finite number"


async def test_a_group_that_cannot_be_measured_is_lost_and_the_run_goes_on(make_groups: Any) -> None:
    made = make_groups(
        Policy(), Environment(), measurer=Measurer(error=InvalidArgument("the reward loud printed no JSON"))
    )
    (group,) = await made.groups.validate(PROBLEMS[:1], samples=2)
    assert group.samples == []
    assert str(made.groups.last_fault) == "the reward loud printed no JSON"


async def test_a_completion_that_the_engine_broke_off_is_not_the_policys(make_groups: Any) -> None:
    made = make_groups(Policy(broken={1}, empty={2}), Environment())
    (group,) = await made.groups.validate(PROBLEMS[:1], samples=4)
    assert [sample.earned.reward for sample in group.samples] == [0.0, 0.5]
    assert str(made.groups.last_fault) == "p0: the engine broke a completion off after 0 tokens"


async def test_samples_are_drawn_by_seeds_of_run_step_and_problem(make_groups: Any) -> None:
    drawn = []
    for step in (1, 1, 2):
        policy = Policy()
        await make_groups(policy, Environment()).groups.validate(PROBLEMS, samples=2, step=step)
        drawn.append(policy.seeds)
    assert drawn[0] == drawn[1]
    assert len({*drawn[0], *drawn[2]}) == 6


async def test_validations_are_sampled_as_at_the_end(make_groups: Any) -> None:
    policy = Policy()
    await make_groups(policy, Environment(), algorithm="remax").groups.validate(PROBLEMS, samples=2, step=3)
    assert policy.temperatures == {10.0}  # of step 9, the last


async def test_a_lost_policy_gets_its_weights_back_once_for_all_groups(make_groups: Any) -> None:
    policy, pushes = Policy(weights=None, error=NotFound("no policy")), []

    def push() -> str:
        pushes.append(1)
        policy.weights, policy.error = "sha256:mine", None
        return "sha256:mine"

    groups = await make_groups(policy, Environment(), push=push).groups.validate(PROBLEMS, samples=2)
    assert [len(group.samples) for group in groups] == [2, 2, 2]
    assert len(pushes) == 1


async def test_foreign_weights_are_not_trained_on(make_groups: Any) -> None:
    policy = Policy(weights="sha256:other", error=FailedPrecondition("the policy has weights sha256:other"))
    with pytest.raises(FailedPrecondition, match="sha256:other"):
        await make_groups(policy, Environment()).groups.validate(PROBLEMS, samples=2)


async def test_weights_that_a_lost_engine_did_not_have_are_not_learned_from(make_groups: Any) -> None:
    def push() -> str:
        policy.weights, policy.error = "sha256:newer", None
        return "sha256:newer"

    policy = Policy(weights=None, error=NotFound("no policy"))
    with pytest.raises(DataLoss, match="was lost with the weights sha256:mine, and was given sha256:newer"):
        await make_groups(policy, Environment(), push=push).groups.validate(PROBLEMS[:1], samples=2)


async def test_a_text_ends_at_its_stop_and_what_was_sampled_of_it_is_learned(make_groups: Any) -> None:
    policy, environment = Policy(), Environment()
    made = make_groups(
        policy, environment, prompts=Prompts(Prompt(text="f\n", stop=("\nprint(",)), words="7\nprint(1)")
    )
    (group,) = await made.groups.validate(PROBLEMS[:1], samples=2)
    assert policy.stops == {("\nprint(",)}
    assert environment.answers == ["7"] * 2
    assert [list(sample.played.trajectories[0].tokens) for sample in group.samples] == [[0], [1]]


async def test_an_episode_is_one_sample_whose_replies_are_not_learned(make_groups: Any) -> None:
    policy = Policy()
    measurer = Measurer({"20": 0.25, "21": 0.75})
    made = make_groups(policy, Environment(turns=3), limit=0.0, measurer=measurer)
    (group,) = await made.groups.validate(PROBLEMS[:1], samples=2)
    played = [sample.played.trajectories[0] for sample in group.samples]
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


async def test_an_answer_is_rewarded_by_what_it_gains(make_groups: Any) -> None:
    measurer = Measurer({"0": 0.25, "10": 0.75, "20": 0.5})
    made = make_groups(Policy(), Environment(turns=3), limit=0.0, measurer=measurer, algorithm="dapo_steps")
    (group,) = await made.groups.validate(PROBLEMS[:1], samples=1)
    assert [(sample.earned.reward, list(sample.rewards)) for sample in group.samples] == [(0.5, [0.25, 0.5, -0.25])]


async def test_credit_by_turn_compares_what_is_gained_from_each_answer_on(make_groups: Any) -> None:
    measurer = Measurer({"0": 0.25, "10": 0.75, "1": 0.0, "11": 0.5})
    making: dict[str, Any] = {"limit": 0.0, "measurer": measurer, "algorithm": "dr_grpo"}
    made = make_groups(Policy(), Environment(turns=2), turn_discount=1.0, **making)
    (group,) = await made.groups.validate(PROBLEMS[:1], samples=2)
    assert [list(sample.rewards) for sample in group.samples] == [[0.25, 0.5], [0.0, 0.5]]
    assert [list(sample.advantages) for sample in group.samples] == [[0.125, 0.0], [-0.125, 0.0]]
    by_episode = make_groups(Policy(), Environment(turns=2), **making)
    (group,) = await by_episode.groups.validate(PROBLEMS[:1], samples=2)
    assert [list(sample.rewards) for sample in group.samples] == [[0.0, 0.75], [0.0, 0.5]]
    assert [list(sample.advantages) for sample in group.samples] == [[], []]


async def test_one_answer_that_cannot_be_measured_loses_its_episode(make_groups: Any) -> None:
    measurer = Measurer({"10": None, "11": 0.5})
    made = make_groups(Policy(), Environment(turns=2), limit=0.0, measurer=measurer, algorithm="dapo_steps")
    (group,) = await made.groups.validate(PROBLEMS[:1], samples=2)
    assert [list(sample.rewards) for sample in group.samples] == [[1.0, -0.5]]
    assert str(made.groups.last_fault) == "p0: loud must give a finite number"


async def test_what_has_no_room_ends_the_episode_as_it_was(make_groups: Any) -> None:
    made = make_groups(Policy(), Environment(turns=2), prompts=Prompts(between=[5] * 15))
    (group,) = await made.groups.validate(PROBLEMS[:1], samples=1)
    (played,) = [sample.played for sample in group.samples]
    assert [(list(one.tokens), list(one.mask)) for one in played.trajectories] == [([0], [1])]
    assert played.episode.outcome == Outcome(Grade("FAILED", 0, 1))


async def test_a_later_answer_of_foreign_weights_ends_the_run(make_groups: Any) -> None:
    policy = Policy()
    policy.later = lambda *unused: (_ for _ in ()).throw(FailedPrecondition("sha256:other"))
    policy.weights = "sha256:other"
    with pytest.raises(FailedPrecondition, match="sha256:other"):
        await make_groups(policy, Environment(turns=2)).groups.validate(PROBLEMS[:1], samples=1)


async def test_what_passes_is_judged_by_tests_that_earn_nothing(make_groups: Any) -> None:
    class Judge:
        async def run(self, task: Task, answer: str) -> Ran:
            assert task.problem.tests == unrewarded.tests
            return Ran(Grade("PASSED" if answer == "1" else "FAILED", 0, 1))

    made = make_groups(Policy(), Environment(), second_hand=SecondHand(Judge(), 0.5))
    two = replace(PROBLEMS[0], tests=PROBLEMS[0].tests + PROBLEMS[1].tests)
    split = made.groups.split(two)
    unrewarded = split.unrewarded
    assert unrewarded is not None
    group = await made.groups.make(Draw(split.rewarded, 3, 1, 5, unrewarded=unrewarded))
    assert [sample.second_hand for sample in group.samples] == [False, True, False]
    assert [sample.tallied.second_hand for sample in group.samples] == [False, True, False]
    assert [sample.earned.reward for sample in group.samples] == [0.0, 0.5, 0.5]


async def test_a_validation_and_a_run_without_a_second_hand_take_all_tests(make_groups: Any) -> None:
    groups = make_groups(Policy(), Environment()).groups
    assert groups.split(PROBLEMS[0]).rewarded == PROBLEMS[0]
    assert groups.split(PROBLEMS[0]).unrewarded is None
