"""The settings of the service, read once from RATCHET_TRAINER_* variables."""

import os
import sys
from collections.abc import Mapping
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr, field_validator
from pydantic_settings import SettingsConfigDict

from ratchet_kit import files, gpus, memory
from ratchet_kit.settings import ServiceSettings, own_database
from ratchet_kit.tool_servers import ToolServers
from ratchet_kit.usage import PriceTable
from trainer_service.domain.spec.limits import GIB
from trainer_service.job.run.config import MAX_FAULT_SHARE, Dtype, FaultShare
from trainer_service.job.run.record import SAMPLES


class Settings(ServiceSettings):
    model_config = SettingsConfigDict(env_prefix="RATCHET_TRAINER_")

    port: int = 8702
    advertise_target: str = ""
    """host:port under which jobs reach this service; empty: where it listens."""
    metrics_port: int = 8712
    database_url: str = Field(default_factory=partial(own_database, "trainer"))
    rollout_target: str = "127.0.0.1:8703"
    """A rollout node, or several, separated by commas. One that answers suffices: it knows the others."""
    sandbox_target: str = "127.0.0.1:8704"
    registry_target: str = "127.0.0.1:8706"
    eval_target: str = "127.0.0.1:8705"
    """Eval-service, which measures checkpoints of runs with `validate`."""
    runs_folder: Path = Field(default_factory=lambda: files.home() / "runs")
    """The folder of the runs: checkpoints, logs. With a cluster, one that all its nodes share."""
    artifact_url: str = ""
    """Folder or fsspec URL below which exported models are kept, in `runs/`, where registry-service and rollout-service
    can read them, and samples, in `samples/`. Empty: in the folder of the run, for services on one machine."""

    concurrency: int = Field(default=1, ge=1)
    """Runs at once on the Ray of this service; several services that share a cluster count together. What the cluster
    has, memory, and the places of the rollout service may allow fewer (docs/training/many-runs.md)."""
    worth_preempting: timedelta = timedelta(minutes=2)
    """A run that has less than this to go makes no room for one of higher priority."""
    lease: timedelta = timedelta(seconds=20)
    """After this a run whose worker is dead goes to another."""
    silence: timedelta = timedelta(minutes=10)
    """A job that runs and sends no heartbeat for so long hangs, and is started again."""

    memory_gib: float | None = Field(default=None, gt=0)
    """The memory that a run's training processes may take: on CPU of this machine, on CUDA of one GPU. A run that needs
    more is refused. None: on CPU half of the machine; on CUDA what the rollout service leaves of the smallest GPU by
    NVML, and not known on a cluster."""

    keep_checkpoints: timedelta = timedelta(days=14)
    """How long the last checkpoint of a run that failed or was cancelled is kept; 0: until the run is deleted."""
    keep_exports: timedelta = timedelta(days=90)
    """How long the models that a run exported are kept after its end; 0: until it is deleted. Its best one stays."""
    max_checkpoint_gib: float | None = Field(default=None, gt=0)
    """Space for checkpoints and exports of all runs; beyond it the oldest go that nobody needs. None: no limit."""
    keep_samples: timedelta = timedelta(days=90)
    """How long the samples of a run are kept after its end; 0: until it is deleted."""

    plugins: str = ""
    """Packages, or names of plug-ins, whose code runs may bring into their jobs; several, separated by commas. It runs
    there with the rights of the platform. Empty: none (docs/plugins.md)."""

    mlflow_tracking_uri: str = ""
    """MLFLOW_TRACKING_URI: the tracking server that runs with the logger "mlflow" are sent to, and versions are
    mirrored in (docs/tracking.md). Empty: such runs are written to a file in their folder, by verl."""
    mlflow_tracking_username: str = ""
    mlflow_tracking_password: SecretStr = SecretStr("")
    mlflow_tracking_token: SecretStr = SecretStr("")
    tensorboard_url: str = ""
    """Folder or fsspec URL that TensorBoard reads, for runs with the logger "tensorboard". Empty: in their own."""
    wandb_api_key: SecretStr = SecretStr("")
    """WANDB_API_KEY: runs with the logger "wandb" are sent to W&B. Empty: they are written to their folder."""
    wandb_base_url: str = ""
    wandb_entity: str = ""
    wandb_mode: str = ""
    """WANDB_MODE: "offline" and "disabled" are as without a key."""

    prices: PriceTable = None
    """RATCHET_PRICES: what an hour of a GPU, or a million tokens, costs, as JSON or a file of it (docs/costs.md).
    None: usage is counted, and has no cost."""
    tool_servers: ToolServers = Field(default_factory=dict)
    """RATCHET_TOOL_SERVERS: MCP servers that episodes may use, by name, as JSON or a file of it (docs/tasks.md)."""

    device: Literal["cpu", "cuda"] = "cpu"
    dtype: Dtype | None = None
    """None: float32 on CPU, bfloat16 on CUDA."""
    max_fault_share: FaultShare = MAX_FAULT_SHARE
    """A run stops when the platform failed more than this share of a step's samples."""
    job_patience: timedelta = timedelta(minutes=5)
    """How long a job retries a service that does not answer."""
    job_python: str = ""
    """The interpreter of jobs; empty: this one where Ray is ours, `python` on a cluster."""

    ray_address: str | None = None
    """The URL of a cluster's dashboard, such as http://head:8265. None: a Ray of this service's own."""
    ray_token: str | None = None
    """The bearer token of that cluster, if it asks for one."""
    ray_port: int = Field(default=8720, ge=1024, le=65000)
    """The first of the ports of our own Ray, all on loopback."""
    ray_accelerators: int | None = Field(default=None, ge=1)
    """Training ranks that our own Ray has room for. None: its GPUs; on CPU, where ranks are processes that share the
    cores, two."""
    gpus: str = ""
    """The GPUs of our own Ray, as CUDA_VISIBLE_DEVICES names them ("2,3"). Empty: all that this process sees."""

    @field_validator("ray_address")
    @classmethod
    def _is_url(cls, value: str | None) -> str | None:
        if value and not value.startswith(("http://", "https://")):
            raise ValueError(f"RAY_ADDRESS must be the URL of the cluster's dashboard (http://host:8265), not {value}")
        return value.rstrip("/") if value else value

    @field_validator("mlflow_tracking_uri")
    @classmethod
    def _is_server(cls, value: str) -> str:
        if value and not value.startswith(("http://", "https://")):
            raise ValueError(
                f"MLFLOW_TRACKING_URI must be the URL of a server (http://host:5000), not {value}: unset it"
            )
        return value

    @field_validator("runs_folder")
    @classmethod
    def _is_absolute(cls, value: Path) -> Path:
        if ":/" in str(value):
            raise ValueError(f"RATCHET_TRAINER_RUNS_FOLDER must be a folder that jobs can write to, not {value}")
        return value.expanduser().absolute()

    @property
    def allowed_plugins(self) -> tuple[str, ...]:
        return tuple(name.strip() for name in self.plugins.split(",") if name.strip())

    @property
    def trackers(self) -> tuple[str, ...]:
        """The loggers that runs are sent to by this service."""
        by_name = {
            "mlflow": bool(self.mlflow_tracking_uri),
            "tensorboard": bool(self.tensorboard_url),
            "wandb": bool(self.wandb_api_key.get_secret_value()) and self.wandb_mode not in ("offline", "disabled"),
        }
        return tuple(name for name, is_set in by_name.items() if is_set)

    @property
    def exports_uri(self) -> str:
        return f"{self.artifact_url.rstrip('/')}/runs" if self.artifact_url else ""

    @property
    def samples_uri(self) -> str:
        return f"{self.artifact_url.rstrip('/')}/{SAMPLES}" if self.artifact_url else ""

    @property
    def accelerators(self) -> int:
        if self.ray_accelerators is not None:
            return self.ray_accelerators
        return 2 if self.device == "cpu" else len(gpus.visible(self.ray_environment or os.environ))

    @property
    def memory_bytes(self) -> int | None:
        if self.memory_gib is not None:
            return int(self.memory_gib * GIB)
        return memory.of_machine() // 2 if self.device == "cpu" and not self.ray_address else None

    @property
    def gpu_memory(self) -> Mapping[str, int]:
        """Bytes of each GPU of our own Ray, by its UUID; none where `memory_gib` says what a run may take."""
        if self.memory_gib is not None or self.device == "cpu" or self.ray_address:
            return {}
        return gpus.memory(gpus.visible(self.ray_environment or os.environ))

    @property
    def ray_environment(self) -> dict[str, str]:
        """What our own Ray has beside the environment of this process."""
        return {"CUDA_VISIBLE_DEVICES": self.gpus} if self.gpus else {}

    @property
    def target(self) -> str:
        return self.advertise_target or f"{self.host}:{self.port}"

    @property
    def python(self) -> str:
        return self.job_python or ("python" if self.ray_address else sys.executable)

    @property
    def job_dtype(self) -> Dtype:
        return self.dtype or ("float32" if self.device == "cpu" else "bfloat16")
