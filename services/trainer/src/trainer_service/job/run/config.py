"""What the service hands to a job: one frozen document, passed as `RATCHET_JOB` (JSON, or the path of a JSON file)."""

import os
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from ratchet_kit.names import policy_name
from ratchet_kit.tool_servers import ToolServers
from ratchet_kit.usage import Prices
from trainer_service.domain.spec.algorithms import ALGORITHMS, Algorithm
from trainer_service.domain.spec.spec import Passes, RunSpec

ENV = "RATCHET_JOB"
OUT_OF_MEMORY = 77
"""The exit status of a job for which memory was too little."""
NO_ROOM = 76
"""Of one that found no room for its ranks on the cluster."""

Dtype = Literal["float32", "bfloat16"]
FaultShare = Annotated[float, Field(ge=0, lt=1)]
MAX_FAULT_SHARE: FaultShare = 0.05


class JobConfig(BaseModel):
    """One attempt of one run."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    run_id: str
    attempt: int = Field(ge=1)
    """Grows with each start of the job. Reports of an older attempt are refused by the service."""
    spec: RunSpec
    """Complete and valid: the job makes no defaults, and checks nothing of it again."""
    base_path: str
    """Local folder of the Hugging Face model that training starts from (a registry reference is resolved before)."""
    base_uri: str
    """Where rollout-service finds the same model: a path or a URL."""
    reward_model_path: str = ""
    """Local folder of the reward model that scores a component; empty where none does."""
    work_dir: Path
    """Folder of the run, kept between attempts: checkpoints, exports, data, logs. By convention runs/<run_id>."""
    export_uri: str = ""
    """Folder or URL that exports are moved to. Empty: they stay in `work_dir`."""
    samples_uri: str = ""
    """The same of samples."""

    trainer_target: str
    """gRPC targets are "host:port"."""
    rollout_target: str
    sandbox_target: str
    registry_target: str

    dtype: Dtype = "float32"
    """Weights and activations of training, and of the rollout engine. float32 where bfloat16 has no hardware."""
    out_of_memory: int = Field(default=0, ge=0)
    """Attempts before this one that ran out of memory: each halves the tokens of a pass."""
    max_fault_share: FaultShare = MAX_FAULT_SHARE
    """The run fails when more than this share of a step's samples was lost to platform faults."""
    patience: timedelta = timedelta(minutes=5)
    """How long a service that does not answer is retried before the job gives up."""

    prices: Prices | None = None
    """The operator's; None: nothing has a cost."""
    tool_servers: ToolServers = Field(default_factory=dict)
    """The operator's, by name."""
    spent: float = 0.0
    """The cost of the attempts before this one."""

    @property
    def algorithm(self) -> Algorithm:
        return ALGORITHMS[self.spec.algorithm]

    @property
    def is_cuda(self) -> bool:
        return self.spec.resources.device == "cuda"

    @property
    def usage_folder(self) -> Path:
        """Where the attempt's processes say how much processor time they have used."""
        return self.work_dir / "usage" / str(self.attempt)

    @property
    def policy(self) -> str:
        """Name of the attempt's policy in rollout-service."""
        return policy_name(self.run_id, self.attempt)

    @property
    def passes(self) -> Passes:
        return self.spec.passes(self.out_of_memory)

    @property
    def keeps_sent(self) -> bool:
        """Whether the weights that the engine was last sent are kept. Of bfloat16 few change in a step, and the changes
        alone are sent. Where completions are made beside an update, an engine that is lost has to get them again."""
        return self.dtype != "float32" or bool(self.spec.hyperparameters.max_staleness)

    @property
    def is_partial(self) -> bool:
        """True where what is being generated goes on with new weights, instead of keeping them waiting."""
        return (self.spec.hyperparameters.max_staleness or 0) > 1

    @property
    def interrupts(self) -> bool:
        """True where new weights break answers off. An episode on a task folder goes on by its next answer."""
        on_folders = self.spec.environment is not None and self.spec.environment.on_folders
        return self.is_partial and not on_folders

    @property
    def probability_gap_limit(self) -> float:
        """The run fails when mean |p_train - p_rollout| of the sampled tokens exceeds this: the engine then does not
        compute with the trained weights."""
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
