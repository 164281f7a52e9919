"""What kills parts of a platform, and waits for what comes of it."""

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress

import psutil
import redis

from ratchet_local.processes import marked
from tests.e2e.conftest import Platform


def find(platform: Platform, *words: str) -> list[psutil.Process]:
    """The platform's processes whose command line holds all the words."""
    found = []
    for process in marked(platform.home.path):
        try:
            line = " ".join(process.cmdline())
        except psutil.NoSuchProcess:
            continue
        if all(word in line for word in words):
            found.append(process)
    return found


def kill(platform: Platform, *words: str) -> None:
    victims = find(platform, *words)
    assert victims, f"no process with {words} to kill"
    for victim in victims:
        with suppress(ProcessLookupError):  # programs of the sandbox come and go
            os.kill(victim.pid, signal.SIGKILL)


def kill_vllm(platform: Platform) -> None:
    """The engine and vLLM's own processes under it; the fork server that they come from lives on."""
    victims = [p for p in find(platform, "ratchet-engine") if "fork server" not in " ".join(p.cmdline())]
    victims += find(platform, "VLLM::")
    assert victims, "no engine to kill"
    for victim in victims:
        os.kill(victim.pid, signal.SIGKILL)


def kill_redis(platform: Platform) -> None:
    kill(platform, "valkey")


def stop(seconds: float, *words: str) -> Callable[[Platform], None]:
    """SIGSTOP of the processes with these words, and SIGCONT."""

    def stop_for_a_while(platform: Platform) -> None:
        victims = find(platform, *words)
        assert victims, f"no process with {words} to stop"
        for victim in victims:
            victim.suspend()
        time.sleep(seconds)
        for victim in victims:
            with suppress(psutil.NoSuchProcess):  # the supervisor was faster
                victim.resume()

    return stop_for_a_while


def redis_of(platform: Platform) -> "redis.Redis":
    state = platform.home.read_state()
    assert state is not None
    return redis.Redis(port=state.ports["redis"], password=platform.home.redis_password())


def flush_redis(platform: Platform) -> None:
    with redis_of(platform) as connection:
        connection.flushall()


def wait_until(condition: Callable[[], bool], timeout: float, pause: float = 1.0) -> None:
    """All in seconds."""
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, "timed out"
        time.sleep(pause)
