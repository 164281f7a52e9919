"""What becomes of a run that has trained: the driver and the registry over memory, a test plays the job."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from ratchet_kit.errors import (
    AlreadyExists,
    FailedPrecondition,
    Failure,
    Internal,
    InvalidArgument,
    NotFound,
    ResourceExhausted,
    Unauthenticated,
    Unavailable,
)
from ratchet_kit.names import Location, VersionRef
from ratchet_testing.waiting import until
from trainer_service.domain.run.run import Phase, Run, State
from trainer_service.domain.spec.spec import ParentCheckpoint, ProblemSetRef
from trainer_service.domain.work.ports import VersionState

from ..driving import do_steps, driving, submitted, train


async def test_the_best_checkpoint_becomes_a_version_with_its_lineage(trainer: Any, run: Run) -> None:
    async with driving(trainer, run.id) as driver:
        await train(trainer, run)
        await asyncio.wait_for(driver, 5)
    done = await trainer.runs.get(run.id)
    assert (done.state, done.version, done.best_checkpoint.step) == (State.SUCCEEDED, VersionRef("coder", 1), 2)
    model, source, lineage = trainer.registry.registered[run.id]
    assert (model, source) == ("coder", "/exports/2")
    assert (lineage.base, lineage.run_id, lineage.data_digest, lineage.step) == (
        Location("/models/starter"),
        run.id,
        "sha256:t",
        2,
    )
    assert lineage.config_digest.startswith("sha256:")
    assert len(lineage.training_fingerprints) == 1000
    assert lineage.selection_digest == "sha256:v"
    assert lineage.selection_fingerprints[0].startswith("composed/validation/")
    assert trainer.policies.released == [(run.id, 1)]
    assert [state for _, state in trainer.events.published] == [
        State.QUEUED,
        State.STARTING,
        State.RUNNING,
        State.RUNNING,
        State.SUCCEEDED,
    ]


async def test_any_step_with_a_model_becomes_a_version_when_asked(trainer: Any, run: Run) -> None:
    async with driving(trainer, run.id) as driver:
        await train(trainer, run)
        await asyncio.wait_for(driver, 5)
    export = trainer.exporting.export
    with pytest.raises(FailedPrecondition, match=f"step 1 of run {run.id} has no model; these have one: 2"):
        await export("e1", run.id, 1, "")
    made = await export("e1", run.id, 2, "other")
    assert await export("e1", run.id, 2, "other") == made == VersionRef("other", 2)
    assert await export("e2", run.id, 2, "") == VersionRef("coder", 3)
    of_end, *exported = trainer.registry.registered.values()
    assert [(model, uri) for model, uri, _ in exported] == [("other", "/exports/2"), ("coder", "/exports/2")]
    assert [lineage for *_, lineage in exported] == [of_end[2]] * 2
    with pytest.raises(NotFound):
        await export("e1", "run_none", 2, "")


async def test_an_export_needs_a_model_of_the_registry(trainer: Any, make_spec: Any) -> None:
    run = await trainer.create("r2", make_spec(output_model=""))
    with pytest.raises(InvalidArgument, match="model must name a model"):
        await trainer.exporting.export("e1", run.id, 2, "")


async def test_what_was_learned_from_pairs_is_known_by_their_prompts(trainer: Any, make_spec: Any) -> None:
    run = await trainer.create("r2", make_spec(algorithm="dpo", steps=3, output_model="coder"))
    async with driving(trainer, run.id) as driver:
        await train(trainer, run)
        await asyncio.wait_for(driver, 5)
    _, _, lineage = trainer.registry.registered[run.id]
    assert lineage.data_digest == "sha256:p"
    assert lineage.training_fingerprints[0] == "pairs.jsonl/0"


async def test_a_version_has_learned_what_the_parents_of_its_run_had(trainer: Any, make_spec: Any, run: Run) -> None:
    """No gate may take a problem for unseen that an ancestor has learned from, whatever the run itself learns from."""
    started = trainer.folders.models["/models/starter"]
    trainer.folders.models["/exports/2"] = replace(started, ref=Location("/exports/2"))
    async with driving(trainer, run.id) as driver:
        await train(trainer, run)
        await asyncio.wait_for(driver, 5)
    parent = ParentCheckpoint(run.id, 2)
    child = await trainer.create(
        "r2", make_spec(base=None, parent=parent, algorithm="dpo", steps=3, output_model="coder")
    )
    async with driving(trainer, child.id) as driver:
        await train(trainer, child)
        await asyncio.wait_for(driver, 5)
    _, _, lineage = trainer.registry.registered[child.id]
    assert (lineage.base, lineage.data_digest) == (Location("/models/starter"), "sha256:p")
    assert {digest: len(prints) for digest, prints in lineage.drawn.items()} == {"sha256:t": 1000}


@pytest.mark.parametrize("now", [{}, {"composed/train": "sha256:another"}], ids=["gone", "changed"])
async def test_what_was_learned_is_not_known_once_the_problems_are_gone(
    trainer: Any, run: Run, now: dict[str, str]
) -> None:
    trainer.ports.problems.digests = now
    async with driving(trainer, run.id) as driver:
        await train(trainer, run)
        await asyncio.wait_for(driver, 5)
    assert trainer.registry.registered[run.id][2].training_fingerprints == ()


async def test_an_unreachable_registry_is_waited_for(trainer: Any, run: Run) -> None:
    async with driving(trainer, run.id) as driver:
        await submitted(trainer, run, 1)
        await trainer.reports.started(run.id, 1)
        await do_steps(trainer, run, 1, 1, 2, 3)
        trainer.registry.down = True
        await trainer.reports.finished(run.id, 1, None)
        await asyncio.sleep(0.02)
        assert (await trainer.runs.get(run.id)).state is State.RUNNING
        trainer.registry.down = False
        await asyncio.wait_for(driver, 5)
    assert (await trainer.runs.get(run.id)).version == VersionRef("coder", 1)


async def test_a_registry_that_refuses_fails_the_run(trainer: Any, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(*_: Any) -> None:
        raise InvalidArgument("the folder holds no model")

    monkeypatch.setattr(trainer.registry, "register", refuse)
    async with driving(trainer, run.id) as driver:
        await submitted(trainer, run, 1)
        await trainer.reports.started(run.id, 1)
        await do_steps(trainer, run, 1, 1, 2, 3)
        await trainer.reports.finished(run.id, 1, None)
        await asyncio.wait_for(driver, 5)
    failure = (await trainer.runs.get(run.id)).failure
    assert failure.message == "the registry refused the best checkpoint: the folder holds no model"


async def test_a_version_is_waited_for_until_it_is_ready(
    trainer: Any, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    look_up, reads = trainer.ports.problems.look_up, list[ProblemSetRef]()

    async def count(ref: ProblemSetRef) -> Any:
        reads.append(ref)
        return await look_up(ref)

    monkeypatch.setattr(trainer.ports.problems, "look_up", count)
    trainer.registry.state = VersionState.PENDING
    async with driving(trainer, run.id) as driver:
        await train(trainer, run)
        await until(lambda: trainer.registry.registered)
        await asyncio.sleep(0.02)
        assert [ref.name for ref in reads] == ["composed/train", "composed/validation"]  # however often it looks
        going_on = await trainer.runs.get(run.id)
        assert (going_on.state, going_on.phase) == (State.RUNNING, Phase.REGISTERING)
        driver.cancel()  # the service is started again
    trainer.registry.state = VersionState.READY
    async with driving(trainer, run.id) as driver:
        await asyncio.wait_for(driver, 5)
    assert (await trainer.runs.get(run.id)).version == VersionRef("coder", 1)
    assert list(trainer.registry.registered) == [run.id]


async def test_a_version_that_the_registry_cannot_make_fails_the_run(trainer: Any, run: Run) -> None:
    trainer.registry.state = VersionState.FAILED
    async with driving(trainer, run.id) as driver:
        await train(trainer, run)
        await asyncio.wait_for(driver, 5)
    failed = await trainer.runs.get(run.id)
    assert failed.failure == Failure("INVALID_ARGUMENT", "the registry could not make coder@1: no weights")
    assert failed.version is None


async def test_a_version_that_was_refused_is_asked_for_anew_when_the_run_is_resumed(trainer: Any, run: Run) -> None:
    trainer.registry.state = VersionState.FAILED
    async with driving(trainer, run.id) as driver:
        await train(trainer, run)
        await asyncio.wait_for(driver, 5)
    trainer.registry.state = VersionState.READY
    trainer.registry.failures = {run.id: Failure("INVALID_ARGUMENT", "no weights")}
    await trainer.runs.resume(run.id)
    async with driving(trainer, run.id) as driver:
        await submitted(trainer, run, 2)
        await trainer.reports.started(run.id, 2)
        await trainer.reports.finished(run.id, 2, None)
        trainer.jobs.end(run.id, 2)
        await asyncio.wait_for(driver, 5)
    assert (await trainer.runs.get(run.id)).version == VersionRef("coder", 2)
    assert list(trainer.registry.registered) == [run.id, f"{run.id}-resumed-1"]


@pytest.mark.parametrize(
    "fault",
    [Internal("a bug of the registry"), Unauthenticated("another token"), ResourceExhausted("full"), KeyError("?")],
)
async def test_a_run_that_has_trained_waits_for_the_registry_whatever_it_answers(
    trainer: Any, run: Run, fault: Exception
) -> None:
    trainer.registry.fault = fault
    async with driving(trainer, run.id) as driver:
        await train(trainer, run)
        await asyncio.sleep(0.02)
        trainer.clock.advance(timedelta(seconds=31))
        with pytest.raises(Unavailable):  # others have their turn
            await asyncio.wait_for(driver, 5)
    with pytest.raises(Unavailable):
        await trainer.driver.give_up(run.id, Internal("its worker says so"))
    assert (await trainer.runs.get(run.id)).state is State.RUNNING
    trainer.registry.fault = None
    async with driving(trainer, run.id) as driver:
        await asyncio.wait_for(driver, 5)
    assert (await trainer.runs.get(run.id)).state is State.SUCCEEDED


async def test_a_version_that_the_platform_could_not_make_is_made_again(trainer: Any, run: Run) -> None:
    full = Failure("RESOURCE_EXHAUSTED", "the artifact store is full")
    trainer.registry.failures = {run.id: full, f"{run.id}-2": full}
    async with driving(trainer, run.id) as driver:
        await train(trainer, run)
        await until(lambda: run.id in trainer.registry.registered)
        await asyncio.sleep(0.02)
        assert list(trainer.registry.registered) == [run.id]
        trainer.clock.advance(timedelta(seconds=61))
        await until(lambda: f"{run.id}-2" in trainer.registry.registered)
        await asyncio.sleep(0.02)
        assert not driver.done() or isinstance(driver.exception(), Unavailable)
    trainer.clock.advance(timedelta(seconds=121))
    async with driving(trainer, run.id) as driver:
        await asyncio.wait_for(driver, 5)
    done = await trainer.runs.get(run.id)
    assert (done.state, done.version) == (State.SUCCEEDED, VersionRef("coder", 3))


async def test_a_service_that_was_updated_meanwhile_registers_under_its_own_lineage(
    trainer: Any, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    register = trainer.registry.register

    async def refuse_the_first(request_id: str, *spec: Any) -> Any:
        if request_id == run.id:
            raise AlreadyExists("the request was for another version")
        return await register(request_id, *spec)

    monkeypatch.setattr(trainer.registry, "register", refuse_the_first)
    async with driving(trainer, run.id) as driver:
        await train(trainer, run)
        await asyncio.wait_for(driver, 5)
    assert list(trainer.registry.registered) == [f"{run.id}-2"]


async def test_the_version_of_a_run_that_learned_nothing_is_labelled(trainer: Any, run: Run) -> None:
    async with driving(trainer, run.id) as driver:
        await submitted(trainer, run, 1)
        notice = "the run learned nothing"
        await trainer.store.change(run.id, lambda run: run.noticed(notice, trainer.clock.now(), "learned_nothing"))
        await train(trainer, run)
        await asyncio.wait_for(driver, 5)
    assert trainer.registry.registered[run.id][2].labels == {"learned": "nothing"}
