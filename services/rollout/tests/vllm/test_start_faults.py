"""What vLLM itself says of a model that it cannot load, told apart into faults that stay and faults that may pass."""

import json
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from functools import partial
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


def encoder(folder: Path) -> None:
    """What makes it a decoder (`is_decoder`) is not in the config."""
    import transformers

    ids = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
    shape = {"num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 64, "intermediate_size": 64}
    made = transformers.RoFormerConfig(vocab_size=512, initializer_range=0.2, embedding_size=64, **shape, **ids)
    transformers.RoFormerForCausalLM(made).save_pretrained(folder)


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (
            config(max_position_embeddings=512),
            "wpe.weight has the shape [256, 192], and by the model's config it is [512, 192]",
        ),
        (config(vocab_size=600), "has the shape [512, 192], and by the model's config it is [600, 192]"),
        (config(architectures=["CodeGenForCausalLM"]), "did not start"),
        (
            config(num_layers=2, attention_types=[[["global"], 2]], attention_layers=["global"] * 2),
            "h.2.attn.attention.k_proj.weight has no place",
        ),
        (encoder, "reads what comes after a token"),
    ],
)
async def test_a_model_that_transformers_cannot_serve_is_refused_for_good(
    factory: EngineProcesses, make_model: Callable[..., Path], spoil: Callable[[Path], None], sentence: str
) -> None:
    await test_a_model_that_can_never_be_loaded_is_refused_for_good(
        factory, partial(make_model, known=False), spoil, {}, sentence
    )


async def test_a_config_that_says_no_length_is_told_what_to_write(
    factory: EngineProcesses, make_model: Callable[..., Path]
) -> None:
    folder = make_model()
    config = {
        name: value
        for name, value in json.loads((folder / "config.json").read_text()).items()
        if name != "max_position_embeddings"
    }
    (folder / "config.json").write_text(
        json.dumps(config | {"model_type": "xlstm", "architectures": ["xLSTMForCausalLM"]})
    )
    with pytest.raises(InvalidArgument, match="write max_position_embeddings"):
        await factory.start(PolicyName("p"), ModelFolder(folder, PolicyId("sha256:0"), 1), EngineOptions())


async def test_memory_that_others_have_may_be_free_again(
    factory: EngineProcesses, make_model: Callable[..., Path]
) -> None:
    model = ModelFolder(make_model(), PolicyId("sha256:0"), 1)
    with pytest.raises(FailedPrecondition, match="Available memory on node"):
        await factory.start(PolicyName("p"), model, EngineOptions(kv_cache_bytes=1 << 42))
