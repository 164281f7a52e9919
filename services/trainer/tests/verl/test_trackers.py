"""TensorBoard's files, read back by TensorBoard, and W&B's client: offline, at a closed port, and at a server that
hangs. No W&B server can be had here, so that what it would show of a run is not tested."""

import asyncio
import json
import struct
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ratchet_kit.errors import Unavailable
from ratchet_kit.names import Location, VersionRef
from trainer_service.domain.run.checkpoint import Checkpoint
from trainer_service.domain.run.run import Run, RunId, State, Step
from trainer_service.domain.spec.spec import ProblemSetRef, RunSpec
from trainer_service.domain.work.ports import Shown

pytest.importorskip("tensorboard")
pytest.importorskip("wandb")

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from wandb.proto import wandb_internal_pb2

from ratchet_testing.ports import free_port
from trainer_service.adapters.tensorboard import TensorBoard
from trainer_service.adapters.wandb import Wandb

pytestmark = pytest.mark.verl
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def _shown(*steps: int, over: bool = False) -> Shown:
    spec = RunSpec(Location("/m"), "grpo", ProblemSetRef("composed/train"), 3, display_name="my run")
    run = Run.create(RunId("run_1"), spec, NOW)
    made = [Step(number, {"reward_mean": number / 10}, "sha256:w", NOW, 1) for number in steps]
    return Shown(run.cancel(NOW) if over else run, made, [], {"config/attempt-1.yaml": b"a: 1"})


def _records(folder: Path) -> list[Any]:
    """Of W&B's offline file, as W&B's own messages. Its client has no reader in Python any more: the file is LevelDB's
    log after a head of 7 bytes, in blocks of 32 KiB, and a piece begins with checksum, length and kind."""
    (file,) = folder.glob("wandb/offline-run-*-run_1/*.wandb")
    data, at, found, begun = file.read_bytes(), 7, [], b""
    while at + 7 <= len(data):
        left = 0x8000 - at % 0x8000
        if left < 7:
            at += left
            continue
        _, length, kind = struct.unpack_from("<IHB", data, at)
        begun += data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # whole, or the last piece
            found.append(wandb_internal_pb2.Record.FromString(begun))
            begun = b""
    return found


async def test_tensorboard_reads_a_run_that_two_processes_wrote(tmp_path: Path) -> None:
    first = TensorBoard(str(tmp_path))
    key = await first.show(_shown(1, 2), "")
    await first.show(_shown(over=True), key)
    await TensorBoard(str(tmp_path)).show(_shown(3, over=True), key)
    assert key == "ratchet/my-run-run_1"
    points: list[tuple[int, float]] = []
    texts: set[str] = set()
    for file in (tmp_path / key).iterdir():
        events: Any = EventAccumulator(str(file)).Reload()
        points += (
            [(one.step, round(one.value, 3)) for one in events.Scalars("reward_mean")]
            if events.Tags()["scalars"]
            else []
        )
        texts |= set(events.PluginTagToContent("text"))
    assert sorted(points) == [(1, 0.1), (2, 0.2), (3, 0.3)]
    assert texts == {"run", "spec", "config/attempt-1.yaml"}


async def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Unavailable, match="cannot be reached"):
        await TensorBoard(str(tmp_path / "file")).show(_shown(1), "")


async def test_wandb_offline_writes_a_run(tmp_path: Path) -> None:
    tracker = Wandb({"WANDB_API_KEY": "k" * 40, "WANDB_MODE": "offline"}, str(tmp_path))
    assert await tracker.show(_shown(1, 2, over=True), "") == "run_1"
    found = _records(tmp_path)
    (run,) = (one.run for one in found if one.HasField("run"))
    assert (run.run_id, list(run.tags)) == ("run_1", ["grpo"])
    rewards = [
        (one.history.step.num, json.loads(item.value_json))
        for one in found
        if one.HasField("history")
        for item in one.history.item
        if "reward_mean" in (item.key, *item.nested_key)
    ]
    assert rewards == [(1, 0.1), (2, 0.2)]
    defined = {one.metric.name: one.metric.summary for one in found if one.HasField("metric")}
    assert defined["reward_mean"].max
    assert defined["loss"].min
    assert [one.artifact.type for one in found if one.HasField("artifact")] == ["record"]


async def test_wandb_has_scores_that_come_late_over_a_step_of_their_own(tmp_path: Path) -> None:
    tracker = Wandb({"WANDB_API_KEY": "k" * 40, "WANDB_MODE": "offline"}, str(tmp_path))
    scored = Step(1, {"validation_score": 0.5, "validation_score_low": 0.25}, "sha256:w", NOW, 1)
    await tracker.show(replace(_shown(1, 2, 3), scored=[scored]), "")
    found = _records(tmp_path)
    rows = [
        {name: json.loads(item.value_json) for item in one.history.item for name in (item.key, *item.nested_key)}
        for one in found
        if one.HasField("history")
    ]
    assert [row["scored_step"] for row in rows if row.get("validation_score") == 0.5] == [1]
    over = {one.metric.name: one.metric.step_metric for one in found if one.HasField("metric")}
    assert over["validation_score"] == over["validation_score_low"] == "scored_step"


async def test_tensorboard_has_scores_that_come_late_at_their_step(tmp_path: Path) -> None:
    board = TensorBoard(str(tmp_path))
    key = await board.show(_shown(1, 2, 3), "")
    scored = Step(1, {"validation_score": 0.5}, "sha256:w", NOW, 1)
    await board.show(replace(_shown(over=True), scored=[scored]), key)
    (file,) = (tmp_path / key).iterdir()
    events: Any = EventAccumulator(str(file)).Reload()
    assert [(one.step, one.value) for one in events.Scalars("validation_score")] == [(1, 0.5)]


async def test_wandb_has_the_model_that_came_of_a_run_by_its_name(tmp_path: Path) -> None:
    shown = _shown(1)
    best = Checkpoint(1, "s3://models/step-1", "sha256:w", NOW, 0.5)
    run = replace(shown.run, state=State.SUCCEEDED, best_checkpoint=best, version=VersionRef("starter", 2))
    tracker = Wandb({"WANDB_API_KEY": "k" * 40, "WANDB_MODE": "offline"}, str(tmp_path))
    await tracker.show(replace(shown, run=run), "")
    (model,) = (one.artifact for one in _records(tmp_path) if one.HasField("artifact") and one.artifact.type == "model")
    assert {"best", "starter-v2"} <= set(model.aliases)
    assert [entry.ref for entry in model.manifest.contents] == ["ratchet://starter/2"]
    assert json.loads(model.metadata)["policy_id"] == "sha256:w"


async def test_wandb_at_a_closed_port_is_said(tmp_path: Path) -> None:
    environment = {"WANDB_API_KEY": "k" * 40, "WANDB_BASE_URL": f"http://127.0.0.1:{free_port()}"}
    with pytest.raises(Unavailable, match="W&B") as raised:
        await Wandb(environment, str(tmp_path), timeout=60).show(_shown(1), "")
    assert "k" * 40 not in raised.value.message


async def test_wandb_that_hangs_is_ended(tmp_path: Path) -> None:
    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(hang, "127.0.0.1", 0)
    environment = {
        "WANDB_API_KEY": "k" * 40,
        "WANDB_BASE_URL": f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}",
    }
    began = time.monotonic()
    with pytest.raises(Unavailable, match="did not take the run within 3 s"):
        await Wandb(environment, str(tmp_path), timeout=3).show(_shown(1), "")
    assert time.monotonic() - began < 30
    server.close()
