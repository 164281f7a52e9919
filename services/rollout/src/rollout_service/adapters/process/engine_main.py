"""The engine process: an engine behind a Unix socket. The fork server forks it, `engine` in the service calls it."""

import asyncio
import re
import signal
import traceback
import uuid
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Protocol

from pydantic import ValidationError

from ratchet_kit.logs import get_logger
from ratchet_kit.permanent import is_permanent
from rollout_service.adapters.engines import wire
from rollout_service.adapters.engines.refusals import NO_LENGTH, RequestRefused, WeightsRefused
from rollout_service.adapters.vllm.vllm_engine import VllmEngine
from rollout_service.domain.policy import Dtype, Library

log = get_logger(__name__)
_BACKLOG = 4096
_SUMMARY_CHARACTERS = 500
_BEAT_SECONDS = 0.5
"""Two in a look of `pulse`."""
_UNKNOWN = re.compile(r"Model architectures? .* not supported")
"""vLLM's sentence (vllm/model_executor/models/registry.py, _raise_for_unsupported)."""
_NO_LENGTH = "max_model_len must be a positive integer"
"""vLLM's of a config that has none (vllm/config/model.py, validate_model_config_after)."""


class Engine(Protocol):
    """One model in a library that generates."""

    library: Library
    dtype: Dtype
    max_model_len: int
    has_chat_template: bool
    kv_cache_tokens: int
    computes_apart: bool
    """In processes of its own, beside this one."""
    loads: bool
    """It takes new weights: it answers nothing meanwhile, and there is a limit for that."""

    @property
    def dead(self) -> bool: ...

    async def died(self) -> None:
        """Waits until it is dead."""
        ...

    async def answer(self) -> None:
        """Returns when what computes has answered, between two passes. Raises what it raises when it is dead."""
        ...

    def stop(self) -> None: ...

    async def interrupt(self) -> None:
        """Breaks off what runs, and all that comes until new weights are loaded."""
        ...

    async def prepare(self, call: wire.PrepareChanges) -> str:
        """Makes changes ready to be applied by the next `load_weights`. Returns why they cannot be; empty where they
        can."""
        ...

    async def set_asleep(self, asleep: bool) -> None:
        """To sleep once nothing runs, or awake; see `EngineSpec.sleeps`."""
        ...

    async def load_weights(self, call: wire.LoadWeights) -> wire.Loaded:
        """Raises WeightsRefused."""
        ...

    def generate(self, call: wire.Generate, request_id: str) -> AsyncGenerator[wire.Output, None]:
        """Completions of one prompt. Closing the generator, or cancelling, aborts the request.

        Raises RequestRefused when the prompt does not fit the model, or the engine refuses what is asked for.
        """
        ...


