"""The process of an engine without vLLM: the real server of calls, over a core in a process of its own, as vLLM's is.

`python process_engine.py SOCKET`. The core answers each line that it reads; a stopped core answers none. One that is to
generate computes for as long as the prompt is, in seconds.
"""

import asyncio
import sys
from collections.abc import AsyncGenerator

from ratchet_policies import Completion, FinishReason
from rollout_service.adapters.engines import wire
from rollout_service.adapters.process import engine_main
from rollout_service.domain.policy import Dtype, Library

CORE = """
import sys, time
for line in sys.stdin:
    end = time.monotonic() + float(line)
    while time.monotonic() < end:
        pass
    print(line, end="", flush=True)
"""


class CoreEngine:
    """What `engine_main` uses of `VllmEngine`."""

    library = Library.VLLM
    computes_apart = True
    dtype = Dtype.FLOAT32
    max_model_len = 64
    has_chat_template = False
    kv_cache_tokens = 4096
    dead = loads = False

    def __init__(self) -> None:
        self._process: asyncio.Task[asyncio.subprocess.Process] | None = None
        self._turn = asyncio.Lock()

    async def answer(self, seconds: float = 0) -> None:
        """Returns when the core has answered, after it has computed for so long."""
        async with self._turn:
            if self._process is None:
                pipe = asyncio.subprocess.PIPE
                start = asyncio.create_subprocess_exec(sys.executable, "-c", CORE, stdin=pipe, stdout=pipe)
                self._process = asyncio.create_task(start)
            process = await asyncio.shield(self._process)
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(f"{seconds}\n".encode())
            await process.stdout.readline()

    async def died(self) -> None:
        await asyncio.Event().wait()

    def stop(self) -> None:
        pass

    async def load_weights(self, call: wire.LoadWeights) -> wire.Loaded:
        return wire.Loaded(0.0, in_place=False)

    async def generate(self, call: wire.Generate, request_id: str) -> AsyncGenerator[wire.Output, None]:
        await self.answer(float(call.text or 0))
        completion = Completion(0, "done", FinishReason.STOP, token_ids=(1,))
        yield wire.Output((completion,), (1,), last=True)


def main(socket: str) -> int:
    engine_main.VllmEngine.start = lambda spec: CoreEngine()  # type: ignore[method-assign,assignment,return-value]
    spec = wire.EngineSpec("/model", "cpu", Dtype.FLOAT32, None, 8, None, 1, 0.9, True)
    return asyncio.run(engine_main.run(spec, socket))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
