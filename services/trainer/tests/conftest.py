"""What the service's tests share: specs, and the service over memory."""

import os
import subprocess
import sys
import zipfile
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ratchet_environments import EnvironmentSpec
from ratchet_kit.faults import Faults
from ratchet_kit.names import Location, VersionRef
from ratchet_testing.clock import ManualClock
from ratchet_testing.queue import MemoryQueue
from trainer_service.domain.create import defaults
from trainer_service.domain.create.following import Following
from trainer_service.domain.create.runs import Runs
from trainer_service.domain.inputs.found import Found, FoundModel
from trainer_service.domain.run.run import Run
from trainer_service.domain.spec.hyperparameters import Hyperparameters
from trainer_service.domain.spec.limits import Limits
from trainer_service.domain.spec.plugins import Installed, Plugin
from trainer_service.domain.spec.recipes import Recipe
from trainer_service.domain.spec.spec import ProblemSetRef, RunSpec
from trainer_service.domain.work.driver import Deadlines, Driver
from trainer_service.domain.work.registration import Exporting
from trainer_service.domain.work.reports import Reports
from trainer_service.domain.work.validating import Validating
from trainer_service.job.policy.weight_versions import WeightVersions
from trainer_service.job.reward.rewarding import Rewarding
from trainer_service.job.reward.second_hand import SecondHand
from trainer_service.job.run.background import Background
from trainer_service.job.run.config import JobConfig
from trainer_service.job.samples.folders import FolderPlayer
from trainer_service.job.samples.groups import Groups
from trainer_service.main import Ports, provision
from trainer_service.settings import Settings

from .generating import LOUD, Environment, Making, Measurer, Policy, Prompts
from .memory import (
    MemoryEvaluations,
    MemoryEvents,
    MemoryFolders,
    MemoryJobs,
    MemoryPlugins,
    MemoryPolicies,
    MemoryProblems,
    MemoryRegistry,
    MemoryRewards,
    MemoryRunStore,
    MemorySamples,
    NoMeter,
)

RATCHET = Path(__file__).parents[3] / ".venvs/light/bin/ratchet"
MakeSpec = Callable[..., RunSpec]
LIMITS = Limits(accelerators=4)
PLUGINS = (
    Installed(Plugin("sampler", "hardest", "pack", "1.0", "sha256:h"), allowed=True),
    Installed(Plugin("loss", "plain", "other", "1.0", "sha256:p"), allowed=False),
    Installed(Plugin("advantage", "median", "pack", "1.0", "sha256:h"), allowed=True),
    Installed(Plugin("algorithm", "median", "pack", "1.0", "sha256:h"), allowed=True),
    Installed(Plugin("reward", "short", "pack", "1.0", "sha256:h"), allowed=True),
    Installed(Plugin("environment", "hints", "pack", "1.0", "sha256:h"), allowed=True),
)
MEDIAN = Recipe(
    "rloo",
    Hyperparameters(group_size=4, clip_high=0.3),
    ("actor_rollout_ref.actor.shuffle=true",),
    (Plugin("advantage", "median"),),
)
STARTER = FoundModel(Location("/models/starter"), "/models/starter", 7_000_000, max_tokens=256)


@pytest.fixture
def make_spec() -> MakeSpec:
    """A spec that is as it should be, but for what a test changes."""

    def make(**changes: Any) -> RunSpec:
        spec: dict[str, Any] = {
            "base": Location("/models/starter"),
            "algorithm": "grpo",
            "problems": ProblemSetRef("composed/train"),
            "steps": 4,
        }
        if changes.get("algorithm") in ("dpo", "reward_model"):
            spec |= {"problems": ProblemSetRef(""), "pairs": ProblemSetRef("pairs.jsonl")}
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
            "base_uri": "/models/starter",
            "work_dir": tmp_path / "run_1",
            "trainer_target": "127.0.0.1:1",
            "rollout_target": "127.0.0.1:2",
            "sandbox_target": "127.0.0.1:3",
            "registry_target": "127.0.0.1:4",
        }
        return JobConfig(**config | changes)

    return make


@dataclass(frozen=True, slots=True)
class Trainer:
    """Everything, over memory. `registry.versions` holds starter@1, starter:champion and starter."""

    ports: Ports
    store: MemoryRunStore
    queue: MemoryQueue
    jobs: MemoryJobs
    registry: MemoryRegistry
    rewards: MemoryRewards
    folders: MemoryFolders
    samples: MemorySamples
    policies: MemoryPolicies
    evaluations: MemoryEvaluations
    events: MemoryEvents
    clock: ManualClock
    runs: Runs
    exporting: Exporting
    reports: Reports
    following: Following
    driver: Driver
    validating: Validating
    deadlines: Deadlines

    async def create(self, request_id: str, spec: RunSpec) -> Run:
        return await self.runs.create(request_id, spec, Faults().under("spec"))


