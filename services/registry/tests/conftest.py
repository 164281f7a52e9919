"""What the registry's tests share: model folders, drafts, and the wired use cases over memory."""

import json
import struct
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ratchet_kit.errors import NotFound
from ratchet_testing.clock import ManualClock
from registry_service.adapters.artifacts import FsspecArtifactStore
from registry_service.adapters.memory import MemoryModelStore
from registry_service.domain.aliases import Aliases
from registry_service.domain.catalog import Catalog
from registry_service.domain.gatekeeping import Gates
from registry_service.domain.gates import Comparison, Estimate, Evaluation
from registry_service.domain.models import Version

NOW = datetime(2026, 1, 1, tzinfo=UTC)


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


class MemoryEvaluations:
    """EvaluationSource over what a test puts in it."""

    def __init__(self) -> None:
        self.evaluations: dict[str, Evaluation] = {}
        self.difference = Estimate(0.2, 0.1, 0.3)

    def measure(self, id: str, version: Version, digest: str = "sha256:d") -> str:
        self.evaluations[id] = Evaluation(id, version.policy_id, "composed/test", digest)
        return id

    async def get(self, id: str) -> Evaluation:
        if id not in self.evaluations:
            raise NotFound(f"there is no evaluation {id}")
        return self.evaluations[id]

    async def compare(self, baseline_id: str, candidate_id: str) -> Comparison:
        return Comparison(self.difference, 0.0004, 200)


@dataclass
class Registry:
    store: MemoryModelStore
    evaluations: MemoryEvaluations
    clock: ManualClock
    catalog: Catalog
    aliases: Aliases
    gates: Gates
    root: Path


@pytest.fixture
def registry(tmp_path: Path, clock: ManualClock) -> Registry:
    store, evaluations, root = MemoryModelStore(), MemoryEvaluations(), tmp_path / "artifacts"
    return Registry(
        store=store,
        evaluations=evaluations,
        clock=clock,
        catalog=Catalog(store, FsspecArtifactStore(str(root)), clock),
        aliases=Aliases(store, clock),
        gates=Gates(store, evaluations, clock),
        root=root,
    )
