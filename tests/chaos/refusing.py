"""States in which Redis takes no writes, each for some seconds."""

import time

import redis

from ratchet_testing.ports import free_port


def be_full(connection: redis.Redis, seconds: float) -> None:
    _set(connection, "maxmemory", seconds)


def lose_its_replicas(connection: redis.Redis, seconds: float) -> None:
    _set(connection, "min-replicas-to-write", seconds)


def be_a_replica(connection: redis.Redis, seconds: float) -> None:
    """Of a server that isn't there."""
    connection.replicaof("127.0.0.1", str(free_port()))
    time.sleep(seconds)
    connection.replicaof("NO", "ONE")


def _set(connection: redis.Redis, name: str, seconds: float) -> None:
    connection.config_set(name, 1)
    time.sleep(seconds)
    connection.config_set(name, 0)
