"""What is made for a step is counted by its prompts, in whichever order their groups end."""

from typing import Any

from trainer_service.job.samples.curriculum import Evidence
from trainer_service.job.samples.groups import Draw
from trainer_service.job.samples.step_samples import Prompted, StepSamples

from ..generating import PROBLEMS, Environment, Policy


def prompted(made: StepSamples, uid: str, index: int) -> Prompted:
    place, times = made.place(uid, PROBLEMS[index].id)
    return Prompted(uid, index, place, Draw(PROBLEMS[index], 4, 1, times, "sha256:mine"), 0)


async def test_evidence_comes_in_the_order_of_the_draws(make_groups: Any) -> None:
    groups = make_groups(Policy(), Environment()).groups
    made = StepSamples()
    drawn = [prompted(made, uid, index) for uid, index in (("a", 2), ("b", 0), ("c", 2))]
    [whole] = await groups.validate(PROBLEMS[:1], samples=2)
    [none] = await groups.validate(PROBLEMS[:1], samples=0)
    for one, group in zip(reversed(drawn), (whole, none, whole), strict=True):
        made.add(one, group)
    told = Evidence.of(2, [True, True], [0.0, 0.5])
    assert made.evidence == [told, told]
    assert [one.place for one in drawn] == [0, 1, 2]
    assert [one.draw.seed for one in drawn] == [0, 0, 1]  # how often its problem was drawn before
    assert [shown["problem"] for shown in made.shown(lambda tokens: "")] == ["p2", "p2"]


def test_what_the_trainer_did_not_stand_still_for_was_beside_an_update() -> None:
    made = StepSamples(began=1.0, ended=4.0, waited=0.25)
    assert made.overlapped(0.5) == 2.25
    assert made.overlapped(9.0) == 0.0
