"""Newer versions of a run's problems: the step that draws from them first is settled once."""

from typing import Any

import pytest

from ratchet_kit.errors import FailedPrecondition, InvalidArgument
from ratchet_kit.names import VersionRef
from trainer_service.domain.run.checkpoint import Checkpoint
from trainer_service.domain.run.run import Drawn, Run, Step
from trainer_service.domain.spec.curriculum import Curriculum
from trainer_service.domain.spec.plugins import Plugin
from trainer_service.domain.spec.spec import ProblemSetRef

MINE = ProblemSetRef("mine@1/train")
SECOND = Drawn(ProblemSetRef("mine@2/train", digest="sha256:2"), 2)
THIRD = Drawn(ProblemSetRef("mine@3/train", digest="sha256:3"), 4)


async def running(trainer: Any, spec: Any) -> Run:
    run: Run = await trainer.create("r1", spec)
    now = trainer.clock.now()
    started: Run = await trainer.store.change(run.id, lambda run: run.start(now).begin(1, now))
    return started


async def drawn(trainer: Any, run: Run, step: int, attempt: int = 1) -> list[Drawn]:
    return list(await trainer.following.drawn(run.id, attempt, step))


async def test_a_newer_version_is_drawn_from_and_an_attempt_that_repeats_steps_draws_the_same(
    trainer: Any, make_spec: Any
) -> None:
    problems = trainer.ports.problems
    run = await running(trainer, make_spec(problems=MINE, follow_problems=True, steps=9))
    assert await drawn(trainer, run, 1) == []
    problems.newest = "mine@2/train"
    assert await drawn(trainer, run, 1) == []  # settled
    assert await drawn(trainer, run, 2) == [SECOND]
    problems.away = True
    assert await drawn(trainer, run, 3) == [SECOND]
    problems.away, problems.newest = False, "mine@3/train"
    now = trainer.clock.now()
    await trainer.store.change(run.id, lambda run: run.again(1, now).start(now).begin(2, now))
    with pytest.raises(FailedPrecondition, match="attempt 1 is stale"):
        await drawn(trainer, run, 4)
    assert [await drawn(trainer, run, step, 2) for step in (1, 2, 3, 4)] == [[], [SECOND], [SECOND], [SECOND, THIRD]]
    kept = await trainer.runs.get(run.id)
    assert kept.drawn == (SECOND, THIRD)
    said = [notice.message for notice in kept.notices if "drawn" in notice.message]
    assert said == ["mine@2/train is drawn from, from step 2 on", "mine@3/train is drawn from, from step 4 on"]
    assert problems.used[-2:] == ["mine@2/train", "mine@3/train"]


async def test_a_version_at_fault_is_left_out_and_said_once(trainer: Any, make_spec: Any) -> None:
    problems = trainer.ports.problems
    run = await running(trainer, make_spec(problems=MINE, follow_problems=True, steps=9))
    problems.newest, problems.faults = "mine@2/train", {"mine@2/train": "t7: tests[0].check: never calls the program"}
    assert [await drawn(trainer, run, step) for step in (1, 2)] == [[], []]
    said = [notice.message for notice in (await trainer.runs.get(run.id)).notices if "mine@2" in notice.message]
    assert said == [
        "mine@2/train is not drawn from: problems.name holds problems that nothing can be learned from: t7: tests[0]"
        ".check: never calls the program"
    ]
    problems.newest = "mine@3/train"
    assert [one.problems.name for one in await drawn(trainer, run, 3)] == ["mine@3/train"]


async def test_a_checkpoint_has_learned_from_what_was_drawn_until_then(trainer: Any, make_spec: Any) -> None:
    run = await running(trainer, make_spec(problems=MINE, follow_problems=True, steps=4, output_model="coder"))
    now = trainer.clock.now()
    for step, newest in enumerate(("", "mine@2/train", "mine@2/train", "mine@3/train"), start=1):
        trainer.ports.problems.newest = newest
        await drawn(trainer, run, step)
        await trainer.reports.step(run.id, Step(step, {}, f"sha256:{step}", now, 1))
    await trainer.reports.checkpoint(run.id, 1, Checkpoint(3, "/exports/3", "sha256:3", now, 0.9))
    await trainer.reports.finished(run.id, 1, None)
    await trainer.driver.drive(run.id)
    assert (await trainer.runs.get(run.id)).version == VersionRef("coder", 1)
    _, _, lineage = trainer.registry.registered[run.id]
    assert (lineage.data_digest, list(lineage.drawn)) == ("sha256:1", ["sha256:2"])
    assert lineage.drawn["sha256:2"][0] == "mine@2/train/0"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"problems": ProblemSetRef("composed/train")}, "composed/train is no data set"),
        ({"algorithm": "sft"}, "SFT goes through its data in passes"),
        ({"curriculum": Curriculum()}, "a curriculum or a sampler draws"),
        ({"plugins": (Plugin("sampler", "hardest"),)}, "a curriculum or a sampler draws"),
    ],
)
async def test_who_else_draws_follows_nothing(
    trainer: Any, make_spec: Any, changes: dict[str, Any], reason: str
) -> None:
    with pytest.raises(InvalidArgument, match="the run cannot be made") as raised:
        await trainer.create("r1", make_spec(**{"problems": MINE, "follow_problems": True} | changes))
    assert [one.field for one in raised.value.violations] == ["spec.follow_problems"]
    assert reason in raised.value.violations[0].description
