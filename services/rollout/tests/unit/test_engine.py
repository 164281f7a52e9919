"""How engines are started, and the reason why one did not start or died, as its log tells it."""

import asyncio
import errno
import json
import os
import tempfile
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path

import pytest

from ratchet_kit.errors import FailedPrecondition, InvalidArgument, RatchetError, ResourceExhausted, Unavailable
from ratchet_policies import TextPrompt
from rollout_service.adapters.engines import engine, wire
from rollout_service.adapters.engines.engine import EngineDefaults, EngineProcess, EngineProcesses, engine_spec
from rollout_service.domain.generation import GenerationRequest
from rollout_service.domain.policy import Dtype, EngineOptions, PolicyId, PolicyName
from rollout_service.domain.ports import ModelFolder

SPEC = wire.EngineSpec("/model", "cpu", Dtype.FLOAT32, None, 8, None, 1, 0.9, True)


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        (
            "(EngineCore pid=1) ERROR 01-01 [core.py:1] ValueError: no room for the KV cache\n"
            "RuntimeError: Engine core initialization failed. See root cause above.\n"
            "INFO shutdown\n",
            "ValueError: no room for the KV cache",
        ),
        ("INFO serving\nasyncio.exceptions.CancelledError: \n", "killed, or out of memory; see {log}"),
        ("", "killed, or out of memory; see {log}"),
    ],
)
def test_the_reason_is_the_last_error_that_names_a_cause(tmp_path: Path, log: str, expected: str) -> None:
    log_file = tmp_path / "p.log"
    log_file.write_text("ValueError: of an engine before\n")
    engine = EngineProcess(wire.ForkRequest("p", SPEC, str(tmp_path), str(log_file)), timedelta(0))
    with log_file.open("a") as opened:
        opened.write(log)
    assert engine.last_error() == expected.format(log=log_file)


READY = wire.Described(Dtype.BFLOAT16, 256, has_chat_template=True, kv_cache_tokens=4096)
DISTURBED = wire.Failed("failed_precondition", "AssertionError: Error in memory profiling. Initial free memory 60 GiB")
BROKEN = wire.Failed("failed_precondition", "ValueError: no room for the KV cache")


class Forks:
    """A fork server whose engines each give the next of `replies` after `seconds`. Nothing is forked."""

    pid = 1 << 30  # no process has it

    def __init__(self, replies: list[wire.Described | wire.Failed], seconds: float = 0) -> None:
        self.replies = replies
        self.seconds = seconds
        self.requests: list[wire.ForkRequest] = []
        self.starting = self.most_at_once = 0

    async def fork(self, request: wire.ForkRequest) -> "Forks":
        self.requests.append(request)
        self.server = await asyncio.start_unix_server(self._answer, request.socket)
        return self

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await wire.receive_call(reader)
        self.starting += 1
        self.most_at_once = max(self.most_at_once, self.starting)
        await asyncio.sleep(self.seconds)
        self.starting -= 1
        await wire.send(writer, self.replies.pop(0))

    def alive(self) -> bool:
        return True

    async def stop(self, grace: timedelta) -> None:
        self.server.close()


Start = Callable[..., Awaitable[object]]


@pytest.fixture
def start(tmp_path: Path) -> Callable[[Forks], Start]:
    """`start(forks)` is the `start` of a factory over them, with one second for an engine of no weights."""

    def make(forks: Forks) -> Start:
        defaults = EngineDefaults(
            "cuda", 8, None, 1, 0.225, False, timedelta(seconds=1), {"qwen": "hermes"}, {"qwen": "r1"}
        )
        factory = EngineProcesses(defaults, forks, tmp_path)  # type: ignore[arg-type]

        async def start(name: str, *devices: str, size_bytes: int = 0, registered: str = "") -> object:
            model = ModelFolder(tmp_path, PolicyId("sha256:0"), size_bytes)
            options = EngineOptions(dtype=Dtype.BFLOAT16, model=registered)
            return await factory.start(PolicyName(name), model, options, devices)

        return start

    return make


async def test_an_engine_gets_its_gpus_and_its_share_of_their_memory(start: Callable[[Forks], Start]) -> None:
    forks = Forks([READY])
    await start(forks)("a", "2", "5")
    spec = forks.requests[0].spec
    assert (spec.devices, spec.gpu_memory_utilization) == (("2", "5"), 0.225)


