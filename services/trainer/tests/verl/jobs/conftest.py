from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import grpc
import pytest

from ratchet.trainer.v1 import job_report_pb2_grpc
from ratchet_kit.client import wait_healthy
from ratchet_rewards import Reward
from ratchet_testing.ports import free_port
from ratchet_testing.processes import process
from ratchet_testing.services import serving
from trainer_service.domain.spec.hyperparameters import Hyperparameters
from trainer_service.domain.spec.spec import ProblemSetRef, RunSpec

from .world import LIGHT, ROLLOUT, Reports, World


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    reports = Reports()

    def add(server: grpc.aio.Server) -> list[str]:
        job_report_pb2_grpc.add_JobReportServiceServicer_to_server(reports, server)
        return ["ratchet.trainer.v1.JobReportService"]

    async with AsyncExitStack() as stack:
        targets = {}
        for name, python in (("rollout", str(ROLLOUT)), ("sandbox", str(LIGHT))):
            port = free_port()
            env = {f"RATCHET_{name.upper()}_PORT": str(port), f"RATCHET_{name.upper()}_METRICS_PORT": "0"}
            env["RATCHET_ROLLOUT_WORK_DIR"] = str(tmp_path / "rollout")
            env["RATCHET_SOURCES"] = "/"
            log = tmp_path / f"{name}.log"
            await stack.enter_async_context(process(log, python, "-m", f"{name}_service.main", **env))
            targets[name] = f"127.0.0.1:{port}"
        for target in targets.values():
            await wait_healthy(target, timedelta(minutes=2))
        trainer = await stack.enter_async_context(serving(add))
        yield World(reports, tmp_path, trainer, **targets)


@pytest.fixture
def run_spec(make_complete_spec: Callable[..., RunSpec]) -> Callable[..., RunSpec]:
    """A complete spec of four short steps; `hyperparameters` are those beside what makes it small."""

    def make(algorithm: str = "grpo", hyperparameters: Hyperparameters = Hyperparameters(), **changes: Any) -> RunSpec:
        small = Hyperparameters(batch_size=4, max_prompt_tokens=64, max_response_tokens=72, warmup_steps=0)
        if algorithm not in ("sft", "dpo", "reward_model"):
            small = replace(small, group_size=4)
        spec: dict[str, Any] = {
            "problems": ProblemSetRef("" if algorithm in ("dpo", "reward_model") else "composed/train"),
            "validation_problems": ProblemSetRef("composed/validation", limit=8)
            if algorithm != "reward_model"
            else None,
            "steps": 4,
            "validate_every": 2,
            "reward": Reward() if algorithm in ("sft", "reward_model") else Reward("tests_fraction"),
        }
        return make_complete_spec(algorithm=algorithm, hyperparameters=hyperparameters.over(small), **spec | changes)

    return make
