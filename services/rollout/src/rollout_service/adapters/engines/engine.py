"""The service's side of an engine: starts its process group, calls it, notices its death, stops it."""

import asyncio
import errno
import os
import re
import shutil
import tempfile
from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Literal

from ratchet_kit import cpu_time, files, memory
from ratchet_kit.disk_errors import disk_errors
from ratchet_kit.errors import (
    DataLoss,
    FailedPrecondition,
    FieldViolation,
    Internal,
    InvalidArgument,
    RatchetError,
    ResourceExhausted,
    Unavailable,
)
from ratchet_kit.logs import get_logger
from ratchet_kit.permanent import is_permanent_text
from rollout_service.adapters.engines import kv_cache, wire
from rollout_service.adapters.engines.forkserver import ForkedProcess, ForkServer
from rollout_service.adapters.engines.hang_detection import LOOK, Pulse, used_by
from rollout_service.adapters.engines.machine import choose_dtype, cpu_flags
from rollout_service.domain.generation import EngineOutput, GenerationRequest
from rollout_service.domain.policy import Death, EngineInfo, EngineOptions, PolicyName
from rollout_service.domain.ports import ModelFolder, PolicyEngine
from rollout_service.domain.weights import LoadedWeights

log = get_logger(__name__)

_STOP_GRACE = timedelta(seconds=5)
_SOCKET_POLL_SECONDS = 0.02
_CROWDED_RETRY = timedelta(seconds=1)
_LOG_LINES = 160
_SLOWEST_READ = 50 << 20
"""Bytes per second, from a disk or a network folder that many read."""
_MEASURING_STARTS = 3
_DISTURBED = "Error in memory profiling"
"""vLLM ends so when a neighbour on its GPU frees memory while it measures what it needs itself
(vllm/v1/worker/gpu_worker.py, determine_available_memory)."""
_CAPACITY = re.compile(r"total capacity of ([\d.]+) GiB")
"""Memory of a GPU, in torch's error (c10/cuda/CUDACachingAllocator.cpp)."""
_GIB = 1 << 30
_PRIVATE = "ratchet-rollout-"
_ERROR = re.compile(r"\b((?!CancelledError)\w*(?:Error|Exception): .*)")


@dataclass(frozen=True, slots=True)
class EngineDefaults:
    """The choices of the service where a request makes none."""

    device: Literal["cpu", "cuda"]
    max_num_seqs: int
    kv_cache_bytes: int | None
    """None: on CUDA as much as `gpu_memory_utilization` allows, on CPU what the model can use of `kv_cache_share`."""
    tensor_parallel_size: int
    gpu_memory_utilization: float
    """The part of a GPU's memory that one engine may take."""
    enforce_eager: bool
    start_timeout: timedelta
    """Beside the time that reading the weights takes."""
    tool_parsers: Mapping[str, str] = field(default_factory=dict)
    """By the name of a model in the registry; vLLM's name of each. So are those of thoughts."""
    reasoning_parsers: Mapping[str, str] = field(default_factory=dict)
    kv_cache_share: int = 0
    """Bytes."""
    max_silence: timedelta = timedelta(seconds=10)
    """An engine that neither answers nor computes for so long hangs."""


