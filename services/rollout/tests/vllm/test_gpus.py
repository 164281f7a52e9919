"""What Ratchet asks of vLLM on 1 and on 8 GPUs, as vLLM's own validators read it."""

import inspect
import json
import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

pytest.importorskip("vllm", reason="needs the rollout environment")

from rollout_service.adapters.engines.engine import EngineDefaults, engine_spec
from rollout_service.adapters.vllm.vllm_engine import engine_args
from rollout_service.domain.policy import Dtype, EngineOptions, PolicyId, PolicyName
from rollout_service.domain.ports import ModelFolder
from rollout_service.settings import Settings

pytestmark = pytest.mark.vllm

EIGHT = "0,1,2,3,4,5,6,7"


@pytest.fixture(scope="module")
def model(make_model: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> ModelFolder:
    """The config of a model whose heads can be spread over 8 GPUs; its weights are not looked at."""
    folder = tmp_path_factory.mktemp("wide") / "model"
    shutil.copytree(make_model(dtype="bfloat16"), folder)
    config = json.loads((folder / "config.json").read_text())
    wide = {"hidden_size": 1024, "head_dim": 64, "num_attention_heads": 16, "num_key_value_heads": 8}
    (folder / "config.json").write_text(json.dumps(config | wide))
    return ModelFolder(folder, PolicyId("sha256:0"), 0)


@pytest.mark.parametrize(
    ("gpus", "spread", "share"), [("0", 1, 0.9 / 4), (EIGHT, 1, 0.9), (EIGHT, 4, 0.9 / 2), (EIGHT, 8, 0.9 / 4)]
)
def test_vllm_takes_what_is_asked_of_it(model: ModelFolder, gpus: str, spread: int, share: float) -> None:
    settings = Settings(device="cuda", gpus=gpus, tensor_parallel_size=spread)
    devices = settings.devices
    placed = devices.place([], None)
    assert len(placed) == spread
    defaults = EngineDefaults(
        device="cuda",
        max_num_seqs=settings.max_num_seqs,
        kv_cache_bytes=settings.kv_cache_bytes,
        tensor_parallel_size=spread,
        gpu_memory_utilization=devices.memory_share,
        enforce_eager=settings.eager,
        start_timeout=timedelta(minutes=10),
    )
    config = engine_args(engine_spec(defaults, PolicyName("p"), model, EngineOptions(), placed)).create_engine_config()
    assert config.parallel_config.tensor_parallel_size == config.parallel_config.world_size == spread
    assert config.cache_config.gpu_memory_utilization == pytest.approx(share)
    assert config.cache_config.kv_cache_memory_bytes is None
    assert str(config.model_config.dtype).endswith(Dtype.BFLOAT16)
    assert not config.model_config.enforce_eager
    assert not config.model_config.enable_sleep_mode


def test_the_methods_of_vllm_that_an_engine_sleeps_by_are_there() -> None:
    """Sleeping itself needs a GPU: vLLM refuses the option elsewhere, by name."""
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.v1.engine.async_llm import AsyncLLM

    assert {"level", "mode"} <= set(inspect.signature(AsyncLLM.sleep).parameters)
    assert inspect.iscoroutinefunction(AsyncLLM.wake_up)
    assert "enable_sleep_mode" in AsyncEngineArgs.__dataclass_fields__


def test_what_is_compiled_serves_each_version_of_a_model(model: ModelFolder, tmp_path: Path) -> None:
    from vllm.config import ModelConfig

    from rollout_service.adapters.vllm.compile_cache import compute_hash

    folders = [tmp_path / name for name in ("a@1", "a@2", "wider")]
    for folder in folders:
        shutil.copytree(model.path, folder)
    config = json.loads((folders[2] / "config.json").read_text())
    (folders[2] / "config.json").write_text(json.dumps(config | {"intermediate_size": 2048}))
    first, second, wider = (ModelConfig(model=str(folder)) for folder in folders)
    assert first.compute_hash() != second.compute_hash(), "vLLM's own has the path"
    assert compute_hash(first) == compute_hash(second) != compute_hash(wider)
    assert first.model == str(folders[0])
