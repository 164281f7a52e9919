"""What the service's tests share: specs, and the use cases wired over memory."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
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
from trainer_service.domain.changes import Changes
from trainer_service.domain.driving import Driver, Patience
from trainer_service.domain.examining import Examiner
from trainer_service.domain.platform import BaseModel, Platform
from trainer_service.domain.reports import Reports
from trainer_service.domain.runs import Runs
from trainer_service.domain.spec import Algorithm, ModelRef, ProblemSetRef, RunSpec

MakeSpec = Callable[..., RunSpec]


@pytest.fixture
def make_spec() -> MakeSpec:
    """A spec that is as it should be, but for what a test changes."""

    def make(**changes: Any) -> RunSpec:
        spec: dict[str, Any] = {
            "base": ModelRef("path", "/models/starter"),
            "algorithm": Algorithm.GRPO,
            "problems": ProblemSetRef("composed/train"),
            "steps": 4,
        }
        return RunSpec(**spec | changes)

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
    store, queue, jobs, events, changes = MemoryRunStore(), MemoryRunQueue(), MemoryJobs(), MemoryEvents(), Changes()
    starter = BaseModel("starter@1", "/artifacts/starter/1")
    registry = MemoryRegistry({"starter@1": starter, "starter:champion": starter})
    folders = MemoryFolders(
        {uri: BaseModel(uri, uri, 7_000_000, max_tokens=256) for uri in ("/models/starter", "/artifacts/starter/1")}
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
        runs=Runs(store, queue, Examiner(registry, folders, problems, Platform()), events, changes, clock),
        reports=Reports(store, events, changes, NoMeter(), clock),
        driver=Driver(
            store=store,
            jobs=jobs,
            registry=registry,
            folders=folders,
            policies=policies,
            events=events,
            changes=changes,
            meter=NoMeter(),
            clock=clock,
            code_version="v1",
            patience=Patience(max_attempts=3, finish=soon, stop=soon, poll=soon, retry=soon),
        ),
    )