class EngineProcesses:
    """Starts engines; see `EngineFactory`."""

    def __init__(self, defaults: EngineDefaults, server: ForkServer, log_folder: Path) -> None:
        self._defaults = defaults
        self._server = server
        self._log_folder = log_folder
        self._device_locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def start(
        self, name: PolicyName, model: ModelFolder, options: EngineOptions, devices: Sequence[str] = ()
    ) -> PolicyEngine:
        async with AsyncExitStack() as stack:
            stack.enter_context(disk_errors(f"the engine of {name}"))
            spec = await asyncio.to_thread(engine_spec, self._defaults, name, model, options, devices)
            # One at a time on each GPU: vLLM takes for its own whatever memory goes while it starts.
            for device in sorted(devices):
                await stack.enter_async_context(self._device_locks[device])
            for _ in range(_MEASURING_STARTS - 1):
                try:
                    return await self._start(name, model, spec)
                except InvalidArgument as error:
                    if _lacks_memory_now(self._defaults, model, spec, options, error.message):
                        raise FailedPrecondition(error.message) from error
                    raise
                except FailedPrecondition as error:
                    if _exceeds_gpu(model, spec, error.message):
                        raise InvalidArgument(error.message) from error
                    if _DISTURBED not in error.message:
                        raise
                    log.warning("engine.started_again", policy=name, reason=error.message)
            return await self._start(name, model, spec)

    async def _start(self, name: PolicyName, model: ModelFolder, spec: wire.EngineSpec) -> PolicyEngine:
        # Not under a folder that the user chose: a Unix socket's path has at most 108 bytes. mkdtemp makes it private.
        private = Path(tempfile.mkdtemp(prefix=f"{_PRIVATE}{os.getpid()}-"))
        log_file = self._log_folder / f"{name}.log"
        request = wire.ForkRequest(name, spec, str(private), str(log_file))
        timeout = self._defaults.start_timeout + timedelta(seconds=model.size_bytes / _SLOWEST_READ)
        engine = EngineProcess(request, load_timeout=timeout, max_silence=self._defaults.max_silence)
        try:
            async with asyncio.timeout(timeout.total_seconds()):
                await engine.start(self._server)
        except BaseException as error:
            await engine.stop()
            match error:
                case TimeoutError():
                    raise FailedPrecondition(f"the engine did not start in time; see {log_file}") from error
                case Unavailable():
                    raise FailedPrecondition(f"the engine did not start: {error.message}; see {log_file}") from error
            raise
        return engine


def engine_spec(
    defaults: EngineDefaults, name: PolicyName, model: ModelFolder, options: EngineOptions, devices: Sequence[str]
) -> wire.EngineSpec:
    """How a model is started on these GPUs: as the request says, else as the service does."""
    registered = options.model or name.partition("@")[0]
    if options.sleeps and defaults.device == "cpu":
        raise InvalidArgument(
            "options.sleeps: an engine on CPUs has no GPU to give to others",
            [FieldViolation("options.sleeps", "must be false on CPUs")],
        )
    dtype = options.dtype or choose_dtype(defaults.device, model.path, cpu_flags())
    sequences = options.max_num_seqs or defaults.max_num_seqs
    cache = options.kv_cache_bytes or defaults.kv_cache_bytes
    if defaults.device == "cpu" and model.size_bytes > (whole := memory.of_machine()):
        raise InvalidArgument(
            f"the model's weights take {model.size_bytes / _GIB:.1f} GiB, more than this machine's memory"
            f" ({whole / _GIB:.1f} GiB)"
        )
    if cache is None and defaults.device == "cpu":
        free = memory.free() - model.size_bytes
        config = kv_cache.config_of(model.path)
        chosen = kv_cache.choose(config, dtype, options.max_model_len, sequences, defaults.kv_cache_share, free)
        log.info("engine.kv_cache", policy=name, size_bytes=chosen.size_bytes, bound=chosen.reason)
        cache = chosen.size_bytes
    return wire.EngineSpec(
        model=str(model.path),
        device=defaults.device,
        dtype=dtype,
        max_model_len=options.max_model_len,
        max_num_seqs=sequences,
        kv_cache_bytes=cache,
        tensor_parallel_size=options.tensor_parallel_size or defaults.tensor_parallel_size,
        gpu_memory_utilization=defaults.gpu_memory_utilization,
        enforce_eager=defaults.enforce_eager,
        sleeps=options.sleeps,
        devices=tuple(devices),
        tool_parser=defaults.tool_parsers.get(registered, ""),
        reasoning_parser=defaults.reasoning_parsers.get(registered, ""),
    )


def _lacks_memory_now(
    defaults: EngineDefaults, model: ModelFolder, spec: wire.EngineSpec, options: EngineOptions, message: str
) -> bool:
    """True where the cache is too small for one sequence, since others have the machine's memory: see `kv_cache`."""
    if defaults.device != "cpu" or options.kv_cache_bytes or defaults.kv_cache_bytes or "KV cache" not in message:
        return False
    per_token = kv_cache.bytes_per_token(kv_cache.config_of(model.path), spec.dtype) or 0
    return per_token * (options.max_model_len or 0) <= (memory.of_machine() - model.size_bytes) // 2


def _exceeds_gpu(model: ModelFolder, spec: wire.EngineSpec, message: str) -> bool:
    """True where torch had no memory (`message`), and the weights alone are more than the whole GPU has."""
    capacity = _CAPACITY.search(message)
    return capacity is not None and model.size_bytes / spec.tensor_parallel_size > float(capacity[1]) * _GIB


