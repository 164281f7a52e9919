"""verl's platform "cpu": torch on CPUs behind the interface that verl expects of an accelerator.

Chosen by `VERL_PLATFORM=cpu`. Ranks talk over gloo; Ray places them by logical GPUs (`ray_resource_name`), since
verl counts nothing else (verl/single_controller/ray/base.py:230).
"""

import os
import resource
import types
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psutil
import torch
from verl.plugin.platform.platform_base import PlatformBase
from verl.plugin.platform.platform_manager import PlatformRegistry


class CpuModule(types.ModuleType):
    """torch.cpu plus the calls of torch.cuda that verl makes without asking whether they exist.

    Equal to torch.cpu, because verl asks `device == torch.cpu` (utils/flops_counter.py:78,
    utils/profiler/performance.py:46).
    """

    def __getattr__(self, name: str) -> Any:
        return getattr(torch.cpu, name)

    def __eq__(self, other: object) -> bool:
        return other is self or other is torch.cpu

    __hash__ = types.ModuleType.__hash__

    def is_available(self) -> bool:
        return True

    def set_device(self, device: object) -> None:
        pass

    def current_device(self) -> str:
        return "cpu"

    def device_count(self) -> int:
        return os.cpu_count() or 1

    def synchronize(self, device: object = None) -> None:
        pass

    def empty_cache(self) -> None:
        pass

    def get_device_name(self, device: object = None) -> str:
        return "CPU"

    def get_rng_state(self, device: object = None) -> torch.Tensor:
        return torch.get_rng_state()

    def set_rng_state(self, state: torch.Tensor, device: object = None) -> None:
        torch.set_rng_state(state)

    def memory_allocated(self, device: object = None) -> int:
        """Resident bytes of this process."""
        return psutil.Process().memory_info().rss

    memory_reserved = memory_allocated

    def max_memory_allocated(self, device: object = None) -> int:
        """Largest resident size so far, in bytes (ru_maxrss is in KiB on Linux)."""
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

    max_memory_reserved = max_memory_allocated

    def mem_get_info(self, device: object = None) -> tuple[int, int]:
        memory = psutil.virtual_memory()
        return memory.available, memory.total


_MODULE = CpuModule("ratchet.cpu")


class CpuPlatform(PlatformBase):
    @property
    def device_name(self) -> str:
        return "cpu"

    @property
    def vendor_name(self) -> str:
        return "cpu"

    @property
    def device_module(self) -> CpuModule:
        return _MODULE

    def is_available(self) -> bool:
        return True

    def current_device(self) -> str:
        # verl passes this to Tensor.to().
        return "cpu"

    def device_count(self) -> int:
        return _MODULE.device_count()

    def set_device(self, device_index: object) -> None:
        pass

    def synchronize(self, device_index: object = None) -> None:
        pass

    def manual_seed(self, seed: int) -> None:
        torch.manual_seed(seed)

    manual_seed_all = manual_seed

    def set_allocator_settings(self, settings: str) -> None:
        pass

    def empty_cache(self) -> None:
        pass

    def get_device_capability(self, device_index: int = 0) -> tuple[None, None]:
        return (None, None)

    def communication_backend_name(self) -> str:
        return "gloo"

    def visible_devices_envvar(self) -> str:
        return "CUDA_VISIBLE_DEVICES"

    @contextmanager
    def nvtx_range(self, msg: str) -> Iterator[None]:
        yield

    def profiler_start(self) -> None:
        pass

    def profiler_stop(self) -> None:
        pass

    def ray_resource_name(self) -> str:
        return "GPU"

    def ray_noset_envvars(self) -> list[str]:
        return ["RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES"]

    def is_ipc_supported(self) -> bool:
        return False

    def cudart(self) -> None:
        return None


def register() -> None:
    PlatformRegistry.register(platform="cpu")(CpuPlatform)
