"""What kills parts of a platform, and waits for what comes of it."""

import time
from collections.abc import Callable, Iterable
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
    each(victims, psutil.Process.kill)


def each(victims: Iterable[psutil.Process], act: Callable[[psutil.Process], None]) -> None:
    """One that has ended is left out: programs of the sandbox come and go, vLLM's processes end with their engine, and
    the supervisor may be faster."""
    for victim in victims:
        with suppress(psutil.NoSuchProcess):
            act(victim)


def kill_vllm(platform: Platform) -> None:
    """The engine and vLLM's own processes under it; the fork server that they come from lives on."""
    servers = find(platform, "ratchet-engine", "fork server")
    victims = [one for one in find(platform, "ratchet-engine") if one not in servers] + find(platform, "VLLM::")
    assert victims, "no engine to kill"
    each(victims, psutil.Process.kill)


def kill_redis(platform: Platform) -> None:
    kill(platform, "valkey")


def stop(seconds: float, *words: str) -> Callable[[Platform], None]:
    """SIGSTOP of the processes with these words, and SIGCONT."""

    def stop_for_a_while(platform: Platform) -> None:
        victims = find(platform, *words)
        assert victims, f"no process with {words} to stop"
        each(victims, psutil.Process.suspend)
        time.sleep(seconds)
        each(victims, psutil.Process.resume)

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