class EngineProcess:
    """An engine in a process group of its own; see `PolicyEngine`."""

    def __init__(
        self, request: wire.ForkRequest, load_timeout: timedelta, max_silence: timedelta = timedelta(seconds=10)
    ) -> None:
        self._request = request
        self._load_timeout = load_timeout.total_seconds()
        self._max_silence = max_silence
        self._hangs = False
        self._log_start = _size(request.log_file)
        self._process: ForkedProcess | None = None
        self._watch: asyncio.StreamReader | None = None
        self._info: EngineInfo | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._cpu_time = timedelta()

    async def start(self, server: ForkServer) -> None:
        """Returns when the engine is ready.

        Raises InvalidArgument with the engine's message where each start would meet it, FailedPrecondition with it
        where another may not, or Unavailable. Call `stop` in these cases, too.
        """
        self._process = await server.fork(self._request)
        while self._writer is None:
            try:
                self._watch, self._writer = await asyncio.open_unix_connection(self._request.socket)
            except (FileNotFoundError, ConnectionRefusedError) as error:  # not bound yet, or not listening yet
                if not self._process.alive():
                    raise Unavailable(self.last_error()) from error
                await asyncio.sleep(_SOCKET_POLL_SECONDS)
        assert self._watch is not None
        await wire.send(self._writer, wire.Watch())
        try:
            reply = await wire.receive_reply(self._watch)
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            raise Unavailable(self.last_error()) from error
        if isinstance(reply, wire.Failed):
            reason, is_permanent = reply.message, reply.kind == "invalid_argument"
            if "root cause above" in reason:  # vLLM writes this when another process logged the cause
                reason = self.last_error()
                is_permanent = is_permanent_text(reason)
            kind = InvalidArgument if is_permanent else FailedPrecondition
            raise kind(f"{reply.library} did not start: {reason}")
        assert isinstance(reply, wire.Described)
        self._info = EngineInfo(
            reply.dtype, reply.max_model_len, reply.has_chat_template, reply.kv_cache_tokens, reply.library
        )

    @property
    def info(self) -> EngineInfo:
        assert self._info is not None, "not started"
        return self._info

    async def generate(self, request: GenerationRequest, *, stream: bool) -> AsyncGenerator[EngineOutput, None]:
        async with self._call(wire.generate_call(request, stream)) as reader:
            last = False
            while not last:
                reply = await _reply(reader)
                assert isinstance(reply, wire.Output)
                last = reply.last
                yield wire.output_of(reply)

    async def interrupt(self) -> None:
        await self._loading(wire.Interrupt())

    async def prepare(self, folder: ModelFolder) -> None:
        if folder.changes is None:
            return
        call = wire.PrepareChanges(str(folder.path), folder.policy_id, folder.changes.base, folder.changes.digest)
        reply = await self._loading(call)
        assert isinstance(reply, wire.Prepared)
        if reply.obstacle:
            log.warning("weights.read_whole", policy=self._request.name, reason=reply.obstacle)

    async def load_weights(self, folder: ModelFolder) -> LoadedWeights:
        reply = await self._loading(wire.LoadWeights(str(folder.path), folder.policy_id))
        assert isinstance(reply, wire.Loaded)
        return LoadedWeights(reply.probe_error, reply.in_place)

    async def _loading(self, call: wire.Call) -> wire.Reply:
        try:
            async with asyncio.timeout(self._load_timeout), self._call(call) as reader:
                return await _reply(reader)
        except TimeoutError as error:
            await self.stop()  # it hangs, and with it all calls that wait for the new weights
            raise Unavailable(f"the engine did not load the weights within {self._load_timeout:.0f} s") from error

    async def sleep(self) -> None:
        await self._loading(wire.SetAsleep(asleep=True))

    async def wake(self) -> None:
        await self._loading(wire.SetAsleep(asleep=False))

    @property
    def cpu_time(self) -> timedelta:
        """The last look stands for an engine that is gone."""
        if self._process is not None:
            self._cpu_time = max(self._cpu_time, cpu_time.used_by(self._process.pid))
        return self._cpu_time

    async def died(self) -> Death:
        assert self._process is not None, "not started"
        pulse = Pulse(self._max_silence, partial(used_by, self._process.pid))
        hearing = asyncio.create_task(self._hear(pulse))
        try:
            while not (await asyncio.wait([hearing], timeout=LOOK.total_seconds()))[0]:
                _ = self.cpu_time
                if reason := pulse.look():
                    self._hangs = True
                    return Death(f"{self.info.library} hangs: {reason}", hung=True)
            await hearing
        finally:
            hearing.cancel()
        return Death(f"{self.info.library} died: {self.last_error()}")

    async def _hear(self, pulse: Pulse) -> None:
        """Returns when the engine is gone, or says that it failed."""
        assert self._watch is not None, "not started"
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while isinstance(reply := await wire.receive_reply(self._watch), wire.Beat):
                pulse.beat(reply.answers)

    async def stop(self) -> None:
        if self._writer is not None:
            self._writer.close()
        if self._process is not None:
            _ = self.cpu_time
            await self._process.stop(timedelta(0) if self._hangs else _STOP_GRACE)
        shutil.rmtree(self._request.folder, ignore_errors=True)

    @asynccontextmanager
    async def _call(self, call: wire.Call) -> AsyncIterator[asyncio.StreamReader]:
        """Sends a call and yields the reader of its replies. Leaving the context early aborts the call.

        Raises the error that the engine replies, or Unavailable when the engine is gone.
        """
        reader, writer = await self._connect()
        try:
            await wire.send(writer, call)
            yield reader
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            raise Unavailable("the engine died during the call; it is being restarted") from error
        finally:
            writer.close()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        try:
            return await asyncio.open_unix_connection(self._request.socket)
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):
                raise ResourceExhausted(
                    "the service has too many files open for one more call: raise its limit (ulimit -n)",
                    retry_after=_CROWDED_RETRY,
                ) from error
            raise Unavailable("the engine is gone; it is being restarted") from error

    def last_error(self) -> str:
        """The last error in the log of this engine."""
        lines = files.tail(Path(self._request.log_file), _LOG_LINES, start=self._log_start)
        errors = [found[1] for line in lines if (found := _ERROR.search(line)) and "root cause above" not in line]
        return errors[-1] if errors else f"killed, or out of memory; see {self._request.log_file}"


