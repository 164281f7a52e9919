"""The service's side of a vLLM engine: starts its process group, talks to it, notices its death, ends it."""

import asyncio
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Literal

from ratchet_kit.errors import DataLoss, FailedPrecondition, FieldViolation, InvalidArgument, RatchetError, Unavailable
from ratchet_kit.logs import get_logger
from ratchet_kit.process import ProcessGroup
from rollout_service.adapters.vllm import wire
from rollout_service.adapters.vllm.machine import choose_dtype
from rollout_service.domain.generation import EngineOutput, GenerationRequest
from rollout_service.domain.policy import EngineInfo, EngineOptions, PolicyName
from rollout_service.domain.ports import ModelFolder, PolicyEngine
from rollout_service.domain.weights import LoadedWeights

log = get_logger(__name__)

_STOP_GRACE = timedelta(seconds=5)
_LOG_TAIL_BYTES = 4096


@dataclass(frozen=True)
class EngineDefaults:
    """What the service chooses where a request leaves it open."""

    device: Literal["cpu", "cuda"]
    max_num_seqs: int
    kv_cache_mib: int
    """0 on CUDA: what `gpu_memory_utilization` leaves."""
    tensor_parallel_size: int
    gpu_memory_utilization: float
    enforce_eager: bool
    threads: int
    start_timeout: timedelta


class VllmFactory:
    """Starts vLLM engines; see `EngineFactory`."""

    def __init__(self, defaults: EngineDefaults, log_folder: Path) -> None:
        self._defaults = defaults
        self._log_folder = log_folder

    async def start(self, name: PolicyName, model: ModelFolder, options: EngineOptions) -> PolicyEngine:
        # Unix socket paths are short (108 bytes), so not under a folder that the user chose. mkdtemp makes it private.
        private = Path(tempfile.mkdtemp(prefix="ratchet-rollout-"))
        try:
            spec_file, socket = private / "spec.json", private / "engine.sock"
            spec_file.write_text(wire.encode_spec(self._spec(model, options)))
            self._log_folder.mkdir(parents=True, exist_ok=True)
            log_file = self._log_folder / f"{name}.log"
            with log_file.open("ab") as output:
                group = await ProcessGroup.start(
                    [sys.executable, "-m", "rollout_service.adapters.vllm.engine_main", str(spec_file), str(socket)],
                    env=self._environment(private),
                    stdout=output,
                    stderr=output,
                )
        except BaseException:
            shutil.rmtree(private, ignore_errors=True)
            raise
        process = _EngineProcess(group, private, socket, log_file)
        try:
            return VllmPolicyEngine(process, await self._describe(process))
        except BaseException:
            await process.stop()
            raise

    async def _describe(self, process: "_EngineProcess") -> EngineInfo:
        limit = self._defaults.start_timeout.total_seconds()
        try:
            async with asyncio.timeout(limit):
                await process.listening()
                async with process.call(wire.Describe()) as replies:
                    described = await anext(replies)
        except TimeoutError as e:
            raise FailedPrecondition(f"vLLM did not start within {limit:.0f} s; see {process.log_file}") from e
        except Unavailable as e:
            raise FailedPrecondition(f"vLLM did not start: {e.message}; see {process.log_file}") from e
        assert isinstance(described, wire.Described)
        return EngineInfo(described.dtype, described.max_model_len)

    def _spec(self, model: ModelFolder, options: EngineOptions) -> wire.EngineSpec:
        defaults = self._defaults
        return wire.EngineSpec(
            model=str(model.path),
            device=defaults.device,
            dtype=choose_dtype(defaults.device, model.path) if options.dtype == "auto" else options.dtype,
            max_model_len=options.max_model_len,
            max_num_seqs=options.max_num_seqs or defaults.max_num_seqs,
            kv_cache_bytes=(options.kv_cache_mib or defaults.kv_cache_mib) << 20,
            tensor_parallel_size=options.tensor_parallel_size or defaults.tensor_parallel_size,
            gpu_memory_utilization=defaults.gpu_memory_utilization,
            enforce_eager=defaults.enforce_eager,
            threads=defaults.threads,
        )

    def _environment(self, private: Path) -> dict[str, str]:
        fixed = {
            "VLLM_NO_USAGE_STATS": "1",
            "VLLM_RPC_BASE_PATH": str(private),
            "TOKENIZERS_PARALLELISM": "false",
            "HF_HUB_OFFLINE": "1",  # a model is a folder here; nothing is looked up
            "PYTHONUNBUFFERED": "1",
        }
        if self._defaults.device == "cpu":
            fixed |= {
                "OMP_NUM_THREADS": str(self._defaults.threads),
                # Lets the worker live in the engine's process; see VllmEngine.start.
                "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
                "VLLM_CPU_OMP_THREADS_BIND": "nobind",
                "CUDA_VISIBLE_DEVICES": "",
            }
        return os.environ | fixed