@pytest.fixture
async def trainer(clock: ManualClock) -> AsyncIterator[Trainer]:
    starter = FoundModel(VersionRef("starter", 1), "/artifacts/starter/1")
    uris = ("/models/starter", "/artifacts/starter/1")
    registry = MemoryRegistry(dict.fromkeys(("starter@1", "starter:champion", "starter"), starter))
    folders = MemoryFolders({uri: FoundModel(Location(uri), uri, 7_000_000, max_tokens=256) for uri in uris})
    sets = {
        "composed/train": "sha256:t",
        "composed/validation": "sha256:v",
        "mine.jsonl": "sha256:m",
        "pairs.jsonl": "sha256:p",
        "mine@1/train": "sha256:1",
        "mine@2/train": "sha256:2",
        "mine@3/train": "sha256:3",
    }
    store, queue, jobs = MemoryRunStore(), MemoryQueue(), MemoryJobs()
    policies, events, rewards, samples = MemoryPolicies(), MemoryEvents(), MemoryRewards(), MemorySamples()
    evaluations = MemoryEvaluations()
    ports = Ports(
        store=store,
        queue=queue,
        jobs=jobs,
        registry=registry,
        versions=registry,
        rewards=rewards,
        folders=folders,
        files=folders,
        samples=samples,
        problems=MemoryProblems(sets),
        plugins=MemoryPlugins(PLUGINS, {"median": MEDIAN}),
        policies=policies,
        suites=evaluations,
        evaluations=evaluations,
        events=events,
        meter=NoMeter(),
        clock=clock,
    )
    soon = timedelta(milliseconds=1)
    deadlines = Deadlines(max_attempts=3, finish=soon, stop=soon, poll=soon, retry=soon)
    async with provision(Settings(), ports=ports, deadlines=deadlines) as service:
        yield Trainer(
            ports, store, queue, jobs, registry, rewards, folders, samples, policies, evaluations, events, clock,
            runs=service.runs, exporting=service.exporting, reports=service.reports, following=service.following,
            driver=service.driver, validating=service.validating,
            deadlines=deadlines,
        )  # fmt: skip


@pytest.fixture
def make_plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """A module of that name and source, installed as a package whose entry points are `kind=function`."""

    def make(name: str, source: str, **functions: str) -> None:
        site = tmp_path / "site"
        info = site / f"{name}-1.0.dist-info"
        info.mkdir(parents=True)
        (site / f"{name}.py").write_text(source)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        lines = (f"[ratchet.{kind}]\n{name} = {name}:{function}\n" for kind, function in functions.items())
        (info / "entry_points.txt").write_text("".join(lines))
        monkeypatch.syspath_prepend(str(site))
        monkeypatch.setenv("PYTHONPATH", str(site), prepend=os.pathsep)

    return make


@pytest.fixture
def install_plugin(tmp_path: Path) -> Callable[[str, str], Path]:
    """`ratchet new KIND NAME`, built as a wheel and unpacked, which is what installing it does. Gives the folder that
    then has to be on Python's path."""
    if not RATCHET.exists():
        pytest.skip("needs the light environment, where the command is")

    def install(kind: str, name: str) -> Path:
        made, site = tmp_path / "made", tmp_path / "site"
        made.mkdir(exist_ok=True)
        subprocess.run([str(RATCHET), "new", kind, name, "--folder", str(made)], check=True, capture_output=True)
        build = f"from setuptools import build_meta; build_meta.build_wheel({str(made)!r})"
        subprocess.run([sys.executable, "-c", build], cwd=made / name, check=True, capture_output=True)
        (wheel,) = made.glob(f"{name}-*.whl")
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(site)
        return site

    return install


@pytest.fixture
async def run(trainer: Trainer, make_spec: MakeSpec) -> Run:
    """Of three steps; its version is one of "coder"."""
    created: Run = await trainer.create("r1", make_spec(steps=3, output_model="coder"))
    return created


@pytest.fixture
def background() -> Iterator[Background]:
    with Background() as running:
        yield running


@pytest.fixture
def make_groups(background: Background, make_job: Any, make_complete_spec: Any) -> Callable[..., Making]:
    """Four completions a prompt of 16 tokens, at a temperature that is one above the number of the step, of nine."""

    def make(
        policy: Policy,
        environment: Environment,
        *,
        algorithm: str = "ppo",
        push: Callable[[], str] = lambda: "",
        measurer: Measurer | None = None,
        limit: float = 0.5,
        prompts: Prompts | None = None,
        second_hand: SecondHand | None = None,
        folders: FolderPlayer | None = None,
        turn_discount: float = 0.0,
    ) -> Making:
        hyper = Hyperparameters(
            group_size=4,
            max_response_tokens=16,
            temperature=2.0,
            temperature_end=10.0,
            turn_discount=turn_discount,
        )
        spec = make_complete_spec(
            algorithm=algorithm, steps=9, hyperparameters=hyper, environment=EnvironmentSpec("edits")
        )
        job, sent, rewarding = make_job(spec), WeightVersions(push), Rewarding(LOUD, measurer or Measurer(), limit)
        sent.now("sha256:mine", 0)
        answers: Any = policy
        put: Any = prompts or Prompts()
        reporter: Any = SimpleNamespace(has_stepped=False)
        groups = Groups(job, answers, environment, rewarding, sent, put, reporter, second_hand, folders)
        return Making(job, background, sent, groups)

    return make