def _size(file: str) -> int:
    try:
        return os.path.getsize(file)
    except FileNotFoundError:
        return 0


async def _reply(reader: asyncio.StreamReader) -> wire.Reply:
    reply = await wire.receive_reply(reader)
    if isinstance(reply, wire.Failed):
        raise _error(reply)
    return reply


def remove_abandoned() -> None:
    """Private folders of engines whose service is no more: one that was killed left them."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PRIVATE}*-*"):
        pid = folder.name.removeprefix(_PRIVATE).partition("-")[0]
        if pid.isdigit() and not os.path.exists(f"/proc/{pid}"):
            shutil.rmtree(folder, ignore_errors=True)
            log.info("engine.folder_removed", folder=str(folder))


def environment(device: Literal["cpu", "cuda"], threads: int, eager: bool) -> dict[str, str]:
    """The environment variables of the fork server, and so of every engine."""
    fixed = {
        "VLLM_NO_USAGE_STATS": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "HF_HUB_OFFLINE": "1",  # a model is always a folder; nothing is downloaded
        "PYTHONUNBUFFERED": "1",
    }
    if device == "cpu":
        fixed |= {
            "OMP_NUM_THREADS": str(threads),
            # The worker runs inside the engine's process; see VllmEngine.start.
            "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
            "VLLM_CPU_OMP_THREADS_BIND": "nobind",
            "CUDA_VISIBLE_DEVICES": "",
        }
        if eager:
            # The sampler compiles small functions: the first log-probs would wait 5 to 20 s for a C++ compiler, without
            # being faster afterwards.
            fixed["TORCHDYNAMO_DISABLE"] = "1"
    return os.environ | fixed


def _error(failed: wire.Failed) -> RatchetError:
    match failed.kind:
        case "invalid_argument":
            return InvalidArgument(failed.message, [FieldViolation(failed.field, failed.message)])
        case "data_loss":
            return DataLoss(failed.message)
        case "failed_precondition":
            return FailedPrecondition(failed.message)
        case "internal":
            return Internal(failed.message)
