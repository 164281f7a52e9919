from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ratchet_kit import gpus


@pytest.mark.parametrize(
    ("named", "expected"),
    [
        ("0", ["0"]),
        ("2, 5", ["2", "5"]),
        ("GPU-8a,GPU-9b", ["GPU-8a", "GPU-9b"]),
        ("", []),
        ("-1", []),
        ("1,-1,2", ["1"]),
    ],
)
def test_the_variable_names_what_this_process_may_use(tmp_path: Path, named: str, expected: list[str]) -> None:
    (tmp_path / "nvidia0").touch()
    assert gpus.visible({"CUDA_VISIBLE_DEVICES": named}, tmp_path) == expected


def test_without_it_all_are_counted_as_cuda_numbers_them(tmp_path: Path) -> None:
    for name in ("nvidia3", "nvidia5", "nvidiactl", "nvidia-uvm"):
        (tmp_path / name).touch()
    assert gpus.visible({}, tmp_path) == ["0", "1"]


class Nvml:
    """pynvml on a machine with these GPUs; None: without a driver."""

    class NVMLError(Exception):
        pass

    def __init__(self, gpus: dict[str, int] | None) -> None:
        self.gpus = gpus
        self.open = 0
        self.percent = 40

    def nvmlInit(self) -> None:
        if self.gpus is None:
            raise self.NVMLError("Driver Not Loaded")
        self.open += 1

    def nvmlShutdown(self) -> None:
        self.open -= 1

    def nvmlDeviceGetHandleByIndex(self, index: int) -> str:
        return self.nvmlDeviceGetHandleByUUID(list(self.gpus or ())[index] if index < len(self.gpus or ()) else "")

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:
        if uuid not in (self.gpus or {}):
            raise self.NVMLError("Not Found")
        return uuid

    def nvmlDeviceGetUUID(self, handle: str) -> str:
        return handle

    def nvmlDeviceGetMemoryInfo(self, handle: str) -> Any:
        return SimpleNamespace(total=(self.gpus or {})[handle])

    def nvmlDeviceGetUtilizationRates(self, handle: str) -> Any:
        return SimpleNamespace(gpu=self.percent)


def test_the_use_of_gpus_is_a_share_by_uuid() -> None:
    nvml = Nvml({"GPU-a": 80, "GPU-b": 24})
    assert gpus.use(["0", "GPU-b"], nvml) == {"GPU-a": 0.4, "GPU-b": 0.4}
    assert nvml.open == 0
    assert gpus.use(["0"], Nvml(None)) == gpus.use(["0"]) == {}


def test_a_watch_adds_up_the_time_and_the_part_in_which_gpus_compute() -> None:
    nvml = Nvml({"GPU-a": 80, "GPU-b": 24})
    watch = gpus.GpuWatch(lambda names: gpus.use(names, nvml))
    watch.look(["0", "1"], 100.0)
    assert (watch.busy_time, watch.watched_time) == (timedelta(), timedelta())
    watch.look(["0", "1"], 110.0)
    nvml.percent = 90
    watch.look(["0", "1"], 111.0)  # too soon
    watch.look(["0", "1"], 120.0)
    assert watch.watched_time == timedelta(seconds=40)
    assert watch.busy_time.total_seconds() == pytest.approx(2 * (4 + 9))
    assert watch.uuids == ["GPU-a", "GPU-b"]


def test_without_a_driver_nothing_was_watched() -> None:
    watch = gpus.GpuWatch(lambda names: gpus.use(names, Nvml(None)))
    watch.look(["0"], 100.0)
    watch.look(["0"], 110.0)
    assert (watch.watched_time, watch.uuids) == (timedelta(), [])


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["1"], {"GPU-b": 24}),
        (["0", "1"], {"GPU-a": 80, "GPU-b": 24}),
        (["GPU-b"], {"GPU-b": 24}),
        (["2"], {}),
        (["GPU-c"], {}),
        ([], {}),
    ],
)
def test_the_memory_of_gpus_is_known_by_uuid(names: list[str], expected: dict[str, int]) -> None:
    nvml = Nvml({"GPU-a": 80, "GPU-b": 24})
    assert gpus.memory(names, nvml) == expected
    assert nvml.open == 0
    assert gpus.memory(names, Nvml(None)) == {}
    assert gpus.memory(names) == {}, "there is no GPU here"
