"""The settings of the service, read once from RATCHET_ROLLOUT_* variables."""

import os
from datetime import timedelta
from pathlib import Path
from typing import Literal

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from ratchet_kit import files, gpus, memory
from ratchet_kit.errors import FailedPrecondition
from ratchet_kit.settings import ServiceSettings
from ratchet_policies import Purpose
from rollout_service.domain.devices import Devices
from rollout_service.domain.room import Room


def _threads() -> int:
    """One core is left to the services. A small model gains nothing from more than a few threads."""
    return max(1, min(8, len(os.sched_getaffinity(0)) - 1))


class Settings(ServiceSettings):
    model_config = SettingsConfigDict(env_prefix="RATCHET_ROLLOUT_")

    port: int = 8703
    work_dir: Path = Field(default_factory=lambda: files.home() / "rollout")
    """Received weights and engine logs. Used by one service process at a time."""
    capacity: int | None = Field(default=None, ge=1)
    """The most policies at a time. None: 6 on CPU, where one takes about 1 GB, its weights and what it uses of
    `kv_cache_bytes`; on GPUs 4, or one for each where there are more. These are shared evenly: with 4 policies on one,
    each gets a quarter of `gpu_memory_utilization`."""
    kept_for: dict[Purpose, int] | None = None
    """Places of `capacity` that only policies for one purpose take, by "serving", "training" and "evaluation":
    RATCHET_ROLLOUT_KEPT_FOR='{"serving": 2}'. None: one for each purpose, where the capacity is 4 or more."""
    address: str = ""
    """host:port at which callers and other nodes reach this node. Empty: only those who have its address find it."""
    peers: str = ""
    """Addresses of other nodes, separated by commas; one suffices. The others learn of this node by its `address`."""

    device: Literal["cpu", "cuda"] = "cpu"
    gpus: str = ""
    """The GPUs of the policies, as CUDA_VISIBLE_DEVICES names them ("0,1"). Empty: all that this process sees."""
    max_num_seqs: int = Field(default=128, ge=1)
    kv_cache_bytes: int | None = Field(default=None, ge=1)
    """For keys and values, of each policy. None: on CPU room for `max_num_seqs` sequences of the model's whole context,
    as far as `kv_cache_share` goes; on CUDA what an engine's share of the memory leaves beside the weights."""
    tool_parsers: dict[str, str] = Field(default_factory=dict)
    """By the name of a model in the registry: vLLM's parser of what it writes when it calls a tool, as `vllm serve
    --tool-call-parser` takes it: RATCHET_ROLLOUT_TOOL_PARSERS='{"qwen": "hermes"}'. Other models take no tools."""
    reasoning_parsers: dict[str, str] = Field(default_factory=dict)
    """By the name of a model in the registry: vLLM's parser of the thoughts that it writes before an answer, as `vllm
    serve --reasoning-parser` takes it: RATCHET_ROLLOUT_REASONING_PARSERS='{"qwen": "qwen3"}'. Thoughts of other models
    are text."""
    tensor_parallel_size: int = Field(default=1, ge=1)
    """GPUs of a policy whose request says nothing."""
    gpu_memory_utilization: float = Field(default=0.9, gt=0, le=1)
    """The part of each GPU's memory that all policies on it may take together. Less where others use the GPU, too."""
    enforce_eager: bool | None = None
    """None: True on CPU, where compiling takes longer than it saves; False on CUDA (CUDA graphs)."""
    threads: int = Field(default_factory=_threads, ge=1)
    """OpenMP threads per engine on CPU."""
    start_timeout: timedelta = timedelta(minutes=10)
    """For an engine to start, or to take new weights, beside the time that reading the weights takes."""
    keep_logs: timedelta = timedelta(days=14)
    """How long the log of a policy's engine is kept after its last line; 0: for good."""
    max_engine_silence: timedelta = Field(default=timedelta(seconds=10), ge=timedelta(seconds=3))
    """An engine that neither answers nor computes for so long hangs: it is ended, and started again."""
    max_engine_deaths: int = Field(default=5, ge=0)
    """An engine that dies more often than this in a row is not restarted."""

    @property
    def devices(self) -> Devices:
        """Raises FailedPrecondition where there are too few GPUs."""
        ids = self._gpus
        if self.device == "cuda" and len(ids) < self.tensor_parallel_size:
            raise FailedPrecondition(
                f"a policy is to have {self.tensor_parallel_size} GPUs (RATCHET_ROLLOUT_TENSOR_PARALLEL_SIZE), and this"
                f" service sees {len(ids)}: see RATCHET_ROLLOUT_GPUS, CUDA_VISIBLE_DEVICES and /dev/nvidia*"
            )
        return Devices.of(
            ids, self.policies, self.gpu_memory_utilization, self.tensor_parallel_size, gpus.memory(ids) if ids else {}
        )

    @property
    def policies(self) -> int:
        """The most at a time."""
        if self.capacity or self.device == "cpu":
            return self.capacity or 6
        return max(4, len(self._gpus) // self.tensor_parallel_size)

    @property
    def room(self) -> Room:
        """Raises FailedPrecondition where more places are kept than there are."""
        if self.kept_for and sum(self.kept_for.values()) > self.policies:
            raise FailedPrecondition(
                f"RATCHET_ROLLOUT_KEPT_FOR keeps {sum(self.kept_for.values())} places of the {self.policies} that"
                " RATCHET_ROLLOUT_CAPACITY gives"
            )
        return Room.of(self.policies, self.kept_for)

    @property
    def _gpus(self) -> list[str]:
        if self.device == "cpu":
            return []
        return gpus.visible({"CUDA_VISIBLE_DEVICES": self.gpus} if self.gpus else os.environ)

    @property
    def kv_cache_share(self) -> int:
        """Bytes for keys and values that each policy may take on CPU: together half of the machine's memory."""
        return memory.of_machine() // 2 // self.policies

    @property
    def eager(self) -> bool:
        return self.device == "cpu" if self.enforce_eager is None else self.enforce_eager
