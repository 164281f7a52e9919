"""Checkpoints are scored by evaluations beside the run, over memory; a test plays the job and the evaluations."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from ratchet_cli.views import runs as view
from ratchet_kit import projects
from ratchet_kit.errors import FailedPrecondition, InvalidArgument, Unavailable, invalid
from ratchet_kit.faults import Faults
from ratchet_kit.names import Location, VersionRef
from trainer_service import convert
from trainer_service.domain.run.checkpoint import Checkpoint, superseded
from trainer_service.domain.run.run import Phase, Run, State, Step
from trainer_service.domain.spec.algorithms import ALGORITHMS
from trainer_service.domain.spec.spec import Keep, ParentCheckpoint, ProblemSetRef, Validation, ValidationSet
from trainer_service.domain.work.validating import TOO_SLOW

from ..driving import driving, submitted

SUITE = Validation((ValidationSet(ProblemSetRef("mine/test"), 0.7), ValidationSet(ProblemSetRef("humaneval+"), 0.3)), 4)


@pytest.fixture
async def run(trainer: Any, make_spec: Any) -> Run:
    """Of three steps; its job has begun."""
    created: Run = await trainer.create(
        "r1", make_spec(steps=3, output_model="coder", validate=SUITE, keep=Keep(last=0))
    )
    async with driving(trainer, created.id):
        await submitted(trainer, created, 1)
    await trainer.reports.started(created.id, 1)
    return created


async def step(trainer: Any, run: Run, number: int, attempt: int = 1) -> None:
    """A step with its checkpoint, and a look."""
    now, policy_id = trainer.clock.now(), f"sha256:{number}-{attempt}"
    await trainer.reports.step(run.id, Step(number, {"loss": 1.0}, policy_id, now, attempt))
    uri = f"/exports/step-{number}-attempt-{attempt}"
    await trainer.reports.checkpoint(run.id, attempt, Checkpoint(number, uri, policy_id, now))
    await trainer.validating.look()


async def test_an_evaluation_is_of_its_runs_project(trainer: Any, make_spec: Any) -> None:
    with projects.acting("acme"):
        created = await trainer.create("r1", make_spec(steps=3, output_model="acme~coder", validate=SUITE))
    async with driving(trainer, created.id):
        await submitted(trainer, created, 1)
    await trainer.reports.started(created.id, 1)
    await step(trainer, created, 1)
    assert trainer.evaluations.made_for == ["acme"]


async def checkpoint(trainer: Any, run: Run, number: int) -> Checkpoint:
    (found,) = await trainer.store.checkpoints(run.id, 1, number - 1)
    assert found.step == number
    return found


async def test_each_checkpoint_is_an_evaluation_and_its_score_a_metric_of_its_step(trainer: Any, run: Run) -> None:
    await step(trainer, run, 1)
    assert trainer.evaluations.created == {f"{run.id}-step-1-attempt-1": "/exports/step-1-attempt-1"}
    assert (await checkpoint(trainer, run, 1)).evaluation_id == "eval_1"
    watching = trainer.runs.watch(run.id, 0)
    assert [one.metrics for one in (await anext(watching)).steps] == [{"loss": 1.0}]
    trainer.evaluations.end("eval_1", "sha256:1-1", 0.5)
    trainer.clock.advance(trainer.deadlines.retry)
    await trainer.validating.look()
    scored = await checkpoint(trainer, run, 1)
    assert (scored.validation_score, scored.validation.low, scored.validation.high) == (0.5, 0.25, 0.75)
    assert (await trainer.runs.get(run.id)).best_checkpoint == scored
    both = {"loss": 1.0, "validation_score": 0.5, "validation_score_low": 0.25, "validation_score_high": 0.75}
    async with asyncio.timeout(5):
        assert [one.metrics for one in (await anext(watching)).steps] == [both]
    await watching.aclose()


async def test_exports_that_are_not_the_best_any_more_are_deleted(trainer: Any, run: Run) -> None:
    for number, score in ((1, 0.5), (2, 0.75), (3, 0.25)):
        await step(trainer, run, number)
        trainer.evaluations.end(f"eval_{number}", f"sha256:{number}-1", score)
        await trainer.validating.look()
    assert trainer.folders.removed_exports == ["/exports/step-1-attempt-1", "/exports/step-3-attempt-1"]
    every = await trainer.store.checkpoints(run.id, 9, -1)
    assert [(one.uri, one.validation_score) for one in every] == [
        ("", 0.5),
        ("/exports/step-2-attempt-1", 0.75),
        ("", 0.25),
    ]
    assert (await trainer.runs.get(run.id)).best_checkpoint.step == 2


@pytest.mark.parametrize(
    ("keep", "gone"),
    [(Keep(1, 1), [1, 2, 4]), (Keep(0, 1), [1, 2, 4, 5]), (Keep(2, 1), [1, 2]), (Keep(1, 2), [1, 4]), (Keep(9, 1), [])],
)
def test_the_newest_and_the_best_are_kept(clock: Any, keep: Keep, gone: list[int]) -> None:
    scores = {1: 0.1, 2: 0.5, 3: 0.9, 4: 0.2, 5: 0.3}
    made = [Checkpoint(step, f"/exports/{step}", "sha256:1", clock.now(), score) for step, score in scores.items()]
    assert [one.step for one in superseded(made, keep)] == gone


async def test_a_run_that_validates_itself_keeps_what_it_says(trainer: Any, make_spec: Any) -> None:
    run = await begun(trainer, make_spec(steps=9, keep=Keep(last=1, best=1)))
    for number, score in ((1, 0.5), (2, 0.75), (3, 0.25), (4, 0.125)):
        await saved(trainer, run, number, score)
        await trainer.validating.look()
    assert trainer.folders.removed_exports == ["/exports/step-1", "/exports/step-3"]
    assert [one.uri for one in await trainer.store.checkpoints(run.id, 9, -1)] == [
        "",
        "/exports/step-2",
        "",
        "/exports/step-4",
    ]


async def test_a_run_of_old_keeps_all(trainer: Any, make_spec: Any) -> None:
    run = await begun(trainer, make_spec(steps=9))
    await trainer.store.change(run.id, lambda run: replace(run, spec=replace(run.spec, keep=None)))
    for number in (1, 2, 3):
        await saved(trainer, run, number, 0.5)
        await trainer.validating.look()
    assert trainer.folders.removed_exports == []


async def test_at_its_end_a_run_deletes_what_it_does_not_keep(trainer: Any, make_spec: Any) -> None:
    run = await begun(trainer, make_spec(steps=9, keep=Keep(last=0)))
    async with driving(trainer, run.id) as driver:
        for number, score in ((1, 0.5), (2, 0.25)):
            await saved(trainer, run, number, score)
        await trainer.runs.cancel(run.id)
        trainer.jobs.end(run.id, 1)
        await asyncio.wait_for(driver, 5)
    assert trainer.folders.removed_exports == ["/exports/step-2"]


async def test_what_another_run_starts_from_is_kept_while_that_is_under_way(trainer: Any, make_spec: Any) -> None:
    run = await begun(trainer, make_spec(steps=9, keep=Keep(last=1)))
    await saved(trainer, run, 1, 0.5)
    export = replace(trainer.folders.models["/models/starter"], ref=Location("/exports/step-1"))
    trainer.folders.models["/exports/step-1"] = export
    child = await trainer.create("r9", make_spec(base=None, parent=ParentCheckpoint(run.id, 1)))
    assert child.spec.base == Location("/exports/step-1")
    await saved(trainer, run, 2, 0.75)
    await trainer.validating.look()
    assert trainer.folders.removed_exports == []
    await trainer.runs.cancel(run.id)
    with pytest.raises(FailedPrecondition, match=f"run {child.id} starts from step 1 of run {run.id}"):
        await trainer.runs.delete(run.id)


async def test_what_the_registry_copies_is_kept_until_it_has_it(trainer: Any, make_spec: Any) -> None:
    run = await begun(trainer, make_spec(steps=9, keep=Keep(last=1)))
    trainer.registry.copied = [(run.id, 1)]
    for number, score in ((1, 0.5), (2, 0.75)):
        await saved(trainer, run, number, score)
    await trainer.validating.look()
    assert trainer.folders.removed_exports == []
    trainer.registry.copied = []
    await trainer.validating.look()
    assert trainer.folders.removed_exports == ["/exports/step-1"]


@pytest.mark.parametrize(
    ("parent", "field", "fault"),
    [
        (("run_none", 1), "spec.parent.run_id", "no run"),
        (("", 2), "spec.parent.step", "must be a step whose model is there"),
    ],
)
async def test_a_parent_that_leads_nowhere_is_a_fault(
    trainer: Any, make_spec: Any, parent: tuple[str, int], field: str, fault: str
) -> None:
    run = await begun(trainer, make_spec(steps=9))
    await saved(trainer, run, 1, 0.5)
    with pytest.raises(InvalidArgument) as refused:
        await trainer.create("r9", make_spec(base=None, parent=ParentCheckpoint(parent[0] or run.id, parent[1])))
    (said,) = [one for one in refused.value.violations if one.field == field]
    assert fault in said.description


@pytest.mark.parametrize("algorithm", ALGORITHMS)
async def test_the_spec_of_a_run_can_be_sent_again_with_a_parent(trainer: Any, make_spec: Any, algorithm: str) -> None:
    """As `ratchet runs resume --from` does."""
    run = await begun(trainer, make_spec(algorithm=algorithm, steps=9))
    await saved(trainer, run, 8, 0.5)
    trainer.folders.models["/exports/step-8"] = replace(
        trainer.folders.models["/models/starter"], outputs=int(algorithm == "reward_model")
    )
    message = view.continued(convert.spec_to_proto(run.spec), run.id, 8)
    faults = Faults()
    wanted = convert.spec_from_proto(message, faults)
    faults.raise_if_any("it cannot be read")
    if algorithm == "reward_model":
        with pytest.raises(InvalidArgument, match="makes a reward model, and no run goes on from one"):
            await trainer.create("r9", wanted)
        assert len(await trainer.store.unfinished()) == 1
        return
    child = await trainer.create("r9", wanted)
    assert (child.spec.keep, child.spec.steps) == (Keep(), 1)
    learned = {"pairs": (run.spec.pairs,)} if run.spec.pairs else {"problems": (run.spec.problems,)}
    assert child.spec.parent == ParentCheckpoint(run.id, 8, run.spec.base, **learned)
    assert convert.spec_to_proto(child.spec).parent == message.parent


async def begun(trainer: Any, spec: Any) -> Run:
    run: Run = await trainer.create("r2", spec)
    async with driving(trainer, run.id):
        await submitted(trainer, run, 1)
    await trainer.reports.started(run.id, 1)
    return run


async def saved(trainer: Any, run: Run, number: int, score: float) -> None:
    """A step of a run that validates itself, with its checkpoint."""
    now = trainer.clock.now()
    await trainer.reports.step(run.id, Step(number, {"loss": 1.0}, f"sha256:{number}", now, 1))
    made = Checkpoint(number, f"/exports/step-{number}", f"sha256:{number}", now, score)
    await trainer.reports.checkpoint(run.id, 1, made)


async def test_the_newest_checkpoint_takes_the_turn_of_those_that_wait(trainer: Any, make_spec: Any) -> None:
    run = await trainer.create("r2", make_spec(steps=9, validate=SUITE))
    async with driving(trainer, run.id):
        await submitted(trainer, run, 1)
    await trainer.reports.started(run.id, 1)
    for number in range(1, 6):
        await step(trainer, run, number)
    assert len(trainer.evaluations.created) == 2
    passed_over = [(await checkpoint(trainer, run, number)).unscored for number in (3, 4)]
    assert passed_over == ["a newer checkpoint took its turn"] * 2
    assert [one.message for one in (await trainer.runs.get(run.id)).notices] == [TOO_SLOW]
    trainer.evaluations.end("eval_1", "sha256:1-1", 0.5)
    await trainer.validating.look()
    assert list(trainer.evaluations.created)[-1] == f"{run.id}-step-5-attempt-1"


async def test_a_restart_evaluates_nothing_twice(trainer: Any, run: Run) -> None:
    await step(trainer, run, 1)
    now = trainer.clock.now()
    # The service died before it had stored the evaluation's id, and the job says again what it has exported.
    again = Checkpoint(1, "/exports/step-1-attempt-1", "sha256:1-1", now)
    await trainer.reports.checkpoint(run.id, 1, again)
    await trainer.validating.look()
    assert (await checkpoint(trainer, run, 1)).evaluation_id == "eval_1"
    assert len(trainer.evaluations.created) == 1


async def test_a_step_that_an_attempt_repeats_is_measured_by_its_own_weights(trainer: Any, run: Run) -> None:
    await step(trainer, run, 1)
    async with driving(trainer, run.id):
        trainer.jobs.end(run.id, 1)
        await submitted(trainer, run, 2)
    await trainer.reports.started(run.id, 2)
    await step(trainer, run, 1, attempt=2)
    trainer.evaluations.end("eval_1", "sha256:1-1", 0.9)
    trainer.evaluations.end("eval_2", "sha256:1-2", 0.5)
    await trainer.validating.look()
    assert (await checkpoint(trainer, run, 1)).validation_score == 0.5


@pytest.mark.parametrize("lost", ["failed", "deleted", "other weights", "refused"])
async def test_a_checkpoint_without_a_score_is_said_and_is_never_a_0(trainer: Any, run: Run, lost: str) -> None:
    if lost == "refused":
        trainer.evaluations.fault = InvalidArgument("mine/test is gone")
    await step(trainer, run, 1)
    match lost:
        case "failed":
            trainer.evaluations.fail("eval_1", "the sandbox was away")
        case "deleted":
            trainer.evaluations.forget("eval_1")
        case "other weights":
            trainer.evaluations.end("eval_1", "sha256:other", 0.9)
    await trainer.validating.look()
    left = await checkpoint(trainer, run, 1)
    reasons = {
        "failed": "evaluation eval_1 has no score: the sandbox was away",
        "deleted": "evaluation eval_1 has no score: it was deleted",
        "other weights": "evaluation eval_1 measured other weights: sha256:other",
        "refused": "its evaluation is refused: mine/test is gone",
    }
    assert (left.validation_score, left.unscored) == (None, reasons[lost])
    now = await trainer.runs.get(run.id)
    assert now.notices[-1].message == f"the checkpoint of step 1 has no score: {reasons[lost]}"
    assert "validation_score" not in (await trainer.store.steps(run.id, 1, 0))[0].metrics


async def test_while_eval_service_is_away_a_checkpoint_waits(trainer: Any, run: Run) -> None:
    trainer.evaluations.fault = Unavailable("eval-service is away")
    await step(trainer, run, 1)
    assert (await checkpoint(trainer, run, 1)).awaits_score
    trainer.evaluations.fault = None
    await trainer.validating.look()
    assert (await checkpoint(trainer, run, 1)).evaluation_id == "eval_1"


async def test_the_end_waits_for_the_scores_and_takes_the_best(trainer: Any, run: Run) -> None:
    for number in (1, 2):
        await step(trainer, run, number)
    trainer.evaluations.end("eval_1", "sha256:1-1", 0.75)
    await step(trainer, run, 3)
    await trainer.reports.finished(run.id, 1, None)
    trainer.jobs.end(run.id, 1)
    await asyncio.wait_for(trainer.driver.drive(run.id), 5)  # it leaves the run alone meanwhile
    await trainer.validating.look()
    waiting = await trainer.runs.get(run.id)
    assert (waiting.state, waiting.phase) == (State.RUNNING, Phase.VALIDATING)
    assert waiting.waits_for == "step 2: eval_2, 0 of 8 samples; step 3: eval_3, 0 of 8 samples"
    assert not trainer.registry.registered
    trainer.evaluations.end("eval_2", "sha256:2-1", 0.5)
    trainer.evaluations.fail("eval_3", "the sandbox was away")
    await trainer.validating.look()
    ready = await trainer.runs.get(run.id)
    assert (ready.phase, ready.waits_for) == (Phase.REGISTERING, "")
    assert run.id in trainer.queue.ids
    await asyncio.wait_for(trainer.driver.drive(run.id), 5)
    done = await trainer.runs.get(run.id)
    assert (done.state, done.version, done.best_checkpoint.step) == (State.SUCCEEDED, VersionRef("coder", 1), 1)
    _, source, lineage = trainer.registry.registered[run.id]
    assert source == "/exports/step-1-attempt-1"
    assert (lineage.selection_digest, lineage.selection_fingerprints) == ("sha256:eval_1", ("eval_1/0", "eval_1/1"))


async def test_the_evaluations_of_a_run_that_is_cancelled_end(trainer: Any, run: Run) -> None:
    await step(trainer, run, 1)
    await trainer.runs.cancel(run.id)
    await asyncio.wait_for(trainer.driver.drive(run.id), 5)
    assert trainer.evaluations.cancelled == ["eval_1"]


async def test_a_suite_is_checked_and_pinned_when_the_run_is_made(trainer: Any, make_spec: Any, run: Run) -> None:
    assert run.spec.validation_problems is None
    assert run.spec.validate.suite[0].problems.name == "mine@1/test"
    assert run.notices == ()
    trainer.evaluations.fault = invalid("validate.suite[1]", "is not there")
    with pytest.raises(InvalidArgument) as caught:
        await trainer.create("r2", make_spec(validate=SUITE))
    assert [one.field for one in caught.value.violations] == ["spec.validate.suite[1]"]


async def test_a_run_is_validated_in_one_way_and_not_on_what_it_learns_from(trainer: Any, make_spec: Any) -> None:
    learned = Validation((ValidationSet(ProblemSetRef("composed/train")),))
    spec = make_spec(validate=learned, validation_problems=ProblemSetRef("composed/validation"))
    with pytest.raises(InvalidArgument) as caught:
        await trainer.create("r2", spec)
    assert {one.field for one in caught.value.violations} == {
        "spec.validation_problems",
        "spec.validate.suite[0].problems.name",
    }
    with pytest.raises(InvalidArgument, match="REWARD_MODEL answers no problems"):
        await trainer.create("r3", make_spec(algorithm="reward_model", validate=SUITE))


def test_a_checkpoint_gets_one_score(clock: Any) -> None:
    made = Checkpoint(1, "/exports/1", "sha256:1", clock.now(), unscored="it failed")
    with pytest.raises(FailedPrecondition, match="gets none"):
        made.left_unscored("again", "/exports/1")
    with pytest.raises(FailedPrecondition, match="another attempt"):
        made.deleted("/exports/2")
