"""The GPUs of this machine, as CUDA counts them: memory and use."""

import importlib
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from itertools import takewhile
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")

LOOK = timedelta(seconds=2)
"""Between two looks at the use of a GPU."""


def visible(environ: Mapping[str, str] = os.environ, devices: Path = Path("/dev")) -> list[str]:
    """The NVIDIA GPUs that this process may use, each by what names it in CUDA_VISIBLE_DEVICES; without that variable
    all of the machine or the container."""
    named = environ.get("CUDA_VISIBLE_DEVICES")
    if named is None:
        return [str(number) for number in range(len(list(devices.glob("nvidia[0-9]*"))))]
    # CUDA ignores what stands after a number that it does not have, by convention -1.
    return list(takewhile(lambda name: name not in ("", "-1"), (name.strip() for name in named.split(","))))


def memory(names: Iterable[str], nvml: Any = None) -> dict[str, int]:
    """Bytes of each of these GPUs, by its UUID; none where NVML, or one of them, isn't there.

    `names`: as of `visible`. Numbers are NVML's, by the bus; CUDA's are the same unless a machine has unlike GPUs and
    no CUDA_DEVICE_ORDER=PCI_BUS_ID. `nvml`: pynvml; None: as it is installed.
    """
    return _of_each(names, lambda nvml, handle: int(nvml.nvmlDeviceGetMemoryInfo(handle).total), nvml)


def use(names: Iterable[str], nvml: Any = None) -> dict[str, float]:
    """Share of the last second or less in which each of these GPUs computed, by its UUID; else as `memory`."""
    return _of_each(names, lambda nvml, handle: nvml.nvmlDeviceGetUtilizationRates(handle).gpu / 100, nvml)


class GpuWatch:
    """Adds up how long GPUs are watched, and how long of it they compute. Mutable."""

    def __init__(self, use: Callable[[Sequence[str]], Mapping[str, float]] = use) -> None:
        self._use = use
        self._looked: float | None = None
        self.uuids: Sequence[str] = ()
        """GPUs that were there at the last look."""
        self.busy_time = self.watched_time = timedelta()

    def look(self, names: Sequence[str], now: float | None = None) -> None:
        """Counts the time since the last look as it is now; at the first, and less than LOOK after it, nothing."""
        now = time.monotonic() if now is None else now
        passed = timedelta(seconds=now - self._looked) if self._looked is not None else None
        if passed is not None and passed < LOOK:
            return
        self._looked, found = now, self._use(names)
        self.uuids = list(found)
        if passed is not None:
            self.watched_time += len(found) * passed
            self.busy_time += sum(found.values()) * passed


def _of_each(names: Iterable[str], read: Callable[[Any, Any], T], nvml: Any) -> dict[str, T]:
    try:
        nvml = nvml or importlib.import_module("pynvml")
    except ImportError:  # environments for GPUs have it
        return {}
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:  # there is no driver
        return {}
    try:
        handles = [
            nvml.nvmlDeviceGetHandleByIndex(int(name)) if name.isdigit() else nvml.nvmlDeviceGetHandleByUUID(name)
            for name in names
        ]
        return {nvml.nvmlDeviceGetUUID(one): read(nvml, one) for one in handles}
    except nvml.NVMLError:
        return {}
    finally:
        nvml.nvmlShutdown()
