"""What is made for a step is counted by its prompts, in whichever order their groups end."""

from typing import Any

from trainer_service.domain.run.sample import Span
from trainer_service.job.samples.curriculum import Evidence
from trainer_service.job.samples.groups import Draw
from trainer_service.job.samples.step_samples import Drawn, Prompted, StepSamples

from ..generating import PROBLEMS, Environment, Policy


def prompted(drawn: Drawn, uid: str, index: int, step: int = 1) -> Prompted:
    place, times = drawn.place(PROBLEMS[index].id)
    return Prompted(uid, index, place, Draw(PROBLEMS[index], 4, step, times), 0)


async def test_evidence_comes_in_the_order_of_the_draws(make_groups: Any) -> None:
    groups = make_groups(Policy(), Environment()).groups
    made, of_step = StepSamples(1, kept_groups=2), Drawn()
    drawn = [prompted(of_step, uid, index) for uid, index in (("a", 2), ("b", 0), ("c", 2))]
    [whole] = await groups.validate(PROBLEMS[:1], samples=2)
    [none] = await groups.validate(PROBLEMS[:1], samples=0)
    for one, group in zip(reversed(drawn), (whole, none, whole), strict=True):
        made.add(one, group, 0.0)
    told = Evidence.of(2, [True, True], [0.0, 0.5])
    assert made.evidence == [told, told]
    assert [one.place for one in drawn] == [0, 1, 2]
    assert [one.draw.seed for one in drawn] == [0, 0, 1]  # how often its problem was drawn before
    assert [(one.place, one.index) for one in made.records(str, {}, 1, 16)] == [(0, 0), (0, 1)]


async def test_what_is_kept_of_a_sample_says_how_it_came_to_its_reward(make_groups: Any) -> None:
    groups = make_groups(Policy(), Environment(), limit=0.0).groups
    made, of_step = StepSamples(1, kept_groups=1), Drawn()
    drawn = [prompted(of_step, uid, index) for uid, index in (("a", 2), ("b", 0))]
    for one in drawn:
        made.add(one, await groups.make(one.draw), 0.0)
    found = made.records(lambda tokens: " ".join(map(str, tokens)), {"a_1_0": -0.5, "b_0_0": 9.0}, 3, 1)
    assert {one.problem_id for one in found} == {"p2"}  # of the second prompt nothing is kept
    second = found[1]
    assert (str(second.id), second.prompt, second.completion) == ("1-0-1", "7 8", "1")
    assert (second.reward, second.components, second.advantage) == (1.0, {"loud": 1.0}, -0.5)
    assert (found[0].advantage, second.staleness, second.attempt, second.truncated) == (None, 0, 3, True)
    assert (second.policy_id, second.spans) == ("sha256:mine", (Span("sha256:mine", 0, 1),))


async def test_each_answer_has_its_advantage_where_credit_is_given_by_turn(make_groups: Any) -> None:
    made, whole = StepSamples(1), StepSamples(1)
    for found, discount in ((made, 1.0), (whole, 0.0)):
        making = make_groups(Policy(), Environment(turns=2), limit=0.0, algorithm="grpo", turn_discount=discount)
        [group] = await making.groups.validate(PROBLEMS[:1], samples=2)
        found.add(prompted(Drawn(), "a", 0), group, 0.0)
        assert [list(way.tokens) for one in group.samples for way in one.played.trajectories] == [
            [0, 5, 6, 10],
            [1, 5, 6, 11],
        ]
    assert set(made.credit) == {"a_0_0", "a_1_0"}
    assert [places for places, _ in made.credit["a_1_0"]] == [range(1), range(1, 4)]
    gained = {key: [round(advantage, 3) for _, advantage in found] for key, found in made.credit.items()}
    assert gained == {"a_0_0": [0.0, 1.0], "a_1_0": [0.0, -1.0]}  # by answers worth 0 and 1, and 1 and 1
    assert whole.credit == {}


async def test_samples_that_were_drawn_for_another_step_are_those_of_the_one_that_learns_from_them(
    make_groups: Any,
) -> None:
    groups = make_groups(Policy(), Environment(), limit=0.0).groups
    made = StepSamples(3, kept_groups=3)
    drawn = {step: Drawn() for step in (2, 3, 4)}
    for uid, step in (("c", 4), ("b", 3), ("a", 2)):
        one = prompted(drawn[step], uid, 0, step)
        made.add(one, await groups.make(one.draw), 0.0)
    found = made.records(str, {}, 1, 16)
    assert [str(one.id) for one in found[::4]] == ["3-0-0", "3-1-0", "3-2-0"]
    assert {one.staleness for one in found} == {2}


def test_what_the_trainer_did_not_stand_still_for_was_beside_an_update() -> None:
    made = StepSamples(1, began=1.0, ended=4.0, waited=0.25)
    assert made.overlapped(0.5) == 2.25
    assert made.overlapped(9.0) == 0.0