async def test_an_engine_gets_the_parsers_of_its_model(start: Callable[[Forks], Start]) -> None:
    forks = Forks([READY] * 4)
    for name in ("qwen@2", "qwen", "other@2"):
        await start(forks)(name)
    await start(forks)("eval-eval_1", registered="qwen")
    assert [request.spec.tool_parser for request in forks.requests] == ["hermes", "hermes", "", "hermes"]
    assert [request.spec.reasoning_parser for request in forks.requests] == ["r1", "r1", "", "r1"]


async def test_a_cpu_is_given_to_nobody(tmp_path: Path) -> None:
    defaults = EngineDefaults("cpu", 8, None, 1, 0.9, True, timedelta(seconds=1))
    with pytest.raises(InvalidArgument, match="no GPU"):
        engine_spec(
            defaults, PolicyName("a"), ModelFolder(tmp_path, PolicyId("sha256:0"), 0), EngineOptions(sleeps=True), ()
        )


async def test_engines_on_one_gpu_start_one_after_the_other(start: Callable[[Forks], Start]) -> None:
    forks = Forks([READY] * 3, seconds=0.05)
    one = start(forks)
    await asyncio.gather(one("a", "0", "1"), one("b", "1", "0"), one("c", "0"))
    assert forks.most_at_once == 1


async def test_engines_on_two_gpus_start_together(start: Callable[[Forks], Start]) -> None:
    forks = Forks([READY] * 2, seconds=0.05)
    one = start(forks)
    await asyncio.gather(one("a", "0"), one("b", "1"))
    assert forks.most_at_once == 2


async def test_one_that_a_neighbour_disturbed_starts_again(start: Callable[[Forks], Start]) -> None:
    forks = Forks([DISTURBED, DISTURBED, READY])
    await start(forks)("a", "0")
    assert len(forks.requests) == 3


async def test_one_that_vllm_refuses_does_not(start: Callable[[Forks], Start]) -> None:
    forks = Forks([BROKEN, READY])
    with pytest.raises(FailedPrecondition, match="no room for the KV cache"):
        await start(forks)("a", "0")
    assert len(forks.requests) == 1


BROKEN_FOR_GOOD = wire.Failed("invalid_argument", "Model architectures ['Nowhere'] are not supported for now")
ABOVE = "Engine core initialization failed. See root cause above."


async def test_one_that_can_never_start_says_so(start: Callable[[Forks], Start]) -> None:
    with pytest.raises(InvalidArgument, match="vLLM did not start: Model architectures"):
        await start(Forks([BROKEN_FOR_GOOD]))("a", "0")


@pytest.mark.parametrize(
    ("cause", "kind"),
    [
        ("ModuleNotFoundError: No module named 'flashinfer'", InvalidArgument),
        (
            "torch.AcceleratorError: CUDA error: no kernel image is available for execution on the device",
            InvalidArgument,
        ),
        ("RuntimeError: NCCL error: unhandled system error", FailedPrecondition),
        ("torch.OutOfMemoryError: CUDA out of memory. GPU 0 has a total capacity of 79.11 GiB", FailedPrecondition),
    ],
)
async def test_the_cause_in_the_log_says_whether_another_start_may_succeed(
    start: Callable[[Forks], Start], tmp_path: Path, cause: str, kind: type[RatchetError]
) -> None:
    class Logging(Forks):
        async def fork(self, request: wire.ForkRequest) -> Forks:
            await asyncio.to_thread(Path(request.log_file).write_text, f"E {cause}\nRuntimeError: {ABOVE}\n")
            return await super().fork(request)

    with pytest.raises(kind) as error:
        await start(Logging([wire.Failed("failed_precondition", ABOVE)]))("a", "0")
    assert cause.removeprefix("torch.") in str(error.value)


async def test_weights_that_no_gpu_of_this_kind_holds_are_refused_for_good(start: Callable[[Forks], Start]) -> None:
    full = wire.Failed("failed_precondition", "CUDA out of memory. GPU 0 has a total capacity of 79.11 GiB of which 0")
    with pytest.raises(InvalidArgument, match="out of memory"):
        await start(Forks([full]))("a", "0", size_bytes=80 << 30)
    with pytest.raises(FailedPrecondition, match="out of memory"):
        await start(Forks([full]))("b", "0", size_bytes=40 << 30)


