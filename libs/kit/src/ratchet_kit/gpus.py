"""The GPUs of this machine, as CUDA counts them."""

import importlib
import os
from collections.abc import Iterable, Mapping
from itertools import takewhile
from pathlib import Path
from typing import Any


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
        return {nvml.nvmlDeviceGetUUID(one): int(nvml.nvmlDeviceGetMemoryInfo(one).total) for one in handles}
    except nvml.NVMLError:
        return {}
    finally:
        nvml.nvmlShutdown()
