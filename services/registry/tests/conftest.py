"""What the registry's tests share: model folders, evidence, and the service wired over memory."""

import asyncio
import json
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeVar

import pytest

from ratchet_kit.errors import NotFound
from ratchet_kit.names import AliasRef, VersionRef
from ratchet_kit.statistics import Comparison, Estimate
from ratchet_kit.worker import Timing
from ratchet_testing.clock import ManualClock
from ratchet_testing.queue import MemoryQueue
from registry_service.domain.evidence import Comparisons, Evaluation, MeasuredSet, Origin, SetComparison
from registry_service.domain.gate import Gate, GateSpec
from registry_service.domain.ports import Stores
from registry_service.domain.tries import Look
from registry_service.domain.version import Lineage, Version, VersionSpec
from registry_service.main import Queues, Service, provision
from registry_service.settings import Settings

from .memory import memory_stores

T = TypeVar("T", Version, Gate)
NOW = datetime(2026, 1, 1, tzinfo=UTC)
FAST = Timing(*(timedelta(seconds=seconds) for seconds in (0.02, 0.05, 5, 0.05, 0.01)))


def safetensors(**tensors: bytes) -> bytes:
    """A file of flat F32 tensors in the format of https://github.com/huggingface/safetensors#format."""
    header, data = {}, b""
    for name, content in tensors.items():
        offsets = [len(data), len(data) + len(content)]
        header[name] = {"dtype": "F32", "shape": [len(content) // 4], "data_offsets": offsets}
        data += content
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


ModelFolder = Callable[..., Path]


@pytest.fixture
def model_folder(tmp_path: Path) -> ModelFolder:
    """Makes the folder of a model whose weights depend on `seed`."""

    def make(name: str = "source", seed: int = 1) -> Path:
        folder = tmp_path / name
        folder.mkdir()
        (folder / "config.json").write_text("{}")
        (folder / "model.safetensors").write_bytes(safetensors(weight=struct.pack("<ff", seed, 2.0)))
        return folder

    return make


def files_below(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def comparison(difference: Estimate, problems: int = 200, confidence: float = 0.95) -> Comparison:
    return Comparison(
        Estimate(0.5, 0.4, 0.6),
        Estimate(0.7, 0.6, 0.8),
        difference,
        0.0004,
        problems,
        clusters=problems,
        confidence=confidence,
    )


class MemoryEvents:
    def __init__(self) -> None:
        self.told: list[tuple[str, str]] = []

    async def ended(self, version: Version) -> None:
        self.told.append((str(version.ref), version.state.name))


class MemoryEvaluations:
    """EvaluationSource over what a test puts in it: one set, unless it puts in more."""

    def __init__(self) -> None:
        self.evaluations: dict[str, Evaluation] = {}
        self.difference = Estimate(0.2, 0.1, 0.3)
        self.sets: dict[str, SetComparison] = {}
        self.fingerprints = frozenset[str]()
        """Of the problems of composed/test."""
        self.asked: list[float] = []
        self.seen: dict[str, Look] = {}

    def measure(self, id: str, version: Version, digest: str = "sha256:d", start_time: datetime = NOW) -> str:
        names = [name for name in self.sets if name != "composed/test"]
        sets = (
            MeasuredSet("composed/test", digest),
            *(MeasuredSet(name, f"sha256:{name}") for name in names),
        )
        self.evaluations[id] = Evaluation(id, version.policy_id, sets, version.settings_id)
        self.seen[id] = Look(
            id, version.ref.model, version.policy_id, start_time, setup=digest, draw=id, problems=200, total=200
        )
        return id

    async def looks(self, id: str) -> Sequence[Look]:
        return [one for one in self.seen.values() if one.setup == self.seen[id].setup]

    async def get(self, id: str) -> Evaluation:
        if id not in self.evaluations:
            raise NotFound(f"there is no evaluation {id}")
        return self.evaluations[id]

    async def compare(self, baseline_id: str, candidate_id: str, confidence: float, origin: Origin) -> Comparisons:
        self.asked.append(confidence)
        whole = comparison(self.difference, confidence=confidence)
        shared = [len(self.fingerprints & known.fingerprints) for known in (origin.training, origin.selection)]
        first = SetComparison("composed/test", whole, trained_on=shared[0], selected_on=shared[1])
        return Comparisons(whole, tuple({"composed/test": first, **self.sets}.values()))


@dataclass(frozen=True, slots=True)
class Registry:
    """The service over memory. Nothing is copied or decided but within `working`."""

    service: Service
    stores: Stores
    queues: Queues
    evaluations: MemoryEvaluations
    clock: ManualClock
    root: Path
    events: MemoryEvents

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        stop = asyncio.Event()
        tasks = [asyncio.create_task(work(stop)) for work in self.service.background]
        try:
            yield
        finally:
            stop.set()
            await asyncio.gather(*tasks)

    async def make(self, source: Path, request_id: str = "", **labels: str) -> Version:
        """A version of "starter" that is READY or FAILED."""
        spec = VersionSpec("starter", str(source), Lineage(step=5), labels)
        version = await self.service.versions.create(spec, request_id)
        return (await self.settle(version))[0]

    async def settle(self, *versions: Version) -> list[Version]:
        """The versions as they are once they are no longer PENDING."""
        async with self.working():
            return [await _final(lambda ref=version.ref: self.service.versions.get(ref)) for version in versions]

    async def gate(self, spec: GateSpec, request_id: str = "") -> Gate:
        """A gate that is no longer PENDING."""
        gate = await self.service.gates.create(spec, request_id)
        async with self.working():
            return await _final(lambda: self.service.gates.get(gate.id))

    async def point(self, alias: str, number: int, **options: object) -> dict[str, int]:
        """Sets the alias and gives those that there are then."""
        return dict((await self.service.aliases.set(AliasRef("starter", alias), number, **options)).aliases)


async def _final(get: Callable[[], Awaitable[T]]) -> T:
    async with asyncio.timeout(10):
        while not (seen := await get()).state.is_final:
            await asyncio.sleep(0.005)
    return seen


@pytest.fixture
async def registry(tmp_path: Path, clock: ManualClock) -> AsyncIterator[Registry]:
    async with opened(memory_stores(), tmp_path, clock) as it:
        yield it


@asynccontextmanager
async def opened(stores: Stores, tmp_path: Path, clock: ManualClock) -> AsyncIterator[Registry]:
    queues = Queues(MemoryQueue(), MemoryQueue(), MemoryQueue())
    evaluations, events, root = MemoryEvaluations(), MemoryEvents(), tmp_path / "artifacts"
    async with provision(
        Settings(port=0, artifact_url=str(root), sources="/"),
        stores=stores,
        queues=queues,
        evaluations=evaluations,
        events=events,
        clock=clock,
        timing=FAST,
    ) as service:
        yield Registry(service, stores, queues, evaluations, clock, root / "models", events)


def starter(number: int) -> VersionRef:
    return VersionRef("starter", number)
