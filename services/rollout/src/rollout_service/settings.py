"""The settings of the service, read once from RATCHET_ROLLOUT_* variables."""

import os
from datetime import timedelta
from pathlib import Path
from typing import Literal

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from ratchet_kit.settings import ServiceSettings


def _threads() -> int:
    """One core is left to the services. A small model gains nothing from more than a few threads."""
    return max(1, min(8, len(os.sched_getaffinity(0)) - 1))


class Settings(ServiceSettings):
    model_config = SettingsConfigDict(env_prefix="RATCHET_ROLLOUT_")

    port: int = Field(default=8703, ge=0, le=65535)
    work_dir: Path = Path("~/.ratchet/rollout")
    """Received weights and engine logs. Used by one service process at a time."""
    capacity: int = Field(default=4, ge=1)
    """The most policies at a time. On CPU one takes about 1.2 GB plus its weights."""
    default_deadline: timedelta = timedelta(minutes=10)
    """Deadline of a call without one. Long enough for a long completion, and for an update that waits for it."""

    device: Literal["cpu", "cuda"] = "cpu"
    max_num_seqs: int = Field(default=128, ge=1)
    kv_cache_bytes: int | None = Field(default=None, ge=1)
    """None: 256 MiB on CPU; on CUDA as much as `gpu_memory_utilization` allows."""
    tensor_parallel_size: int = Field(default=1, ge=1)
    gpu_memory_utilization: float = Field(default=0.9, gt=0, le=1)
    enforce_eager: bool | None = None
    """None: True on CPU, where compiling takes longer than it saves; False on CUDA (CUDA graphs)."""
    threads: int = Field(default_factory=_threads, ge=1)
    """OpenMP threads per engine on CPU."""
    start_timeout: timedelta = timedelta(minutes=10)
    max_engine_deaths: int = Field(default=5, ge=0)
    """An engine that dies more often than this in a row is not restarted."""

    @property
    def kv_cache(self) -> int | None:
        """Bytes. None leaves it to vLLM."""
        return self.kv_cache_bytes or (256 << 20 if self.device == "cpu" else None)

    @property
    def eager(self) -> bool:
        return self.device == "cpu" if self.enforce_eager is None else self.enforce_eager
