"""What vLLM itself says of a model that it cannot load, told apart into faults that stay and faults that may pass."""

import json
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from pathlib import Path

import pytest
import pytest_asyncio

from ratchet_kit.errors import FailedPrecondition, InvalidArgument
from rollout_service.adapters.engines.engine import EngineDefaults, EngineProcesses, environment
from rollout_service.adapters.engines.forkserver import ForkServer
from rollout_service.domain.policy import EngineOptions, PolicyId, PolicyName
from rollout_service.domain.ports import ModelFolder

pytestmark = [pytest.mark.vllm, pytest.mark.asyncio(loop_scope="module")]


def config(**changes: object) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        file = folder / "config.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | changes))

    return change


def cut(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).write_bytes((folder / name).read_bytes()[:9]) and None


FP8 = {"quant_method": "fp8", "activation_scheme": "dynamic"}


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def factory(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[EngineProcesses]:
    pytest.importorskip("vllm", reason="needs the rollout environment")
    work = tmp_path_factory.mktemp("work")
    defaults = EngineDefaults("cpu", 8, 64 << 20, 1, 0.9, True, timedelta(minutes=3))
    async with ForkServer("cpu", environment("cpu", threads=1, eager=True), work / "forkserver.log") as server:
        yield EngineProcesses(defaults, server, work)


@pytest.mark.parametrize(
    ("spoil", "options", "sentence"),
    [
        (config(architectures=["NowhereForCausalLM"]), {}, "'NowhereForCausalLM'] are not supported"),
        (config(model_type="nowhere"), {}, "`nowhere` but Transformers does not recognize"),
        (config(num_attention_heads=7), {}, "not a multiple of the number of attention heads"),
        (config(num_hidden_layers=6), {}, "weights were not initialized from checkpoint"),
        (config(intermediate_size=1024), {}, "exceeds dimension size"),
        (config(quantization_config=FP8), {}, "torch.float32 is not supported for quantization method fp8"),
        (cut("config.json"), {}, "not a valid JSON file"),
        (cut("tokenizer.json"), {}, "did not start"),
        (config(max_position_embeddings=9_000_000), {"max_model_len": 5_000_000}, "KV cache is needed"),
        (config(), {"kv_cache_bytes": 1}, "not enough"),
    ],
)
async def test_a_model_that_can_never_be_loaded_is_refused_for_good(
    factory: EngineProcesses,
    make_model: Callable[..., Path],
    spoil: Callable[[Path], None],
    options: dict,
    sentence: str,
) -> None:
    folder = make_model()
    spoil(folder)
    with pytest.raises(InvalidArgument) as refused:
        await factory.start(PolicyName("p"), ModelFolder(folder, PolicyId("sha256:0"), 1), EngineOptions(**options))
    assert sentence in refused.value.message


async def test_memory_that_others_have_may_be_free_again(
    factory: EngineProcesses, make_model: Callable[..., Path]
) -> None:
    model = ModelFolder(make_model(), PolicyId("sha256:0"), 1)
    with pytest.raises(FailedPrecondition, match="Available memory on node"):
        await factory.start(PolicyName("p"), model, EngineOptions(kv_cache_bytes=1 << 42))
