"""Trackers are sent what they have not had, once, and can hold up nothing."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from ratchet_kit.errors import FailedPrecondition, Failure, Unavailable
from ratchet_kit.idempotency import Request
from ratchet_kit.statistics import Estimate
from ratchet_testing.clock import ManualClock
from trainer_service.domain.run.checkpoint import Checkpoint
from trainer_service.domain.run.run import Run, RunId, Step, Track
from trainer_service.domain.work.mirror import ModelMirror
from trainer_service.domain.work.ports import MirroredModel, MirroredVersion, MirroredVersions, Shown
from trainer_service.domain.work.tracking import AT_ONCE, PATIENCE, Tracking

from ..memory import MemoryFolders, MemoryRunStore


@dataclass
class Board:
    """A tracker that keeps what it is shown."""

    name: str = "board"
    is_away: bool = False
    steps: list[int] = field(default_factory=list)
    scored: dict[int, float] = field(default_factory=dict)
    states: list[str] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)
    keys: list[str] = field(default_factory=list)

    async def show(self, shown: Shown, key: str) -> str:
        if self.is_away:
            raise Unavailable("nobody answers")
        self.steps += [step.number for step in shown.steps]
        self.scored |= {step.number: step.metrics["validation_score"] for step in shown.scored}
        self.states.append(shown.run.state.name)
        self.files = dict(shown.files)
        self.keys.append(key)
        return f"board/{shown.run.id}"


@dataclass
class Tracked:
    store: MemoryRunStore
    folders: MemoryFolders
    clock: ManualClock
    tracking: Tracking

    async def run(self) -> Run:
        return await self.store.get(RunId("run_1"))

    async def step(self, *numbers: int) -> None:
        for number in numbers:
            step = Step(number, {"reward_mean": 0.5}, "sha256:w", self.clock.now(), attempt=1)
            await self.store.record_step(RunId("run_1"), step, lambda run, _: run)

    async def begin(self) -> None:
        await self.store.change(RunId("run_1"), lambda run: run.start(self.clock.now()).begin(1, self.clock.now()))


@pytest.fixture
async def tracked(clock: ManualClock, make_complete_spec: Any) -> Tracked:
    store, folders = MemoryRunStore(), MemoryFolders()
    run = Run.create(RunId("run_1"), make_complete_spec(steps=4), clock.now(), trackers=["board"])
    await store.create(run, Request.of("r"))
    return Tracked(store, folders, clock, Tracking(store, folders, clock))


async def test_a_tracker_has_each_step_once_and_the_end(tracked: Tracked) -> None:
    board = Board()
    await tracked.begin()
    await tracked.step(1, 2)
    await tracked.tracking.send(board)
    await tracked.step(2, 3)  # a later attempt repeats the second
    await tracked.tracking.send(board)
    await tracked.store.change(
        RunId("run_1"), lambda run: run.fail(Failure("INTERNAL", "it broke"), tracked.clock.now())
    )
    await tracked.tracking.send(board)
    await tracked.tracking.send(board)
    assert board.steps == [1, 2, 3]
    assert board.states == ["RUNNING", "RUNNING", "FAILED"]
    assert board.keys == ["", "board/run_1", "board/run_1"]
    assert await tracked.store.tracked() == []


async def test_a_score_that_comes_after_its_step_was_sent_is_sent_once(tracked: Tracked) -> None:
    board, id = Board(), RunId("run_1")
    await tracked.begin()
    await tracked.step(1, 2)
    for number in (1, 2):
        made = Checkpoint(number, f"/exports/{number}", "sha256:w", tracked.clock.now(), evaluation_id="eval_1")
        await tracked.store.record_checkpoint(id, made, lambda run, _: run)
    for number in (1, 2):
        await tracked.tracking.send(board)
        score = partial(Checkpoint.scored, score=Estimate(number / 4, 0, 1), uri=f"/exports/{number}")
        await tracked.store.change_checkpoint(id, number, score, lambda run, _: run)
    for _ in range(2):
        await tracked.tracking.send(board)
    assert (board.steps, board.scored, len(board.states)) == ([1, 2], {1: 0.25, 2: 0.5}, 3)


async def test_nothing_new_is_not_sent(tracked: Tracked) -> None:
    board = Board()
    for _ in range(3):
        await tracked.tracking.send(board)
    assert board.states == ["QUEUED"]


async def test_many_steps_go_in_parts(tracked: Tracked) -> None:
    board = Board()
    await tracked.begin()
    await tracked.step(*range(1, AT_ONCE + 3))
    await tracked.tracking.send(board)
    assert board.steps == list(range(1, AT_ONCE + 3))


async def test_a_resumed_run_goes_on_in_the_same_place(tracked: Tracked) -> None:
    board = Board()
    await tracked.begin()
    await tracked.step(1)
    await tracked.store.change(RunId("run_1"), lambda run: run.cancel(tracked.clock.now()))
    await tracked.tracking.send(board)
    await tracked.store.change(RunId("run_1"), lambda run: run.resume(tracked.clock.now()))
    await tracked.step(2)
    await tracked.tracking.send(board)
    assert board.steps == [1, 2]
    assert board.keys == ["", "board/run_1"]
    assert len(await tracked.store.tracked()) == 1


async def test_a_tracker_that_is_away_is_one_notice_and_has_all_when_it_is_back(tracked: Tracked) -> None:
    board = Board(is_away=True)
    await tracked.begin()
    await tracked.step(1)
    await tracked.tracking.send(board)
    await tracked.tracking.send(board)
    (notice,) = (await tracked.run()).notices
    assert notice.message.startswith("board does not show the run: nobody answers")
    assert (await tracked.run()).state.name == "RUNNING"
    board.is_away = False
    await tracked.step(2)
    await tracked.tracking.send(board)
    assert board.steps == [1, 2]
    assert (await tracked.run()).track("board") == Track("board", 2, "board/run_1", "1 running")


async def test_a_run_that_is_refused_holds_up_no_other(tracked: Tracked, make_complete_spec: Any) -> None:
    class Refuses(Board):
        async def show(self, shown: Shown, key: str) -> str:
            if shown.run.id == "run_1":
                raise FailedPrecondition("the experiment is deleted")
            return await super().show(shown, key)

    other = Run.create(RunId("run_2"), make_complete_spec(steps=4), tracked.clock.now(), trackers=["board"])
    await tracked.store.create(other, Request.of("r2"))
    board = Refuses()
    await tracked.tracking.send(board)
    assert board.states == ["QUEUED"]
    assert "the experiment is deleted" in (await tracked.run()).notices[0].message


async def test_a_tracker_that_stays_away_is_given_up(tracked: Tracked) -> None:
    board = Board(is_away=True)
    await tracked.store.change(RunId("run_1"), lambda run: run.cancel(tracked.clock.now()))
    await tracked.tracking.send(board)
    assert await tracked.store.tracked()
    tracked.clock.advance(PATIENCE + timedelta(seconds=1))
    await tracked.tracking.send(board)
    assert not await tracked.store.tracked()
    assert "it is given up" in (await tracked.run()).notices[-1].message


async def test_files_are_shown_but_traces(tracked: Tracked) -> None:
    board = Board()
    tracked.folders.records[RunId("run_1")] = {"config/attempt-1.yaml": b"a: 1", "profile/big.json.gz": b"x"}
    await tracked.tracking.send(board)
    assert board.files == {"config/attempt-1.yaml": b"a: 1"}


@dataclass
class Catalogue:
    model: MirroredModel = field(default_factory=lambda: MirroredModel("coder", "", {"champion": 1}, 1))
    ready: list[MirroredVersion] = field(default_factory=lambda: [MirroredVersion(1, "/a/1", "sha256:w", "run_1")])
    is_settled: bool = True

    async def models(self) -> Sequence[MirroredModel]:
        return [self.model]

    async def versions(self, model: str) -> MirroredVersions:
        return MirroredVersions(self.ready, self.is_settled)


@dataclass
class Mirror:
    is_away: bool = False
    seen: list[tuple[MirroredModel, list[MirroredVersion]]] = field(default_factory=list)

    async def reflect(self, model: MirroredModel, versions: Sequence[MirroredVersion]) -> None:
        if self.is_away:
            raise Unavailable("nobody answers")
        self.seen.append((model, list(versions)))


async def test_a_model_is_mirrored_when_it_changes_and_linked_to_its_run(tracked: Tracked) -> None:
    catalogue, mirror = Catalogue(), Mirror()
    await tracked.tracking.send(Board())
    models = ModelMirror(catalogue, mirror, tracked.store, "board")
    await models.look()
    await models.look()
    ((_, (version,)),) = mirror.seen
    assert version.key == "board/run_1"
    catalogue.model = replace(catalogue.model, aliases={"champion": 1, "candidate": 1})
    await models.look()
    assert [model.aliases for model, _ in mirror.seen] == [{"champion": 1}, {"champion": 1, "candidate": 1}]


@pytest.mark.parametrize("changes", [{"is_settled": False}, {}])
async def test_a_model_is_looked_at_again_while_it_is_not_whole(tracked: Tracked, changes: dict[str, bool]) -> None:
    catalogue, mirror = Catalogue(**changes), Mirror(is_away=not changes)  # type: ignore[arg-type]
    models = ModelMirror(catalogue, mirror, tracked.store, "board")
    await models.look()
    mirror.is_away, catalogue.is_settled = False, True
    await models.look()
    assert mirror.seen
    assert mirror.seen[-1][1][0].key == ""  # the run has not been shown


async def test_a_tracker_that_hangs_holds_up_no_other(tracked: Tracked) -> None:
    class Hangs(Board):
        async def show(self, shown: Shown, key: str) -> str:
            await asyncio.sleep(60)
            raise AssertionError

    await tracked.store.change(RunId("run_1"), lambda run: run.tracked(Track("hangs")))
    hanging = asyncio.create_task(tracked.tracking.send(Hangs("hangs")))
    board = Board()
    await tracked.tracking.send(board)
    assert board.states == ["QUEUED"]
    hanging.cancel()
