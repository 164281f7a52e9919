import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from ratchet_kit.errors import (
    AlreadyExists,
    DataLoss,
    FailedPrecondition,
    Failure,
    InvalidArgument,
    NotFound,
    Unavailable,
)
from ratchet_kit.faults import Faults
from ratchet_kit.names import AliasRef, VersionRef
from ratchet_kit.storage import SPARE_BYTES
from ratchet_rewards import Component, Reward, digest
from trainer_service.domain.create.runs import READ_BYTES, Progress
from trainer_service.domain.inputs.found import Shape, Trial
from trainer_service.domain.run.ports import RunFilter
from trainer_service.domain.run.run import Phase, State, Step
from trainer_service.domain.spec.hyperparameters import Hyperparameters
from trainer_service.domain.spec.limits import Limits
from trainer_service.domain.spec.spec import ProblemSetRef, Resources


async def test_a_run_is_stored_complete_queued_and_announced(trainer: Any, make_spec: Any) -> None:
    run = await trainer.create("r1", make_spec())
    assert await trainer.runs.get(run.id) == run
    assert run.state is State.QUEUED
    assert run.spec.problems.digest == "sha256:t"
    assert run.spec.validation_problems == ProblemSetRef("composed/validation", digest="sha256:v")
    assert run.spec.hyperparameters.group_size == 8
    assert trainer.queue.ids == [run.id]
    assert trainer.events.published == [(run.id, State.QUEUED)]


async def test_create_is_idempotent_under_its_request_id(trainer: Any, make_spec: Any) -> None:
    first = await trainer.create("r1", make_spec())
    assert await trainer.create("r1", make_spec()) == first
    assert trainer.queue.ids == [first.id]
    with pytest.raises(AlreadyExists):
        await trainer.create("r1", make_spec(steps=5))
    assert (await trainer.create("", make_spec())).id != (await trainer.create("", make_spec())).id


async def test_a_run_that_is_only_validated_is_not_stored(trainer: Any, make_spec: Any) -> None:
    run = await trainer.runs.create("r1", make_spec(), Faults(), validate_only=True)
    assert (run.id, run.spec.hyperparameters.group_size) == ("", 8)
    assert (trainer.queue.ids, trainer.events.published) == ([], [])
    with pytest.raises(InvalidArgument, match="steps"):
        await trainer.runs.create("r1", make_spec(steps=0), Faults(), validate_only=True)
    assert (await trainer.create("r1", make_spec())).id


@pytest.mark.parametrize(
    ("changes", "refused"),
    [
        ({}, True),
        ({"algorithm": "sft"}, False),
        ({"reward": Reward(components=(Component("style"),))}, False),
        ({"reward": Reward(components=(Component("style", passing_only=True),))}, True),
    ],
)
async def test_references_are_run_where_tests_judge(
    changes: dict[str, Any], refused: bool, trainer: Any, make_spec: Any
) -> None:
    problems = trainer.ports.problems
    problems.trials = {"composed/validation": Trial(9, 8, tuple(f"p/{number}: does not pass" for number in range(7)))}
    spec = make_spec(**changes)
    await trainer.runs.create("r1", spec, Faults(), validate_only=True)
    if not refused:
        assert (await trainer.create("r1", spec)).notices == ()
        return
    with pytest.raises(InvalidArgument) as raised:
        await trainer.create("r1", spec)
    (fault,) = raised.value.violations
    assert fault.field == "spec.validation_problems.name"
    assert "p/4: does not pass; and 2 more (of 8 that were tried): ratchet benchmarks verify" in fault.description
    assert trainer.queue.ids == []
    problems.trials = {"composed/train": Trial(20, 20), "composed/validation": Trial(9, 8)}
    (notice,) = (await trainer.create("r1", spec)).notices
    assert notice.message == "references of 28 of its 29 problems were run: the others are taken as they are"


@pytest.mark.parametrize(
    ("changes", "fields"),
    [({}, ["problems", "validation_problems"]), ({"algorithm": "sft"}, ["validation_problems"])],
)
async def test_what_is_no_fault_of_problems_is_noticed(
    changes: dict[str, Any], fields: list[str], trainer: Any, make_spec: Any
) -> None:
    trainer.ports.problems.notices = ("tests expect decimals",)
    for validate_only in (True, False):
        run = await trainer.runs.create("r1", make_spec(**changes), Faults(), validate_only=validate_only)
        assert [one.message for one in run.notices] == [f"{field}: tests expect decimals" for field in fields]


