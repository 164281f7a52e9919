"""What the service tells a job: one frozen document, passed as `RATCHET_JOB` (JSON, or the path of a JSON file)."""

import os
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

from google.protobuf import json_format
from pydantic import BaseModel, ConfigDict, Field

from ratchet.trainer.v1 import trainer_pb2

ENV = "RATCHET_JOB"


class JobConfig(BaseModel):
    """One attempt of one run.

    `spec` is the RunSpec as protobuf JSON, with every hyperparameter and resource resolved: the job fills in no
    defaults. Problem sets are named there too ("composed/train", or the path of a JSONL file).
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    run_id: str
    # Grows with each start of the job. Reports of an older attempt are refused by the service.
    attempt: int = Field(ge=1)
    spec: dict[str, Any]
    # Local folder of the Hugging Face model that training starts from (a registry reference is resolved before).
    base_path: str
    # Folder of the run, kept between attempts: checkpoints, exports, data, logs. Conventionally runs/<run_id>.
    work_dir: Path

    # gRPC targets, "host:port".
    trainer_target: str
    rollout_target: str
    sandbox_target: str

    device: Literal["cpu", "cuda"] = "cpu"
    # Weights and activations of training, and of the rollout engine. float32 where bfloat16 has no hardware.
    dtype: Literal["float32", "bfloat16"] = "float32"

    # Completions a problem at each validation, sampled as in training.
    validation_samples: int = Field(default=1, ge=1)
    # Stop when more than this share of a step's samples was lost to platform faults.
    max_fault_share: float = Field(default=0.05, ge=0, lt=1)
    # Stop when mean |p_train - p_rollout| of the sampled tokens exceeds this: the engine is then not computing with
    # the trained weights. None: 0.01 in float32, 0.05 in bfloat16.
    max_probability_gap: float | None = Field(default=None, gt=0)
    # How long a rollout or sandbox that does not answer is retried before the job gives up.
    patience: timedelta = timedelta(minutes=5)

    def run_spec(self) -> trainer_pb2.RunSpec:
        return json_format.ParseDict(self.spec, trainer_pb2.RunSpec())

    @property
    def policy(self) -> str:
        """Name of the run's policy in rollout-service."""
        return f"run-{self.run_id}"

    @property
    def probability_gap_limit(self) -> float:
        if self.max_probability_gap is not None:
            return self.max_probability_gap
        return 0.01 if self.dtype == "float32" else 0.05

    def to_env(self) -> dict[str, str]:
        """The environment by which `from_env` finds this config again."""
        return {ENV: self.model_dump_json()}

    @classmethod
    def from_env(cls, environ: Mapping[str, str] = os.environ) -> "JobConfig":
        """Raises KeyError without `RATCHET_JOB`, and pydantic's ValidationError for a document that is not a config."""
        text = environ[ENV]
        if not text.lstrip().startswith("{"):
            text = Path(text).read_text()
        return cls.model_validate_json(text)


def spec_to_json(spec: trainer_pb2.RunSpec) -> dict[str, Any]:
    """The form of a RunSpec that `JobConfig.spec` holds."""
    return json_format.MessageToDict(spec, preserving_proto_field_name=True)
