"""The proof that vLLM computes with the weights it was sent: it holds when they are there, and only then."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rollout_service.adapters.engines.engine import environment

pytestmark = pytest.mark.vllm

Probe = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def probe(make_model: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Probe:
    """Sends a model weights that differ by a hundredth, and tells what the probe said."""
    torch = pytest.importorskip("torch", reason="needs the rollout environment")
    from safetensors.torch import load_file, save_file

    def run(*, tied: bool, dtype: str) -> dict[str, Any]:
        base, new = make_model(tied=tied), tmp_path_factory.mktemp("new")
        tensors = load_file(base / "model.safetensors")
        torch.manual_seed(1)
        moved = {
            name: tensor + tensor.abs().mean() * 1e-2 * torch.randn_like(tensor) for name, tensor in tensors.items()
        }
        save_file(moved, new / "model.safetensors")
        script = Path(__file__).with_name("probe_cases.py")
        result = subprocess.run(
            [sys.executable, str(script), str(base), str(new), dtype],
            env=environment("cpu", threads=1, eager=True),
            stdout=subprocess.PIPE,
            text=True,
            timeout=300,
            check=True,
        )
        report: dict[str, Any] = json.loads(result.stdout.splitlines()[-1])
        return report

    return run


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_stale_tied_output_layer_is_noticed(probe: Probe, dtype: str) -> None:
    report = probe(tied=True, dtype=dtype)
    stale = report["not_repacked"]["failures"]
    assert stale, "vLLM re-packs tied output layers by itself now: _repack_tied_heads can go"
    assert all(failure.startswith("lm_head") for failure in stale)
    assert report["repacked"]["failures"] == []
    assert report["unnoticed"] == []


def test_an_untied_output_layer_is_right_by_itself(probe: Probe) -> None:
    report = probe(tied=False, dtype="float32")
    assert report["not_repacked"]["failures"] == report["repacked"]["failures"] == []
    assert report["repacked"]["error"] < 1e-5
    assert report["unnoticed"] == []
