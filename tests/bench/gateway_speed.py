"""What a gateway adds to an engine that answers at once: `make bench`, or `python -m tests.bench.gateway_speed`.

The same chat request to the stub itself, through Ratchet's gateway and through LiteLLM's proxy, in turn, at 1, 16 and
64 clients; each client sends its next request when it has its answer. Added: the quantile through the gateway minus
that of the stub's own HTTP door in the same round. All share this machine's cores with the clients: what counts are the
ratios within a round. Every request has its API key; the gateway stores a record of each, LiteLLM has no database.
"""

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httptools
import uvloop

from ratchet_testing import free_port
from tests.bench.gateway_stub import TOKENS

CLIENTS = (1, 16, 64)
KEY = "rk_bench_0123456789abcdef0123456789"
ENVIRONMENTS = Path(sys.prefix).parent
DOUBLE = "ratchet x2"
"""With two worker processes. One client has one of them."""
ADDED, RATE, TWICE = 5.0, 8.0, 1.7
"""What is wanted: a fifth of what LiteLLM adds, eight times its requests a second; of two workers, where cores allow,
so many times those of one."""


@dataclass(slots=True)  # mutable: filled while requests are answered
class Load:
    """What the clients of one measurement saw, in seconds."""

    first: list[float] = field(default_factory=list)
    """To the first byte of the body."""
    whole: list[float] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def rate(self) -> float:
        return len(self.whole) / self.seconds

    def quantile(self, q: float) -> float:
        ordered = sorted(self.whole)
        return ordered[min(len(ordered) - 1, int(q * len(ordered)))]

    @property
    def token(self) -> float:
        """Between two tokens of a stream, in the mean; the stub makes all of them at once."""
        return statistics.fmean(w - f for w, f in zip(self.whole, self.first, strict=True)) / (TOKENS - 1)


