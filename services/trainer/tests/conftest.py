"""What the service's tests share: specs, and the use cases wired over memory."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from ratchet_testing.clock import ManualClock
from trainer_service.adapters.memory import (
    MemoryEvents,
    MemoryFolders,
    MemoryJobs,
    MemoryPolicies,
    MemoryProblems,
    MemoryRegistry,
    MemoryRunQueue,
    MemoryRunStore,
    NoMeter,
)
from trainer_service.domain import defaults
from trainer_service.domain.driver import Deadlines, Driver
from trainer_service.domain.limits import Limits
from trainer_service.domain.ports import FoundModel
from trainer_service.domain.references import Found, References
from trainer_service.domain.reports import Reports
from trainer_service.domain.run_updates import RunUpdates
from trainer_service.domain.runs import Runs
from trainer_service.domain.spec import ModelRef, ProblemSetRef, RunSpec
from trainer_service.job.config import JobConfig

MakeSpec = Callable[..., RunSpec]
LIMITS = Limits(rewards=("tests_fraction", "tests_passed"), accelerators=4)
STARTER = FoundModel("/models/starter", "/models/starter", 7_000_000, max_tokens=256)


@pytest.fixture
def make_spec() -> MakeSpec:
    """A spec that is as it should be, but for what a test changes."""

    def make(**changes: Any) -> RunSpec:
        spec: dict[str, Any] = {
            "base": ModelRef("path", "/models/starter"),
            "algorithm": "grpo",
            "problems": ProblemSetRef("composed/train"),
            "steps": 4,
        }
        return RunSpec(**spec | changes)

    return make


@pytest.fixture
def make_complete_spec(make_spec: MakeSpec) -> MakeSpec:
    """The same, with every choice made."""
    return lambda **changes: defaults.complete(make_spec(**changes), Found(STARTER), LIMITS)


@pytest.fixture
def make_job(make_complete_spec: MakeSpec, tmp_path: Path) -> Callable[..., JobConfig]:
    """The config of a job; `spec` is a complete one."""

    def make(spec: RunSpec | None = None, **changes: Any) -> JobConfig:
        config: dict[str, Any] = {
            "run_id": "run_1",
            "attempt": 1,
            "spec": spec or make_complete_spec(),
            "base_path": "/models/starter",
            "work_dir": tmp_path / "run_1",
            "trainer_target": "127.0.0.1:1",
            "rollout_target": "127.0.0.1:2",
            "sandbox_target": "127.0.0.1:3",
        }
        return JobConfig(**config | changes)

    return make


@dataclass
class Trainer:
    """Everything, over memory. `registry.versions` holds starter@1 and starter:champion."""

    store: MemoryRunStore
    queue: MemoryRunQueue
    jobs: MemoryJobs
    registry: MemoryRegistry
    folders: MemoryFolders
    policies: MemoryPolicies
    events: MemoryEvents
    clock: ManualClock
    runs: Runs
    reports: Reports
    driver: Driver


@pytest.fixture
def trainer(clock: ManualClock) -> Trainer:
    store, queue, jobs, events, updates = MemoryRunStore(), MemoryRunQueue(), MemoryJobs(), MemoryEvents(), RunUpdates()
    starter = FoundModel("starter@1", "/artifacts/starter/1")
    registry = MemoryRegistry({"starter@1": starter, "starter:champion": starter})
    folders = MemoryFolders(
        {uri: FoundModel(uri, uri, 7_000_000, max_tokens=256) for uri in ("/models/starter", "/artifacts/starter/1")}
    )
    problems = MemoryProblems(
        {"composed/train": "sha256:t", "composed/validation": "sha256:v", "mine.jsonl": "sha256:m"}
    )
    policies = MemoryPolicies()
    soon = timedelta(milliseconds=1)
    return Trainer(
        store=store,
        queue=queue,
        jobs=jobs,
        registry=registry,
        folders=folders,
        policies=policies,
        events=events,
        clock=clock,
        runs=Runs(store, queue, References(registry, folders, problems), LIMITS, events, updates, clock),
        reports=Reports(store, events, updates, NoMeter(), clock),
        driver=Driver(
            store=store,
            jobs=jobs,
            registry=registry,
            folders=folders,
            policies=policies,
            events=events,
            updates=updates,
            meter=NoMeter(),
            clock=clock,
            code_version="v1",
            deadlines=Deadlines(max_attempts=3, finish=soon, stop=soon, poll=soon, retry=soon),
        ),
    )
