from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ratchet.trainer.v1 import trainer_pb2
from trainer_service.job.config import JobConfig, spec_to_json


def run_spec(**changes: Any) -> trainer_pb2.RunSpec:
    spec = trainer_pb2.RunSpec(
        algorithm=trainer_pb2.ALGORITHM_GRPO,
        steps=10,
        seed=7,
        validate_every=4,
        hyperparameters=trainer_pb2.Hyperparameters(
            learning_rate=1e-4,
            batch_size=8,
            group_size=4,
            mini_batch_size=4,
            micro_batch_size=16,
            max_prompt_tokens=96,
            max_response_tokens=64,
            temperature=0.9,
            clip_low=0.2,
            clip_high=0.28,
            kl_coefficient=0.0,
            entropy_coefficient=0.0,
            max_grad_norm=1.0,
            critic_learning_rate=3e-4,
            gae_lambda=0.95,
            gamma=1.0,
            warmup_steps=2,
            weight_decay=0.01,
        ),
    )
    spec.problems.name = "composed/train"
    spec.validation_problems.name = "composed/validation"
    spec.validation_problems.limit = 32
    spec.reward.name = "tests_passed"
    spec.resources.accelerators_per_node = 2
    spec.MergeFrom(trainer_pb2.RunSpec(**changes))
    return spec


@pytest.fixture
def job(tmp_path: Path) -> Callable[..., JobConfig]:
    def build(spec: trainer_pb2.RunSpec | None = None, **changes: Any) -> JobConfig:
        return JobConfig(
            **{
                "run_id": "run_1",
                "attempt": 1,
                "spec": spec_to_json(spec or run_spec()),
                "base_path": "/models/starter",
                "work_dir": tmp_path / "run_1",
                "trainer_target": "127.0.0.1:1",
                "rollout_target": "127.0.0.1:2",
                "sandbox_target": "127.0.0.1:3",
                **changes,
            }
        )

    return build


@pytest.fixture
def spec() -> Callable[..., trainer_pb2.RunSpec]:
    return run_spec
