"""What Redis answers when it can't or won't, from a server of each test's own that is brought into that state."""

import asyncio
import contextlib
from datetime import timedelta
from pathlib import Path

import pytest
from redis import exceptions

from ratchet_kit import redis_errors, streams
from ratchet_kit.errors import Unavailable
from ratchet_kit.queues import StreamQueue
from ratchet_kit.streams import Stream
from ratchet_kit.work import enqueue
from ratchet_testing import free_port
from ratchet_testing.redis_server import redis_server

NOW = timedelta(0)


@pytest.fixture
async def redis():
    with redis_server() as url:
        client = streams.connect(url)
        yield client
        await client.aclose()


async def out_of_memory(redis) -> None:
    await redis.config_set("maxmemory", 1)


async def a_replica(redis) -> None:
    await redis.execute_command("REPLICAOF", "127.0.0.1", free_port())


async def without_its_replicas(redis) -> None:
    await redis.config_set("min-replicas-to-write", 1)


def in_the_way(folder: str) -> None:
    """A folder by the name that a saved file is renamed to."""
    Path(folder, "dump.rdb").unlink(missing_ok=True)
    Path(folder, "dump.rdb").mkdir()


async def unable_to_save(redis) -> None:
    in_the_way((await redis.config_get("dir"))["dir"])
    await redis.config_set("appendonly", "no")
    await redis.config_set("save", "3600 1")
    await redis.set("key", "value")
    await redis.bgsave()
    async with asyncio.timeout(10):
        while (await redis.info("persistence"))["rdb_last_bgsave_status"] != "err":
            with contextlib.suppress(exceptions.ResponseError):
                await redis.bgsave()
            await asyncio.sleep(0.1)


STATES = [
    (out_of_memory, "maxmemory"),
    (a_replica, "must lead to the primary"),
    (without_its_replicas, "min-replicas-to-write"),
    (unable_to_save, "free some space"),
]


@pytest.mark.parametrize(("state", "advice"), STATES)
async def test_a_redis_that_takes_no_writes_is_unavailable_and_says_what_to_do(redis, state, advice):
    stream = Stream(redis, "jobs", "workers", "a")
    await state(redis)
    with pytest.raises(Unavailable, match=advice):
        await stream.publish({"job": "1"})
    await enqueue(StreamQueue(stream), "1")  # raises nothing: a worker puts it there later


async def test_a_queue_in_a_full_redis_is_worked_off(redis):
    """What gives work out and what acknowledges it needs no memory; a letter that can't be kept holds up nobody."""
    stream = Stream(redis, "jobs", "workers", "a", lease=timedelta(milliseconds=50))
    await stream.publish({"job": "poison"})
    await stream.publish({"job": "2"})
    [poison] = await stream.read(1, NOW)
    await out_of_memory(redis)
    with pytest.raises(Unavailable):
        await stream.dead_letter(poison, "it cannot be done")
    [message] = await stream.read(1, NOW)
    assert message.payload == {"job": "2"}
    await stream.ack(message)
    await redis.config_set("maxmemory", 0)
    await asyncio.sleep(0.1)
    [poison] = await stream.read(1, NOW)
    await stream.dead_letter(poison, "it cannot be done")
    assert await stream.read(1, NOW) == []
    assert [letter["job"] for letter in await stream.dead_letters()] == ["poison"]


async def test_a_new_connection_is_made_when_the_server_has_become_a_replica(redis):
    """After a failover the name leads elsewhere: who keeps its connection would stay with the old one."""
    stream = Stream(redis, "jobs", "workers", "a")
    await stream.publish({"job": "1"})
    before = await redis.client_id()
    await a_replica(redis)
    with pytest.raises(Unavailable):
        await stream.publish({"job": "2"})
    assert await redis.client_id() != before


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        (exceptions.BusyLoadingError("Redis is loading the dataset in memory"), "reading its data"),
        (exceptions.MasterDownError("Link with MASTER is down"), "lost its primary"),
        (exceptions.ConnectionError("max number of clients reached"), "maxclients"),
        (exceptions.AuthenticationError("invalid username-password pair"), "another password"),
        (exceptions.NoPermissionError("this user has no permissions to run the 'xadd' command"), "may not do this"),
        (exceptions.ResponseError("BUSY Redis is busy running a script"), "a script"),
        (exceptions.ResponseError("WRONGTYPE Operation against a key"), "WRONGTYPE"),
        (exceptions.TimeoutError("Timeout reading"), "Timeout"),
    ],
)
async def test_the_words_are_for_whoever_runs_redis(error, advice):
    with pytest.raises(Unavailable, match=advice):
        async with redis_errors.redis_errors():
            raise error


async def test_a_command_that_is_not_well_formed_is_a_fault_of_ours(redis):
    with pytest.raises(exceptions.DataError):
        async with redis_errors.redis_errors():
            await redis.set("key", object())


async def test_a_redis_that_stands_still_is_unavailable(redis, monkeypatch):
    monkeypatch.setattr(redis_errors, "COMMAND_LIMIT", timedelta(milliseconds=100))
    await redis.ping()
    await redis.execute_command("CLIENT", "PAUSE", 2000, "ALL")
    with pytest.raises(Unavailable, match="has not answered"):
        async with redis_errors.redis_errors():
            await redis.ping()
