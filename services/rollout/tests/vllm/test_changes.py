"""Changes that a real vLLM applies in place leave it, bit for bit, as one that was started with what they make."""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ratchet_kit import policy_id
from ratchet_kit.allowed_sources import Places
from ratchet_policies import tensor_changes
from rollout_service.adapters.engines.engine import environment
from rollout_service.adapters.folders import DiskModelFolders
from rollout_service.domain.ports import ModelFolder
from rollout_service.domain.weights import Chunk, TensorHeader

pytestmark = pytest.mark.vllm

CASES = Path(__file__).with_name("changes_cases.py")
SAME = "model.layers.1.self_attn.o_proj.weight"
"""A tensor in which nothing changes."""


class Kind(NamedTuple):
    tied: bool
    dtype: str
    """What the engine computes in. The weights are bfloat16."""
    packs: bool
    """As vLLM does on CPU; else the weights stay in its parameters, as on a GPU."""
    ranks: int = 1


@pytest.fixture(scope="module")
def qwen(tmp_path_factory: pytest.TempPathFactory) -> Callable[[bool], Path]:
    """Random Qwen2 models: biases, two heads of keys to four of queries, and a vocabulary that vLLM pads."""
    torch = pytest.importorskip("torch", reason="needs the rollout environment")
    transformers = pytest.importorskip("transformers", reason="needs the rollout environment")

    def make(tied: bool) -> Path:
        folder = tmp_path_factory.mktemp("qwen")
        torch.manual_seed(0)
        config = transformers.Qwen2Config(
            vocab_size=500,
            hidden_size=128,
            intermediate_size=192,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=256,
            tie_word_embeddings=tied,
            initializer_range=0.2,
        )
        model = transformers.Qwen2ForCausalLM(config)
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):
                torch.nn.init.normal_(parameter)
        model.to(torch.bfloat16).save_pretrained(folder)
        return folder

    return make


async def stepped(folders: DiskModelFolders, base: ModelFolder, seed: int) -> ModelFolder:
    """As the service has it when changes came: of each tensor a few values, by the least there is; of a bias all."""
    import torch

    async def weights() -> AsyncIterator[TensorHeader | Chunk]:
        for before in read(base.path):
            generator = torch.Generator().manual_seed(seed)
            bits = torch.frombuffer(bytearray(before.data), dtype=torch.int16)
            share = 0 if before.name == SAME else 1 if before.name.endswith("bias") else 0.03
            moved = bits + (torch.rand(len(bits), generator=generator) < share).short()
            moved[:1] = moved[:1] if before.name == SAME else -(2**15)  # minus zero
            after = moved.numpy().tobytes()
            sha256 = hashlib.sha256(after).hexdigest()
            encoded = tensor_changes.encode(before.data, after, 2)
            yield TensorHeader(before.name, before.dtype, tuple(before.shape), sha256, changes=encoded is not None)
            yield Chunk(after if encoded is None else encoded)

    received = await folders.receive(base, weights(), changes=True)
    assert received.changes is not None
    return received


def read(folder: Path) -> list[policy_id.Tensor]:
    (file,) = folder.glob("*.safetensors")
    return [one._replace(data=bytes(one.data)) for one in policy_id.read_safetensors(file)]


def run(kind: Kind, start: Path, *steps: str) -> Any:
    beside = environment("cpu", threads=1, eager=True) | {"PYTHONPATH": os.pathsep.join([str(CASES.parent)])}
    if not kind.packs:
        beside["AS_ON_A_GPU"] = "1"
    command = [sys.executable, str(CASES), str(start), kind.dtype, str(kind.ranks), *steps]
    result = subprocess.run(command, env=beside, stdout=subprocess.PIPE, text=True, timeout=600, check=True)
    (said,) = [line for line in result.stdout.splitlines() if line.startswith('{"said"')]
    return json.loads(said)


def whole(folder: ModelFolder) -> str:
    return f"{folder.path},{folder.policy_id}"


def changes(folder: ModelFolder) -> str:
    assert folder.changes is not None
    return f"{whole(folder)},{folder.changes.base},{folder.changes.digest}"


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(Kind(tied=True, dtype="bfloat16", packs=True), id="on a CPU"),
        pytest.param(Kind(tied=False, dtype="bfloat16", packs=False), id="as on a GPU"),
        pytest.param(Kind(tied=False, dtype="float32", packs=True), id="computed in float32"),
        pytest.param(Kind(tied=False, dtype="bfloat16", packs=True, ranks=2), id="two ranks on a CPU"),
        pytest.param(Kind(tied=True, dtype="bfloat16", packs=False, ranks=2), id="two ranks as on GPUs"),
    ],
)
async def test_it_is_as_one_that_read_all_of_it(qwen: Callable[[bool], Path], tmp_path: Path, kind: Kind) -> None:
    source = qwen(kind.tied)
    folders = DiskModelFolders(tmp_path / "work", Places([str(source)]))
    first = await folders.fetch(str(source))
    second = await stepped(folders, first, seed=1)
    third = await stepped(folders, second, seed=2)
    changed = run(kind, source, whole(first), changes(second), changes(third))
    assert [list(one) for one in changed["said"]] == [["reports"], ["reports", "slices"], ["reports", "slices"]]
    assert [report["failures"] for one in changed["said"] for report in one["reports"]] == [[]] * 3 * kind.ranks
    read_whole = run(kind, third.path)
    assert changed["seen"] == read_whole["seen"]
    assert changed["answers"] == read_whole["answers"]


async def test_changes_of_other_weights_are_not_applied(qwen: Callable[[bool], Path], tmp_path: Path) -> None:
    source = qwen(False)
    folders = DiskModelFolders(tmp_path / "work", Places([str(source)]))
    first = await folders.fetch(str(source))
    second = await stepped(folders, first, seed=1)
    third = await stepped(folders, second, seed=2)
    kind = Kind(tied=False, dtype="bfloat16", packs=True)
    said = run(kind, source, changes(second), whole(first), changes(third), changes(second))["said"]
    assert [list(one) for one in said] == [["obstacles"], ["reports"], ["obstacles"], ["reports", "slices"]]
