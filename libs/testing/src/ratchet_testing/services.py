"""gRPC services in the test's own process, behind the interceptors that they have in production."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta

from ratchet_kit import logs
from ratchet_kit.interceptors import Wrapper
from ratchet_kit.server import AddServicers, Background, Deadlines, serve
from ratchet_kit.settings import ServiceSettings


@asynccontextmanager
async def serving(
    add: AddServicers,
    *background: Background,
    settings: ServiceSettings | None = None,
    name: str = "test",
    wrappers: Sequence[Wrapper] | None = None,
    deadlines: Deadlines = Deadlines(),
) -> AsyncIterator[str]:
    """Runs `ratchet_kit.server.serve` beside the test and gives its address, such as `127.0.0.1:40123`.

    async with serving(lambda server: add_to(server)) as target, channel(target) as door: ...
    """
    settings = settings or ServiceSettings(port=0, grace=timedelta(seconds=1), log_level="WARNING")
    logs.configure(name, settings.log_level)
    stop = asyncio.Event()
    ready: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    running = asyncio.create_task(
        serve(
            settings,
            name,
            add,
            background=background,
            wrappers=wrappers,
            on_ready=ready.set_result,
            stop=stop,
            deadlines=deadlines,
        )
    )
    running.add_done_callback(lambda _: ready.done() or ready.cancel())
    try:
        port = await ready
    except asyncio.CancelledError:
        stop.set()
        await running  # raises what kept it from starting
        raise
    try:
        yield f"{settings.host}:{port}"
    finally:
        stop.set()
        await running
