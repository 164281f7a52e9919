"""Create, watch, cancel, delete, compare."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from eval_service.domain.evaluation import Evaluation, Sample, State
from eval_service.domain.spec import EvaluationSpec, ProblemSetRef
from ratchet_kit.errors import AlreadyExists, FailedPrecondition, InvalidArgument, NotFound
from ratchet_kit.names import VersionRef

SPEC = EvaluationSpec(VersionRef("starter", 1), ProblemSetRef("basics"))


async def succeeded(world: Any, spec: EvaluationSpec, passed: str) -> str:
    """An evaluation of problems a, b, ... with one sample each; "10" means that a passed and b did not."""
    id: str = (await world.evaluations.create(spec, "")).evaluation.id
    for problem, mark in zip("abcdefghijklmnopqrstuvwxyz", passed, strict=False):
        verdict = "PASSED" if mark == "1" else "FAILED"
        await world.store.add_sample(id, Sample(problem, 0, "", verdict, int(mark), 1, "sha256:p"))

    def end(present: Evaluation) -> Evaluation:
        now = world.clock.now()
        held = present.claim("me", now, timedelta(hours=1)).load_problems("me", "sha256:d", len(passed))
        return held.succeed("me", [], now)

    await world.store.change(id, end)
    return id


async def test_create_stores_and_queues_once(world: Any) -> None:
    first = await world.evaluations.create(SPEC, "req_1")
    assert (first.evaluation.state, first.progress.problems_done) == (State.QUEUED, 0)
    assert await world.evaluations.create(SPEC, "req_1") == first
    assert world.queue.ids == [first.evaluation.id]
    with pytest.raises(AlreadyExists, match="used before"):
        await world.evaluations.create(replace(SPEC, seed=1), "req_1")


async def test_create_does_not_need_the_queue(world: Any) -> None:
    world.queue.is_away = True
    created = (await world.evaluations.create(SPEC, "")).evaluation
    assert await world.store.waiting(world.clock.now()) == [created]


async def test_create_refuses_what_cannot_be_measured(world: Any) -> None:
    for spec, error in (
        (replace(SPEC, problems=ProblemSetRef("unknown")), InvalidArgument),
        (replace(SPEC, model=VersionRef("nobody", 1)), NotFound),
    ):
        with pytest.raises(error):
            await world.evaluations.create(spec, "")
    assert await world.store.page(9, None) == []


async def test_watch_tells_each_change_and_ends(world: Any) -> None:
    id = (await world.evaluations.create(SPEC, "")).evaluation.id

    async def watch() -> list[tuple[State, int]]:
        reports = [report async for report in world.evaluations.watch(id)]
        return [(report.evaluation.state, report.progress.problems_done) for report in reports]

    watching = asyncio.create_task(watch())
    await asyncio.sleep(0.02)
    await world.store.add_sample(id, Sample("a", 0, "", "PASSED", 1, 1, "sha256:p"))
    await asyncio.sleep(0.02)
    await world.evaluations.cancel(id)
    assert await asyncio.wait_for(watching, 5) == [(State.QUEUED, 0), (State.QUEUED, 1), (State.CANCELLED, 1)]
    with pytest.raises(NotFound):
        await anext(world.evaluations.watch("eval_nowhere"))


async def test_delete_takes_the_samples_along(world: Any) -> None:
    id = await succeeded(world, SPEC, "01")
    await world.evaluations.delete(id)
    for look in (world.evaluations.get(id), world.evaluations.sample_page(id, 9, ""), world.evaluations.delete(id)):
        with pytest.raises(NotFound):
            await look
    queued = (await world.evaluations.create(SPEC, "")).evaluation.id
    with pytest.raises(FailedPrecondition, match="queued: cancel it"):
        await world.evaluations.delete(queued)


async def test_compare_pairs_by_problem(world: Any) -> None:
    before = await succeeded(world, SPEC, "0000000000" + "01" * 5)
    after = await succeeded(world, SPEC, "1111111111" + "01" * 5)
    comparison = await world.evaluations.compare(before, after)
    assert (comparison.baseline.value, comparison.candidate.value, comparison.difference.value) == (0.25, 0.75, 0.5)
    assert comparison.problems == 20
    assert comparison.p_value == 2 / 2**10
    assert 0 < comparison.difference.low < 0.5 < comparison.difference.high
    back = await world.evaluations.compare(after, before)
    assert back.difference.value == -0.5


async def test_only_like_is_compared_with_like(world: Any) -> None:
    one = await succeeded(world, SPEC, "01")
    for other, what in ((replace(SPEC, temperature=0.5), "temperature"), (replace(SPEC, max_tokens=9), "max_tokens")):
        with pytest.raises(FailedPrecondition, match=what):
            await world.evaluations.compare(one, await succeeded(world, other, "01"))
    queued = (await world.evaluations.create(SPEC, "")).evaluation.id
    with pytest.raises(FailedPrecondition, match="queued"):
        await world.evaluations.compare(one, queued)
    with pytest.raises(NotFound):
        await world.evaluations.compare(one, "eval_nowhere")
    smaller = await succeeded(world, SPEC, "01")
    await world.store.change(smaller, lambda present: replace(present, spec=present.spec.with_digest("sha256:another")))
    with pytest.raises(FailedPrecondition, match="problems"):
        await world.evaluations.compare(one, smaller)


async def test_lists_are_paged_newest_first(world: Any) -> None:
    ids = [(await world.evaluations.create(SPEC, "")).evaluation.id for _ in range(3)]
    first = await world.evaluations.page(2, "")
    second = await world.evaluations.page(2, first.next_page_token)
    assert [report.evaluation.id for report in [*first.items, *second.items]] == ids[::-1]
    one = await succeeded(world, SPEC, "0101")
    samples, token = [], ""
    while True:
        page = await world.evaluations.sample_page(one, 3, token)
        samples += page.items
        token = page.next_page_token
        if not token:
            break
    assert [sample.problem_id for sample in samples] == list("abcd")
    with pytest.raises(InvalidArgument, match="page_token"):
        await world.evaluations.sample_page(one, 3, first.next_page_token)