class Client(asyncio.Protocol):
    """One connection that sends the request again and again until `end`."""

    def __init__(self, request: bytes, load: Load, end: float) -> None:
        self._request = request
        self._load = load
        self._end = end
        self._start = self._first = 0.0
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._send()

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def connection_lost(self, error: Exception | None) -> None:
        if not self.done.done():
            self.done.set_exception(error or ConnectionError("the connection was closed"))

    def on_body(self, body: bytes) -> None:
        self._first = self._first or time.perf_counter()

    def on_message_complete(self) -> None:
        now = time.perf_counter()
        status = self._parser.get_status_code()
        if status != 200:
            self.done.set_exception(RuntimeError(f"answered {status}"))
            return
        self._load.first.append(self._first - self._start)
        self._load.whole.append(now - self._start)
        if now < self._end:
            asyncio.get_running_loop().call_soon(self._send)
        elif not self.done.done():
            self.done.set_result(None)
            self._transport.close()

    def _send(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._first = 0.0
        self._start = time.perf_counter()
        self._transport.write(self._request)


async def measure(port: int, model: str, clients: int, seconds: float, stream: bool) -> Load:
    body = b'{"model":"%s","messages":[{"role":"user","content":"Write solve(xs) that returns the sum of xs."}]%s}' % (
        model.encode(),
        b',"stream":true' if stream else b"",
    )
    request = (
        b"POST /v1/chat/completions HTTP/1.1\r\nhost: bench\r\ncontent-type: application/json\r\n"
        b"authorization: Bearer %s\r\ncontent-length: %d\r\n\r\n%s" % (KEY.encode(), len(body), body)
    )
    load, loop = Load(), asyncio.get_running_loop()
    start = time.perf_counter()
    opened = [
        loop.create_connection(lambda: Client(request, load, start + seconds), "127.0.0.1", port)
        for _ in range(clients)
    ]
    connected = await asyncio.gather(*opened)
    await asyncio.gather(*(client.done for _, client in connected))
    load.seconds = time.perf_counter() - start
    return load


@contextmanager
def process(command: list[str], environment: dict[str, str], log: Path) -> Iterator[None]:
    with log.open("wb") as output:
        started = subprocess.Popen(command, env=os.environ | environment, stdout=output, stderr=output)
    try:
        yield
    finally:
        started.terminate()
        try:
            started.wait(15)
        except subprocess.TimeoutExpired:
            started.kill()
            started.wait()


def wait_until_answers(port: int, log: Path) -> None:
    """With the stub's model: both gateways make theirs ready at their first request."""
    model = "stub"
    for _ in range(800):  # LiteLLM imports for a minute on a busy machine
        try:
            uvloop.run(measure(port, model, 1, 0.0, stream=False))
            return
        except (OSError, RuntimeError, httptools.HttpParserError):
            time.sleep(0.5)
    raise SystemExit(f"nothing answers at port {port}: {log.read_text()[-2000:]}")


@contextmanager
def gateways(with_peer: bool) -> Iterator[dict[str, int]]:
    """The ports of what is measured, by name."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        grpc_port, http_port, own_port, peer_port = (free_port() for _ in range(4))
        stub = [sys.executable, "-m", "tests.bench.gateway_stub", str(grpc_port), str(http_port)]
        stack.enter_context(process(stub, {}, folder / "stub.log"))
        ports = {"stub": http_port}
        settings = {
            "RATCHET_GATEWAY_ADMIN_KEY": KEY,
            "RATCHET_GATEWAY_ROLLOUT_TARGET": f"127.0.0.1:{grpc_port}",
            "RATCHET_GATEWAY_REGISTRY_TARGET": f"127.0.0.1:{grpc_port}",
            "RATCHET_GATEWAY_KEY_LIMITS__REQUESTS_PER_MINUTE": "0",
            "RATCHET_GATEWAY_LOG_LEVEL": "WARNING",
        }
        for name, workers, port in (("ratchet", 1, own_port), (DOUBLE, 2, free_port())):
            ports[name], home = port, folder / f"home-{workers}"
            home.mkdir()
            own = {
                "RATCHET_HOME": str(home),
                "RATCHET_GATEWAY_PORT": str(free_port()),
                "RATCHET_GATEWAY_HTTP_PORT": str(port),
                "RATCHET_GATEWAY_WORKERS": str(workers),
            }
            command = [sys.executable, "-m", "gateway_service.main"]
            stack.enter_context(process(command, settings | own, folder / f"{name}.log"))
        proxy = ENVIRONMENTS / "litellm/bin/litellm"
        if with_peer and proxy.exists():
            ports["litellm"] = peer_port
            config = folder / "litellm.yaml"
            config.write_text(
                "model_list:\n- model_name: stub\n  litellm_params:\n    model: openai/stub\n"
                f"    api_base: http://127.0.0.1:{http_port}/v1\n    api_key: none\n"
                f"general_settings:\n  master_key: {KEY}\nlitellm_settings:\n  set_verbose: false\n"
            )
            command = [str(proxy), "--config", str(config), "--port", str(peer_port), "--num_workers", "1"]
            offline = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_LOG": "ERROR", "LITELLM_MODE": "PRODUCTION"}
            stack.enter_context(process([*command, "--telemetry", "False"], offline, folder / "litellm.log"))
        for name, port in ports.items():
            wait_until_answers(port, folder / f"{name}.log")
        yield ports


Rounds = dict[tuple[str, int, bool], list[Load]]


def main(seconds: float, rounds: int, with_peer: bool) -> None:
    seen: Rounds = {}
    with gateways(with_peer) as ports:
        for port in ports.values():
            uvloop.run(measure(port, "stub", 16, 1.0, stream=False))  # warm
        for number in range(rounds):
            for stream in (False, True):
                for clients in CLIENTS:
                    for name, port in ports.items():
                        load = uvloop.run(measure(port, "stub", clients, seconds, stream))
                        seen.setdefault((name, clients, stream), []).append(load)
            print(f"round {number + 1} of {rounds}", file=sys.stderr)
    report(seen, [name for name in ports if name != "stub"])


def report(seen: Rounds, names: list[str]) -> None:
    def added(name: str, clients: int, q: float) -> float:
        pairs = zip(seen[name, clients, False], seen["stub", clients, False], strict=True)
        return statistics.median(through.quantile(q) - direct.quantile(q) for through, direct in pairs) * 1e3

    def rate(name: str, clients: int) -> float:
        return statistics.median(load.rate for load in seen[name, clients, False])

    print(f"{'added by':12}{'clients':>8}{'p50 ms':>10}{'p95 ms':>10}{'p99 ms':>10}{'requests/s':>12}")
    for clients in CLIENTS:
        print(f"{'(the stub)':12}{clients:8}{'':30}{rate('stub', clients):12.0f}")
        for name in names:
            quantiles = "".join(f"{added(name, clients, q):10.2f}" for q in (0.5, 0.95, 0.99))
            print(f"{name:12}{clients:8}{quantiles}{rate(name, clients):12.0f}")
    print(f"{'a stream':12}{'clients':>8}{'first ms':>10}{'token ms':>10}{'streams/s':>12}")
    for clients in CLIENTS:
        for name in names:
            loads = list(zip(seen[name, clients, True], seen["stub", clients, True], strict=True))
            first = statistics.median(
                statistics.median(through.first) - statistics.median(direct.first) for through, direct in loads
            )
            token = statistics.median(through.token - direct.token for through, direct in loads)
            streams = statistics.median(through.rate for through, _ in loads)
            print(f"{name:12}{clients:8}{first * 1e3:10.2f}{token * 1e3:10.3f}{streams:12.0f}")
    print(f"{'two workers / one':20}{'is':>8}{'wanted':>8}")
    for clients in CLIENTS[1:]:
        ratio = rate(DOUBLE, clients) / rate("ratchet", clients)
        print(f"{f'rate, {clients} clients':20}{ratio:8.1f}{TWICE:8.1f}")
    if "litellm" not in names:
        print("LiteLLM is not installed: `make bench` does that")
        return
    print(f"{'LiteLLM / Ratchet':20}{'is':>8}{'wanted':>8}")
    for clients in CLIENTS:
        for q in (0.5, 0.95, 0.99):
            ratio = added("litellm", clients, q) / added("ratchet", clients, q)
            print(f"{f'added p{q * 100:.0f}, {clients} clients':20}{ratio:8.1f}{ADDED:8.0f}")
    for clients in CLIENTS:
        ratio = rate("ratchet", clients) / rate("litellm", clients)
        print(f"{f'rate, {clients} clients':20}{ratio:8.1f}{RATE:8.0f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--no-peer", action="store_true")
    options = parser.parse_args()
    main(options.seconds, options.rounds, not options.no_peer)
