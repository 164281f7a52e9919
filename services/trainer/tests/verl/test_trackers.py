"""TensorBoard's files, read back by TensorBoard, and W&B's client: offline, at a closed port, and at a server that
hangs. No W&B server can be had here, so that what it would show of a run is not tested."""

import asyncio
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ratchet_kit.errors import Unavailable
from ratchet_kit.names import Location
from trainer_service.domain.run.run import Run, RunId, Step
from trainer_service.domain.spec.spec import ProblemSetRef, RunSpec
from trainer_service.domain.work.ports import Shown

pytest.importorskip("tensorboard")
pytest.importorskip("wandb")

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

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


def _written(folder: Path) -> bytes:
    (file,) = folder.glob("wandb/offline-run-*-run_1/*.wandb")
    return file.read_bytes()


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
    assert b"reward_mean" in _written(tmp_path)


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