async def test_a_disk_without_room_for_checkpoints_is_told_at_create(trainer: Any, make_spec: Any) -> None:
    """The base has 7 MB, and a run holds it eight times. The job wants to spare as much as is asked for here."""
    trainer.folders.free = SPARE_BYTES + 50_000_000
    with pytest.raises(
        FailedPrecondition, match=r"need 0.06 GB, and 0.27 GB must .* 0.32 GB are.* 0.01 GB are missing"
    ):
        await trainer.create("r1", make_spec())
    assert (await trainer.create("r0", make_spec(hyperparameters=Hyperparameters(lora_rank=8)))).state is State.QUEUED
    trainer.folders.free = SPARE_BYTES + 60_000_000
    assert (await trainer.create("r1", make_spec())).state is State.QUEUED


SHAPE = Shape(parameters=1_750_000, layers=4, hidden=192, inner=512, vocabulary=512)


async def test_what_a_run_will_take_is_told_at_create(trainer: Any, make_spec: Any) -> None:
    known = trainer.folders.models["/models/starter"]
    assert (await trainer.create("r0", make_spec())).forecast is None
    trainer.folders.models["/models/starter"] = replace(known, shape=SHAPE)
    forecast = (await trainer.create("r1", make_spec())).forecast
    assert 1 << 30 < forecast.peak_bytes < 4 << 30
    assert forecast.step_time > timedelta(0)