async def test_weights_larger_than_the_machine_are_refused_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine.memory, "of_machine", lambda: 16 << 30)
    forks = Forks([])
    defaults = EngineDefaults("cpu", 8, 1 << 20, 1, 0.9, True, timedelta(seconds=1))
    factory = EngineProcesses(defaults, forks, tmp_path)  # type: ignore[arg-type]
    model = ModelFolder(tmp_path, PolicyId("sha256:0"), 20 << 30)
    with pytest.raises(InvalidArgument, match="weights take 20"):
        await factory.start(PolicyName("a"), model, EngineOptions(dtype=Dtype.BFLOAT16))
    assert forks.requests == []


@pytest.mark.parametrize(("tokens", "kind"), [(100_000, FailedPrecondition), (100_000_000, InvalidArgument)])
async def test_a_cache_that_is_small_for_others_memory_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tokens: int, kind: type[RatchetError]
) -> None:
    """Unless the whole machine would have no room for one sequence."""
    monkeypatch.setattr(engine.memory, "of_machine", lambda: 16 << 30)
    monkeypatch.setattr(engine.memory, "free", lambda: 1 << 20)
    layers = {"num_hidden_layers": 4, "num_attention_heads": 4, "hidden_size": 64}
    (tmp_path / "config.json").write_text(json.dumps(layers))
    small = wire.Failed("invalid_argument", "5 GiB KV cache is needed, more than the available KV cache memory")
    factory = EngineProcesses(
        EngineDefaults("cpu", 8, None, 1, 0.9, True, timedelta(seconds=1)), Forks([small] * 3), tmp_path
    )  # type: ignore[arg-type]
    options = EngineOptions(dtype=Dtype.BFLOAT16, max_model_len=tokens)
    with pytest.raises(kind, match="KV cache is needed"):
        await factory.start(PolicyName("a"), ModelFolder(tmp_path, PolicyId("sha256:0"), 1), options)


async def test_large_weights_have_longer_to_load(start: Callable[[Forks], Start]) -> None:
    with pytest.raises(FailedPrecondition, match="did not start in time"):
        await start(Forks([READY], seconds=1.5))("a", "0")
    await start(Forks([READY], seconds=1.5))("b", "0", size_bytes=100 << 20)


async def test_too_many_open_files_are_no_death_of_the_engine(
    start: Callable[[Forks], Start], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = await start(Forks([READY]))("a", "0")
    assert isinstance(engine, EngineProcess)

    async def crowded(path: str) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(asyncio, "open_unix_connection", crowded)
    with pytest.raises(ResourceExhausted, match="too many files open"):
        await anext(engine.generate(GenerationRequest(TextPrompt("x")), stream=False))


@pytest.mark.parametrize(
    ("number", "expected", "said"),
    [(errno.ENOSPC, ResourceExhausted, "no space is left"), (errno.EMFILE, Unavailable, "as many files open")],
)
async def test_an_engine_that_a_disk_or_a_limit_keeps_from_starting_says_so(
    start: Callable[[Forks], Start], monkeypatch: pytest.MonkeyPatch, number: int, expected: type[Exception], said: str
) -> None:
    def refused(prefix: str) -> str:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(tempfile, "mkdtemp", refused)
    with pytest.raises(expected, match=said):
        await start(Forks([READY]))("a", "0")


async def test_what_a_killed_service_left_of_its_engines_is_removed(
    start: Callable[[Forks], Start], monkeypatch: pytest.MonkeyPatch
) -> None:
    with tempfile.TemporaryDirectory() as folder:  # a short path: a socket lies below it
        monkeypatch.setattr(tempfile, "tempdir", folder)
        forks = Forks([READY])
        await start(forks)("a", "0")
        own = os.path.basename(forks.requests[0].folder)
        os.mkdir(os.path.join(folder, own.replace(f"-{os.getpid()}-", f"-{Forks.pid}-")))
        assert len(os.listdir(folder)) == 2
        engine.remove_abandoned()
        assert os.listdir(folder) == [own]
