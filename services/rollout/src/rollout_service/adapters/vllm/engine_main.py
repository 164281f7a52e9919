"""The engine process: vLLM behind a Unix socket. The fork server forks it, `engine` in the service calls it."""

import asyncio
import signal
import traceback
import uuid
from collections.abc import AsyncGenerator
from contextlib import aclosing

from pydantic import ValidationError

from ratchet_kit.permanent import is_permanent
from rollout_service.adapters.vllm import wire
from rollout_service.adapters.vllm.vllm_engine import RequestRefused, VllmEngine, WeightsRefused

_BACKLOG = 4096
_SUMMARY_CHARACTERS = 500
_BEAT_SECONDS = 0.5
"""Two in a look of `pulse`."""


class EngineServer:
    """Answers calls. They wait until the engine is up. When it does not start, each call gets the reason."""

    def __init__(self) -> None:
        self.engine: asyncio.Future[VllmEngine] = asyncio.get_running_loop().create_future()

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
            failed = wire.Failed("invalid_argument" if error.is_permanent else "failed_precondition", str(error))
            await wire.send(writer, failed)
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
                    engine.dtype, engine.max_model_len, engine.has_chat_template, engine.kv_cache_tokens
                )
                async with aclosing(_beats(engine)) as beats:
                    async for beat in beats:
                        yield beat
            case wire.Interrupt():
                await engine.interrupt()
                yield wire.Interrupted()
            case wire.PrepareChanges():
                yield wire.Prepared(await engine.prepare(call))
            case wire.Turn(asleep):
                await engine.turn(asleep)
                yield wire.Turned()
            case wire.LoadWeights():
                yield await engine.load_weights(call)
            case wire.Generate():
                async with aclosing(engine.generate(call, uuid.uuid4().hex)) as outputs:
                    async for output in outputs:
                        yield output


async def _beats(engine: VllmEngine) -> AsyncGenerator[wire.Beat, None]:
    """Two a second at most, and each says whether vLLM answers. Raises what vLLM raises once it is dead."""
    look = asyncio.create_task(engine.answer())
    try:
        while True:
            await asyncio.wait([look], timeout=_BEAT_SECONDS)
            answers = look.done()
            if answers:
                await look
                await asyncio.sleep(_BEAT_SECONDS)
                look = asyncio.create_task(engine.answer())
            yield wire.Beat(answers or engine.loads)  # what was asked before it loads is answered after it
    finally:
        look.cancel()


class EngineDidNotStart(Exception):
    """vLLM refused the model or its options, or something kept it from starting."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(summary(cause))
        self.is_permanent = is_permanent(cause)


async def run(spec: wire.EngineSpec, socket: str) -> int:
    """Serves until SIGTERM (returns 0), until vLLM dies (1), or until the service knows why vLLM did not start (2)."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    server = EngineServer()
    async with await asyncio.start_unix_server(server.serve, socket, backlog=_BACKLOG):
        try:
            engine = VllmEngine.start(spec)
        except Exception as error:  # noqa: BLE001 - whatever vLLM raises, its message is for the caller
            server.engine.set_exception(EngineDidNotStart(error))
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
    """The first paragraph of an error of vLLM, in one line: the rest is pages long."""
    text = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
    paragraph = text.removeprefix("Value error, ").strip().partition("\n\n")[0]
    return " ".join(paragraph.split())[:_SUMMARY_CHARACTERS] or type(error).__name__


def main(request: wire.ForkRequest) -> int:
    """Serves the requested engine and returns the exit status."""
    return asyncio.run(run(request.spec, request.socket))