async def test_a_run_may_take_what_engines_leave_of_a_gpu(
    trainer: Any, make_spec: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = trainer.folders.models["/models/starter"]
    trainer.folders.models["/models/starter"] = replace(known, shape=SHAPE)
    limits = Limits(devices=("cuda",), accelerators=2, gpus={"GPU-a": 80 << 30, "GPU-b": 80 << 30})
    monkeypatch.setattr(trainer.runs, "_limits", limits)
    wide = await trainer.create("r1", make_spec())
    assert wide.forecast.limit_bytes == 80 << 30
    assert (wide.spec.passes().tokens, wide.spec.passes().recomputed) == (16384, False)
    trainer.ports.policies.gpus = {"GPU-b": 72 << 30, "GPU-elsewhere": 80 << 30}
    assert (await trainer.create("r2", make_spec())).forecast.limit_bytes == 8 << 30
    sleeping = replace(make_spec(), resources=Resources(shares_gpu=True))
    assert (await trainer.create("turns", sleeping)).forecast.limit_bytes == pytest.approx(72.8 * (1 << 30))
    trainer.ports.policies.gpus = {"GPU-b": (80 << 30) - (1 << 28)}
    with pytest.raises(
        FailedPrecondition, match=r"raise .* \(RATCHET_ROLLOUT_GPU_MEMORY_UTILIZATION says what engines"
    ):
        await trainer.create("r3", make_spec())


async def test_what_cannot_fit_is_refused_at_create(trainer: Any, make_spec: Any) -> None:
    large = replace(SHAPE, parameters=700_000_000_000)
    known = trainer.folders.models["/models/starter"]
    trainer.folders.models["/models/starter"] = replace(known, shape=large)
    with pytest.raises(
        FailedPrecondition, match=r"training takes about 13\d{3}\.\d GiB of this machine, and a run may"
    ):
        await trainer.create("r1", make_spec())
    assert not await trainer.store.unfinished()


async def test_what_lies_outside_the_spec_is_named_with_what_lies_in_it(trainer: Any, make_spec: Any) -> None:
    spec = make_spec(
        base=VersionRef("nobody", 1),
        problems=ProblemSetRef("nothing"),
        validation_problems=ProblemSetRef("neither"),
        steps=0,
    )
    with pytest.raises(InvalidArgument) as refusal:
        await trainer.create("r1", spec)
    fields = {violation.field for violation in refusal.value.violations}
    assert fields == {"spec.base", "spec.problems.name", "spec.validation_problems.name", "spec.steps"}
    assert not await trainer.store.unfinished()


async def test_an_alias_is_pinned_to_what_it_names_at_create(trainer: Any, make_spec: Any) -> None:
    run = await trainer.create("r1", make_spec(base=AliasRef("starter", "champion")))
    assert run.spec.base == VersionRef("starter", 1)


async def test_an_unreachable_registry_is_no_fault_of_the_spec(trainer: Any, make_spec: Any) -> None:
    trainer.registry.down = True
    with pytest.raises(Unavailable):
        await trainer.create("r1", make_spec(base=VersionRef("starter", 1)))


async def test_a_set_without_a_validation_split_is_not_validated(trainer: Any, make_spec: Any) -> None:
    run = await trainer.create("r1", make_spec(problems=ProblemSetRef("mine.jsonl")))
    assert run.spec.validation_problems is None


async def test_a_limit_alone_is_of_the_sets_own_validation_split(trainer: Any, make_spec: Any) -> None:
    limit = ProblemSetRef("", limit=8)
    run = await trainer.create("r1", make_spec(validation_problems=limit))
    assert (run.spec.validation_problems.name, run.spec.validation_problems.limit) == ("composed/validation", 8)
    for changes, field in (
        ({"problems": ProblemSetRef("mine.jsonl")}, "spec.validation_problems.name"),
        ({"problems": ProblemSetRef("other/train")}, "spec.validation_problems.name"),
        ({"validation_problems": ProblemSetRef("", limit=0)}, "spec.validation_problems.limit"),
    ):
        with pytest.raises(InvalidArgument) as refusal:
            await trainer.create("", make_spec(**{"validation_problems": limit} | changes))
        assert field in {violation.field for violation in refusal.value.violations}


async def test_a_run_is_kept_while_the_queue_is_down(trainer: Any, make_spec: Any) -> None:
    trainer.queue.is_away = True
    run = await trainer.create("r1", make_spec())
    assert [unfinished.id for unfinished in await trainer.store.unfinished()] == [run.id]


async def test_runs_are_listed_newest_first_page_by_page(trainer: Any, make_spec: Any) -> None:
    ids = [(await trainer.create("", make_spec())).id for _ in range(3)]
    await trainer.runs.cancel(ids[0])
    first = await trainer.runs.page(2, "")
    second = await trainer.runs.page(2, first.next_page_token)
    assert [run.id for run in (*first.items, *second.items)] == ids[::-1]
    assert second.next_page_token == ""
    assert [run.id for run in (await trainer.runs.page(0, "", RunFilter(State.CANCELLED))).items] == ids[:1]
    with pytest.raises(InvalidArgument):
        await trainer.runs.page(2, "nonsense")


async def test_cancel_is_final_and_reaches_the_workers(trainer: Any, make_spec: Any) -> None:
    run = await trainer.create("r1", make_spec())
    trainer.queue.flush()
    assert (await trainer.runs.cancel(run.id)).state is State.CANCELLED
    assert trainer.queue.ids == [run.id]
    assert (await trainer.runs.cancel(run.id)).state is State.CANCELLED
    with pytest.raises(NotFound):
        await trainer.runs.cancel("run_0")


async def test_a_run_that_was_cancelled_is_resumed_and_queued_again(trainer: Any, make_spec: Any) -> None:
    run = await trainer.create("r1", make_spec())
    await trainer.runs.cancel(run.id)
    trainer.queue.flush()
    resumed = await trainer.runs.resume(run.id, "key_1")
    assert (resumed.state, resumed.resume_actor, trainer.queue.ids) == (State.QUEUED, "key_1", [run.id])
    assert trainer.events.published[-1] == (run.id, State.QUEUED)
    assert await trainer.runs.resume(run.id) == resumed
    with pytest.raises(NotFound):
        await trainer.runs.resume("run_0")


async def test_a_heartbeat_wakes_no_watcher(trainer: Any, make_spec: Any) -> None:
    run = await trainer.create("r1", make_spec())
    await trainer.store.change(run.id, lambda run: run.start(trainer.clock.now()))
    updates = trainer.runs.watch(run.id, 0)
    assert (await anext(updates)).run.state is State.STARTING
    await trainer.reports.heartbeat(run.id, 1)
    following = asyncio.ensure_future(anext(updates))
    await asyncio.sleep(0.05)
    assert not following.done()
    await trainer.reports.started(run.id, 1)
    assert (await asyncio.wait_for(following, 5)).run.state is State.RUNNING
    await updates.aclose()


async def test_a_watcher_sees_each_change_and_each_step_once(trainer: Any, make_spec: Any) -> None:
    run = await trainer.create("r1", make_spec(steps=2))

    async def watch() -> list[Progress]:
        return [progress async for progress in trainer.runs.watch(run.id, 0)]

    watching = asyncio.create_task(watch())
    await asyncio.sleep(0.01)
    await trainer.store.change(run.id, lambda run: run.start(trainer.clock.now()))
    await trainer.reports.started(run.id, 1)
    await asyncio.sleep(0.01)
    for number in (1, 2, 1, 2):  # a later attempt repeats them
        await trainer.reports.step(run.id, Step(number, {"loss": 1.0}, "sha256:p", trainer.clock.now(), 1))
        await asyncio.sleep(0.01)
    await trainer.runs.cancel(run.id)
    seen = await asyncio.wait_for(watching, 5)
    assert [step.number for progress in seen for step in progress.steps] == [1, 2]
    assert [seen[0].run.state, seen[-1].run.state] == [State.QUEUED, State.CANCELLED]
    with pytest.raises(NotFound):
        await anext(trainer.runs.watch("run_0", 0))


async def test_steps_and_checkpoints_of_an_unknown_run_are_not_found(trainer: Any) -> None:
    for listing in (trainer.runs.steps, trainer.runs.checkpoints):
        with pytest.raises(NotFound):
            await listing("run_0", 0, "")


async def test_a_step_of_a_cancelled_run_is_told_so_and_not_kept(trainer: Any, make_spec: Any) -> None:
    run = await trainer.create("r1", make_spec())
    await trainer.store.change(run.id, lambda run: run.start(trainer.clock.now()))
    await trainer.reports.started(run.id, 1)
    await trainer.runs.cancel(run.id)
    step = Step(1, {}, "sha256:p", trainer.clock.now(), 1)
    assert (await trainer.reports.step(run.id, step)).cancelled
    assert not (await trainer.runs.steps(run.id, 0, "")).items
    with pytest.raises(FailedPrecondition):
        await trainer.reports.finished(run.id, 1, None)


async def test_a_stale_attempt_is_refused_and_changes_nothing(trainer: Any, make_spec: Any) -> None:
    run = await trainer.create("r1", make_spec())
    now = trainer.clock.now()
    await trainer.store.change(run.id, lambda run: replace(run.start(now), attempt=2))
    await trainer.reports.started(run.id, 2)
    with pytest.raises(FailedPrecondition, match="stale"):
        await trainer.reports.step(run.id, Step(1, {}, "sha256:p", now, 1))
    with pytest.raises(FailedPrecondition, match="stale"):
        await trainer.reports.finished(run.id, 1, Failure("INTERNAL", "it broke"))
    assert (await trainer.runs.get(run.id)).state is State.RUNNING


async def test_a_change_of_phase_reaches_watchers(trainer: Any, make_spec: Any) -> None:
    run = await trainer.create("r1", make_spec())
    await trainer.store.change(run.id, lambda run: run.start(trainer.clock.now()))
    updates = trainer.runs.watch(run.id, 0)
    assert (await anext(updates)).run.phase is Phase.SUBMITTING
    await trainer.reports.phase(run.id, 1, Phase.LOADING_MODEL)
    assert (await asyncio.wait_for(anext(updates), 5)).run.phase is Phase.LOADING_MODEL
    await updates.aclose()


async def test_a_run_is_deleted_with_all_it_left(trainer: Any, make_spec: Any) -> None:
    run = await trainer.create("r1", make_spec())
    with pytest.raises(FailedPrecondition, match="QUEUED"):
        await trainer.runs.delete(run.id)
    await trainer.store.change(run.id, lambda run: run.start(trainer.clock.now()))
    await trainer.jobs.submit(await trainer.store.get(run.id), "/models/starter")
    await trainer.runs.cancel(run.id)
    trainer.jobs.down = True
    with pytest.raises(Unavailable):
        await trainer.runs.delete(run.id)
    assert await trainer.runs.get(run.id)
    trainer.jobs.down = False
    await trainer.runs.delete(run.id)
    assert trainer.jobs.stopped == [(run.id, 1)]
    assert (trainer.folders.removed, trainer.policies.released) == ([run.id], [(run.id, 1)])
    with pytest.raises(NotFound):
        await trainer.runs.delete(run.id)
    assert (await trainer.create("r1", make_spec())).id != run.id


PROGRAM = "print([0.5])"


async def test_a_reward_of_the_registry_is_pinned_at_create_and_noted_there(trainer: Any, make_spec: Any) -> None:
    trainer.rewards.programs["brevity"] = ["print([0])", PROGRAM]
    spec = make_spec(reward=Reward(components=(Component("tests_passed", 0.9), Component("brevity", 0.1))))
    run = await trainer.create("r1", spec)
    taken = run.spec.reward.components[1]
    assert (taken.name, taken.version, taken.program, taken.weight) == ("brevity", 2, PROGRAM, 0.1)
    assert taken.digest == digest(PROGRAM)
    assert trainer.rewards.used == [("brevity@2", run.id)]
    trainer.rewards.programs["brevity"].append("print([1])")
    assert (await trainer.create("r1", spec)).spec.reward == run.spec.reward
    assert (await trainer.runs.get(run.id)).spec.reward == run.spec.reward
    assert trainer.rewards.used == [("brevity@2", run.id)]


async def test_what_a_runs_record_has_of_a_reward_can_be_asked_for_again(trainer: Any, make_spec: Any) -> None:
    trainer.rewards.programs["brevity"] = [PROGRAM, "print([1])"]
    first = await trainer.create("r1", make_spec(reward=Reward("brevity@1")))
    assert (await trainer.create("r2", make_spec(reward=first.spec.reward))).spec.reward == first.spec.reward
    [taken] = first.spec.reward.components
    for changed, field in (
        (replace(taken, program="print([9])"), "spec.reward.components[0].program"),
        (replace(taken, version=3), "spec.reward.components[0].version"),
        (replace(taken, version=-1), "spec.reward.components[0].version"),
    ):
        with pytest.raises(InvalidArgument) as refused:
            await trainer.create("", make_spec(reward=Reward(components=(changed,))))
        assert [fault.field for fault in refused.value.violations] == [field]


async def test_a_reward_that_is_not_there_is_refused_with_what_there_is(trainer: Any, make_spec: Any) -> None:
    trainer.rewards.programs["brevity"] = [PROGRAM]
    for reward, said in (
        (Reward("brevity@2"), r"spec.reward.name must be one of tests_passed.* there is no reward brevity@2"),
        (Reward(components=(Component("brevity@2"),)), r"components\[0\].name is not available: there is no reward br"),
        (
            Reward(components=(Component("brevty"),)),
            r"is not a component: 'brevty'; .* registry: there is no reward brevty",
        ),
    ):
        with pytest.raises(InvalidArgument, match=said):
            await trainer.create("", make_spec(reward=reward))
    assert trainer.rewards.used == []


async def test_what_is_only_validated_uses_no_reward(trainer: Any, make_spec: Any) -> None:
    trainer.rewards.programs["brevity"] = [PROGRAM]
    run = await trainer.runs.create("", make_spec(reward=Reward("brevity")), Faults(), validate_only=True)
    assert (run.spec.reward.components[0].version, trainer.rewards.used) == (1, [])


async def test_the_record_of_a_run_is_listed_and_read_in_parts(trainer: Any, run: Any) -> None:
    trainer.folders.records[run.id] = {"b": b"x" * (READ_BYTES + 1), "a": b""}
    page = await trainer.runs.files(run.id, 1, "")
    assert [one.name for one in page.items] == ["a"]
    assert [one.name for one in (await trainer.runs.files(run.id, 5, page.next_page_token)).items] == ["b"]
    data, size = await trainer.runs.read(run.id, "b", 0)
    assert (len(data), size) == (READ_BYTES, READ_BYTES + 1)
    assert await trainer.runs.read(run.id, "b", READ_BYTES) == (b"x", READ_BYTES + 1)
    with pytest.raises(InvalidArgument, match="offset"):
        await trainer.runs.read(run.id, "b", -5)
    for name in ("c", "../a", ""):
        with pytest.raises(NotFound):
            await trainer.runs.read(run.id, name, 0)


async def test_no_tracker_shows_a_run_where_the_operator_has_set_none(trainer: Any, make_spec: Any) -> None:
    run = await trainer.create("r1", make_spec(loggers=("mlflow", "console")))
    assert run.tracks == ()


async def test_a_version_whose_weights_are_gone_is_no_fault_of_who_names_it(trainer: Any, make_spec: Any) -> None:
    spec = make_spec(base=VersionRef("starter", 1))
    trainer.folders.models.clear()
    with pytest.raises(DataLoss, match="the weights of starter@1 are gone"):
        await trainer.create("", spec)
