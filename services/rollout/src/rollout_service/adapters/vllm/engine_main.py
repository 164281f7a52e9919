"""The engine process: one vLLM engine behind a unix socket. Forked by the fork server, for `engine` in the service."""

import asyncio
import signal
import traceback
import uuid
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path

from pydantic import ValidationError

from rollout_service.adapters.vllm import wire
from rollout_service.adapters.vllm.vllm_engine import RequestRefused, VllmEngine, WeightsRefused

_BACKLOG = 4096
_SENTENCE_CHARACTERS = 500


class EngineServer:
    """Answers calls. Until the engine is up they wait; when it does not come up, each is told why."""

    def __init__(self) -> None:
        self.engine: asyncio.Future[VllmEngine] = asyncio.get_running_loop().create_future()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, so one call; the call is aborted when the caller closes first."""
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
        except RequestRefused as e:
            await wire.send(writer, wire.Failed("invalid_argument", e.message, e.field))
        except WeightsRefused as e:
            await wire.send(writer, wire.Failed("data_loss", str(e)))
        except EngineDidNotStart as e:
            await wire.send(writer, wire.Failed("failed_precondition", str(e)))
        except ConnectionError:
            pass  # the caller went away
        except Exception as e:  # noqa: BLE001 - one call's fault is that caller's to hear of
            if self.engine.result().dead:
                return  # this process is about to end, which tells them all
            traceback.print_exc()
            await wire.send(writer, wire.Failed("internal", f"{type(e).__name__}: {e}"))

    async def _replies(self, call: wire.Call) -> AsyncGenerator[wire.Reply, None]:
        engine = await asyncio.shield(self.engine)
        match call:
            case wire.Watch():
                yield wire.Described(engine.dtype, engine.max_model_len)
                await asyncio.Event().wait()  # until this process ends
            case wire.LoadWeights(folder):
                yield wire.Loaded(await engine.load_weights(Path(folder)))
            case wire.Generate():
                async with aclosing(engine.generate(call, uuid.uuid4().hex)) as outputs:
                    async for output in outputs:
                        yield output


class EngineDidNotStart(Exception):
    """vLLM refused the model or its options."""


async def run(spec: wire.EngineSpec, socket: str) -> int:
    """Serves until SIGTERM (0), until vLLM dies (1), or until the failure to start was told (2)."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    server = EngineServer()
    async with await asyncio.start_unix_server(server.serve, socket, backlog=_BACKLOG):
        try:
            engine = VllmEngine.start(spec)
        except Exception as e:  # noqa: BLE001 - whatever vLLM raises, its words are for the caller
            server.engine.set_exception(EngineDidNotStart(_sentence(e)))
            server.engine.exception()  # seen
            traceback.print_exc()
            await asyncio.wait([asyncio.create_task(stop.wait())], timeout=10)
            return 2
        server.engine.set_result(engine)
        stopped = asyncio.create_task(stop.wait())
        died = asyncio.create_task(engine.died())
        await asyncio.wait([stopped, died], return_when=asyncio.FIRST_COMPLETED)
        engine.stop()
        return 0 if stopped.done() else 1


def _sentence(error: Exception) -> str:
    """What vLLM says is wrong, without the pages around it."""
    text = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
    paragraph = text.removeprefix("Value error, ").strip().partition("\n\n")[0]
    return " ".join(paragraph.split())[:_SENTENCE_CHARACTERS] or type(error).__name__


def main(order: wire.Order) -> int:
    """Serves as `order` says, and returns the exit status."""
    return asyncio.run(run(order.spec, order.socket))
