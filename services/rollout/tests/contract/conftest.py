"""The engines that a contract is for: the scripted one, vLLM's and transformers'."""

import hashlib
import struct
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from pathlib import Path

import pytest
import pytest_asyncio

from ratchet_kit.allowed_sources import Places
from rollout_service.adapters.engines.engine import EngineDefaults, EngineProcesses, environment
from rollout_service.adapters.engines.forkserver import ForkServer
from rollout_service.adapters.folders import DiskModelFolders
from rollout_service.domain.policy import EngineOptions, PolicyName
from rollout_service.domain.ports import EngineFactory, ModelFolder, ModelFolders, PolicyEngine
from rollout_service.domain.weights import Chunk, TensorHeader, WeightStream

from ..memory import MemoryFolders, ScriptedEngines, content_id

NAME = PolicyName("p")
DEFAULTS = EngineDefaults(
    device="cpu",
    max_num_seqs=32,
    kv_cache_bytes=64 << 20,
    tensor_parallel_size=1,
    gpu_memory_utilization=0.9,
    enforce_eager=True,
    start_timeout=timedelta(minutes=3),
    tool_parsers={"p": "hermes"},
)


class Case:
    def __init__(self, library: str, engines: EngineFactory, folders: ModelFolders, model: ModelFolder) -> None:
        self.library = library
        self.engines = engines
        self.folders = folders
        self.model = model

    def needs(self, feature: str) -> None:
        """Skips a test of what transformers refuses: see `test_what_an_engine_cannot_do_is_refused_by_name`."""
        if self.library == "transformers":
            pytest.skip(f"transformers takes no {feature}")

    async def start(self) -> PolicyEngine:
        return await self.engines.start(NAME, self.model, EngineOptions())

    async def changed(self, model: ModelFolder) -> ModelFolder:
        """Another model, that came as what changed of this one."""

        async def weights() -> WeightStream:
            ones = struct.pack("<192f", *[1.5] * 192)  # of the norm, as conftest makes the model
            norm = "transformer.ln_f.weight" if self.library == "transformers" else "model.norm.weight"
            yield TensorHeader(norm, "F32", (192,), hashlib.sha256(ones).hexdigest())
            yield Chunk(ones)

        return await self.folders.receive(model, weights(), changes=True)


@pytest_asyncio.fixture(
    loop_scope="module",
    scope="module",
    params=["scripted", *(pytest.param(library, marks=pytest.mark.vllm) for library in ("vLLM", "transformers"))],
)
async def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Case]:
    if request.param == "scripted":
        folders = MemoryFolders({"/base": content_id(b"base")})
        yield Case(request.param, ScriptedEngines(), folders, await folders.fetch("/base"))
        return
    pytest.importorskip("vllm", reason="needs the rollout environment")
    make_model: Callable[..., Path] = request.getfixturevalue("make_model")
    work = tmp_path_factory.mktemp("work")
    folder = make_model(known=request.param == "vLLM")
    disk = DiskModelFolders(work / "models", Places([str(folder)]))
    model = await disk.fetch(str(folder))
    async with ForkServer("cpu", environment("cpu", threads=1, eager=True), work / "forkserver.log") as server:
        yield Case(request.param, EngineProcesses(DEFAULTS, server, work), disk, model)


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def engine(case: Case) -> AsyncIterator[PolicyEngine]:
    engine = await case.start()
    yield engine
    await engine.stop()
