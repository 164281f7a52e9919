from datetime import timedelta

import psycopg
import pytest

from ratchet_kit.errors import FailedPrecondition
from ratchet_kit.settings import ServiceSettings
from ratchet_testing import ManualClock, free_port, serving


async def test_redis_is_empty(redis):
    assert await redis.dbsize() == 0
    await redis.set("left", "over")


async def test_redis_is_empty_again(redis):
    assert await redis.dbsize() == 0


@pytest.mark.parametrize("turn", [1, 2])
def test_postgres_is_empty_each_time(postgres_url, turn):
    with psycopg.connect(postgres_url) as connection:
        connection.execute("CREATE TABLE t (id INTEGER)")


def test_each_database(database_url):
    assert database_url.startswith(("sqlite:///", "postgresql://"))


def test_the_clock_stands_still_until_told(clock: ManualClock):
    start = clock.now()
    assert clock.now() == start
    assert clock.advance(timedelta(seconds=3)) == clock.now() == start + timedelta(seconds=3)


async def test_serving_raises_what_kept_it_from_starting():
    port = free_port()
    settings = ServiceSettings(port=port, log_level="CRITICAL")
    async with serving(lambda server: [], settings=settings):
        with pytest.raises(FailedPrecondition, match=str(port)):
            async with serving(lambda server: [], settings=settings):
                pass