class EngineServer:
    """Answers calls. They wait until the engine is up. When it does not start, each call gets the reason."""

    def __init__(self) -> None:
        self.engine: asyncio.Future[Engine] = asyncio.get_running_loop().create_future()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection is one call. The call is aborted when the caller closes first."""
        try:
            call = await wire.receive_call(reader)
            answer = asyncio.create_task(self._answer(call, writer))
            gone = asyncio.create_task(reader.read(1))
            await asyncio.wait([answer, gone], return_when=asyncio.FIRST_COMPLETED)
            gone.cancel()
            answer.cancel()
            await asyncio.gather(answer, gone, return_exceptions=True)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the caller went away
        finally:
            writer.close()

    async def _answer(self, call: wire.Call, writer: asyncio.StreamWriter) -> None:
        try:
            async with aclosing(self._replies(call)) as replies:
                async for reply in replies:
                    await wire.send(writer, reply)
        except RequestRefused as error:
            await wire.send(writer, wire.Failed("invalid_argument", error.message, error.field))
        except WeightsRefused as error:
            await wire.send(writer, wire.Failed("data_loss", str(error)))
        except EngineDidNotStart as error:
            kind: wire.Fault = "invalid_argument" if error.is_permanent else "failed_precondition"
            await wire.send(writer, wire.Failed(kind, str(error), library=error.library))
        except ConnectionError:
            pass  # the caller went away
        except Exception as error:  # noqa: BLE001 - the fault of one call is reported to its caller
            if self.engine.result().dead:
                return  # this process is about to end, and every caller notices
            traceback.print_exc()
            await wire.send(writer, wire.Failed("internal", f"{type(error).__name__}: {error}"))

    async def _replies(self, call: wire.Call) -> AsyncGenerator[wire.Reply, None]:
        engine = await asyncio.shield(self.engine)
        match call:
            case wire.Watch():
                yield wire.Described(
                    engine.dtype, engine.max_model_len, engine.has_chat_template, engine.kv_cache_tokens, engine.library
                )
                async with aclosing(_beats(engine)) as beats:
                    async for beat in beats:
                        yield beat
            case wire.Interrupt():
                await engine.interrupt()
                yield wire.Interrupted()
            case wire.PrepareChanges():
                yield wire.Prepared(await engine.prepare(call))
            case wire.SetAsleep(asleep):
                await engine.set_asleep(asleep)
                yield wire.AsleepSet()
            case wire.LoadWeights():
                yield await engine.load_weights(call)
            case wire.Generate():
                async with aclosing(engine.generate(call, uuid.uuid4().hex)) as outputs:
                    async for output in outputs:
                        yield output


async def _beats(engine: Engine) -> AsyncGenerator[wire.Beat, None]:
    """Two a second at most, and each says whether the engine answers. Raises what the engine raises once it is dead.

    Of an engine that computes in this process none comes while it does not answer: that this process runs says nothing
    then, and the processor time that it takes says all (see `hang_detection`).
    """
    look = asyncio.create_task(engine.answer())
    try:
        while True:
            await asyncio.wait([look], timeout=_BEAT_SECONDS)
            answers = look.done()
            if answers:
                await look
                await asyncio.sleep(_BEAT_SECONDS)
                look = asyncio.create_task(engine.answer())
            answers = answers or engine.loads  # what was asked before it loads is answered after it
            if answers or engine.computes_apart:
                yield wire.Beat(answers)
    finally:
        look.cancel()


class EngineDidNotStart(Exception):
    """The engine refused the model or its options, or something kept it from starting."""

    def __init__(self, library: Library, cause: Exception) -> None:
        super().__init__(summary(cause))
        self.library = library
        self.is_permanent = is_permanent(cause)


def start(spec: wire.EngineSpec) -> Engine:
    """vLLM, or transformers for an architecture that vLLM does not know.

    Raises EngineDidNotStart.
    """
    try:
        return VllmEngine.start(spec)
    except Exception as error:
        if _NO_LENGTH in str(error):
            raise EngineDidNotStart(Library.VLLM, ValueError(NO_LENGTH)) from error
        if not _UNKNOWN.search(str(error)):
            raise EngineDidNotStart(Library.VLLM, error) from error
        from rollout_service.adapters.transformers.transformers_engine import TransformersEngine, known

        if not known(spec.model):
            raise EngineDidNotStart(Library.VLLM, error) from error
    log.info("engine.chosen", engine=Library.TRANSFORMERS, reason="vLLM does not know the model's architecture")
    try:
        return TransformersEngine.start(spec)
    except Exception as error:
        raise EngineDidNotStart(Library.TRANSFORMERS, error) from error


async def run(spec: wire.EngineSpec, socket: str) -> int:
    """Serves until SIGTERM (returns 0), until the engine dies (1), or until the service knows why it did not start
    (2)."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    server = EngineServer()
    async with await asyncio.start_unix_server(server.serve, socket, backlog=_BACKLOG):
        try:
            engine = start(spec)
        except EngineDidNotStart as error:
            server.engine.set_exception(error)
            server.engine.exception()  # marks it as retrieved: there may be no call
            traceback.print_exc()
            await asyncio.wait([asyncio.create_task(stop.wait())], timeout=10)
            return 2
        server.engine.set_result(engine)
        stopped = asyncio.create_task(stop.wait())
        died = asyncio.create_task(engine.died())
        await asyncio.wait([stopped, died], return_when=asyncio.FIRST_COMPLETED)
        engine.stop()
        return 0 if stopped.done() else 1


def summary(error: Exception) -> str:
    """The first paragraph of a library's error, in one line: of vLLM's, the rest is pages long."""
    text = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
    paragraph = text.removeprefix("Value error, ").strip().partition("\n\n")[0]
    return " ".join(paragraph.split())[:_SUMMARY_CHARACTERS] or type(error).__name__


def main(request: wire.ForkRequest) -> int:
    """Serves the requested engine and returns the exit status."""
    return asyncio.run(run(request.spec, request.socket))