class VllmPolicyEngine:
    """A running vLLM engine; see `PolicyEngine`."""

    def __init__(self, process: "_EngineProcess", info: EngineInfo) -> None:
        self._process = process
        self._info = info

    @property
    def info(self) -> EngineInfo:
        return self._info

    async def generate(self, request: GenerationRequest, *, stream: bool) -> AsyncGenerator[EngineOutput, None]:
        async with self._process.call(wire.generate_call(request, stream)) as replies:
            async for reply in replies:
                assert isinstance(reply, wire.Output)
                yield wire.output_of(reply)
                if reply.last:
                    return

    async def load_weights(self, folder: ModelFolder) -> LoadedWeights:
        async with self._process.call(wire.LoadWeights(str(folder.path))) as replies:
            reply = await anext(replies)
        assert isinstance(reply, wire.Loaded)
        return LoadedWeights(reply.probe_error)

    async def died(self) -> str:
        return await self._process.died()

    async def stop(self) -> None:
        await self._process.stop()


class _EngineProcess:
    """The process group of an engine, its socket, and the private folder they live in."""

    def __init__(self, group: ProcessGroup, private: Path, socket: Path, log_file: Path) -> None:
        self._group = group
        self._private = private
        self._socket = socket
        self.log_file = log_file

    async def listening(self) -> None:
        """Waits for the socket. Raises Unavailable when the process ends first."""
        while not self._socket.exists():
            if self._group.returncode is not None:
                raise Unavailable(await self.died())
            await asyncio.sleep(0.05)

    @asynccontextmanager
    async def call(self, message: wire.Call) -> AsyncIterator[AsyncIterator[wire.Reply]]:
        """Sends one call and gives its replies; leaving early aborts it.

        Raises the error that the engine tells, or Unavailable when it is gone.
        """
        try:
            reader, writer = await asyncio.open_unix_connection(self._socket)
        except OSError as e:
            raise Unavailable("the engine is gone; it is being restarted") from e
        try:
            await wire.send(writer, message)
            yield _replies(reader)
        except (asyncio.IncompleteReadError, ConnectionError) as e:
            raise Unavailable("the engine died during the call; it is being restarted") from e
        finally:
            writer.close()

    async def died(self) -> str:
        code = await self._group.wait()
        if code < 0:
            return f"vLLM was killed by {signal.Signals(-code).name}"
        return f"vLLM exited with status {code} ({self._last_words()})"

    async def stop(self) -> None:
        await self._group.stop(_STOP_GRACE)
        shutil.rmtree(self._private, ignore_errors=True)

    def _last_words(self) -> str:
        with self.log_file.open("rb") as opened:
            opened.seek(max(0, self.log_file.stat().st_size - _LOG_TAIL_BYTES))
            lines = [line.strip() for line in opened.read().decode(errors="replace").splitlines() if line.strip()]
        return lines[-1] if lines else "it said nothing"


async def _replies(reader: asyncio.StreamReader) -> AsyncIterator[wire.Reply]:
    while True:
        reply = await wire.receive_reply(reader)
        if isinstance(reply, wire.Failed):
            raise _error(reply)
        yield reply


def _error(failed: wire.Failed) -> RatchetError:
    match failed.kind:
        case "invalid_argument":
            return InvalidArgument(failed.message, [FieldViolation(failed.field, failed.message)])
        case "data_loss":
            return DataLoss(failed.message)
        case "failed_precondition":
            return FailedPrecondition(failed.message)
