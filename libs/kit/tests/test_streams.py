import asyncio
from datetime import timedelta

import pytest
from prometheus_client import REGISTRY

from ratchet_kit import errors, streams
from ratchet_kit.streams import Message, Priority, Stream
from ratchet_testing import free_port

NOW = timedelta(0)
SOON = timedelta(seconds=5)
LEASE = timedelta(seconds=0.15)


class Queue:
    """Consumers of one group of one stream."""

    def __init__(self, redis):
        self.redis = redis

    def consumer(self, name: str = "a", *, group: str = "workers", **options) -> Stream:
        return Stream(self.redis, "jobs", group, name, **options)


@pytest.fixture
def queue(redis) -> Queue:
    return Queue(redis)


def jobs(messages: list[Message]) -> list[str]:
    return [message.payload["job"] for message in messages]


async def lease_ends() -> None:
    await asyncio.sleep(LEASE.total_seconds() + 0.05)


async def test_a_message_is_given_to_one_consumer(queue):
    a, b = queue.consumer("a"), queue.consumer("b")
    id = await a.publish({"job": "1", "text": "é\n"})
    [message] = await a.read(10, SOON)
    assert message == Message(id, {"job": "1", "text": "é\n"}, 1, "jobs:normal")
    assert await b.read(10, NOW) == []


async def test_what_was_published_before_the_first_consumer_is_read(queue):
    await queue.consumer().publish({"job": "1"})
    assert jobs(await queue.consumer("later").read(10, NOW)) == ["1"]


async def test_priorities_come_in_order_and_oldest_first(queue):
    a = queue.consumer()
    for job, priority in [("l", Priority.LOW), ("n1", Priority.NORMAL), ("h", Priority.HIGH), ("n2", Priority.NORMAL)]:
        await a.publish({"job": job}, priority)
    assert jobs(await a.read(2, NOW)) == ["h", "n1"]
    assert jobs(await a.read(10, NOW)) == ["n2", "l"]


async def test_read_waits_for_a_message(queue):
    a = queue.consumer()
    waiting = asyncio.create_task(a.read(1, SOON))
    await asyncio.sleep(0.1)
    await a.publish({"job": "1"}, Priority.LOW)
    assert jobs(await asyncio.wait_for(waiting, 1)) == ["1"]


async def test_a_waiting_read_takes_no_more_than_it_was_asked_for(queue):
    a, b = queue.consumer("a"), queue.consumer("b")
    waiting = asyncio.create_task(a.read(1, SOON))
    await asyncio.sleep(0.1)
    async with queue.redis.pipeline(transaction=True) as pipeline:
        for priority in Priority:
            pipeline.xadd(f"jobs:{priority}", {"job": str(priority)})
        await pipeline.execute()
    assert jobs(await waiting) == ["high"]
    assert jobs(await b.read(10, NOW)) == ["normal", "low"]


async def test_every_message_goes_to_one_of_several_waiting_consumers(queue):
    consumers = [queue.consumer(str(n)) for n in range(4)]
    taken: list[str] = []

    async def work(consumer: Stream) -> None:
        while messages := await consumer.read(3, timedelta(seconds=0.3)):
            taken.extend(jobs(messages))
            await consumer.ack(*messages)

    working = [asyncio.create_task(work(consumer)) for consumer in consumers]
    for n in range(100):
        await consumers[0].publish({"job": str(n)})
    await asyncio.gather(*working)
    assert sorted(taken, key=int) == [str(n) for n in range(100)]


async def test_read_gives_up_after_block(queue):
    loop = asyncio.get_running_loop()
    started = loop.time()
    assert await queue.consumer().read(1, timedelta(seconds=0.2)) == []
    assert 0.15 < loop.time() - started < 1


async def test_an_acknowledged_message_is_gone(queue):
    a, b = queue.consumer("a", lease=LEASE), queue.consumer("b", lease=LEASE)
    await a.publish({"job": "1"})
    [message] = await a.read(1, NOW)
    await a.ack(message)
    await a.ack(message)
    await lease_ends()
    assert await b.read(1, NOW) == []
    assert sum((await a.depth()).values()) == 0


async def test_messages_of_a_dead_consumer_go_to_another(queue):
    a, b = queue.consumer("a", lease=LEASE), queue.consumer("b", lease=LEASE)
    await a.publish({"job": "1"})
    [first] = await a.read(1, NOW)
    assert await b.read(1, NOW) == []
    await lease_ends()
    [second] = await b.read(1, NOW)
    assert (second.id, second.deliveries) == (first.id, 2)


async def test_a_message_that_is_extended_stays(queue):
    a, b = queue.consumer("a", lease=LEASE), queue.consumer("b", lease=LEASE)
    await a.publish({"job": "1"})
    [message] = await a.read(1, NOW)
    for _ in range(5):
        await asyncio.sleep(LEASE.total_seconds() / 2)
        await a.extend(message)
        assert await b.read(1, NOW) == []
    await lease_ends()
    [taken] = await b.read(1, NOW)
    assert taken.deliveries == 2  # extending is no delivery


async def test_extending_a_lost_lease_is_an_error(queue):
    a, b = queue.consumer("a", lease=LEASE), queue.consumer("b", lease=LEASE)
    await a.publish({"job": "1"})
    [message] = await a.read(1, NOW)
    await lease_ends()
    [taken] = await b.read(1, NOW)
    with pytest.raises(errors.Aborted, match=message.id):
        await a.extend(message)
    await b.extend(taken)
    await b.ack(taken)
    with pytest.raises(errors.Aborted):
        await b.extend(taken)


async def test_a_lease_that_is_extended_is_kept(queue):
    a, b = queue.consumer("a", lease=LEASE), queue.consumer("b", lease=LEASE)
    await a.publish({"job": "1"})
    [message] = await a.read(1, NOW)
    for _ in range(4):
        await asyncio.sleep(LEASE.total_seconds() / 2)
        await a.extend(message)
        assert await b.read(1, NOW) == []


async def test_what_a_consumer_had_is_given_to_the_next_of_its_name(queue):
    a = queue.consumer("a")
    assert await a.resume() == [], "there is no group yet"
    for job in ("1", "2"):
        await a.publish({"job": job})
    await a.read(1, NOW)
    assert await queue.consumer("b").resume() == []
    [again] = await queue.consumer("a").resume()
    assert (again.payload["job"], again.deliveries) == ("1", 2)


async def test_all_that_is_in_a_queue_can_be_looked_at(queue):
    a = queue.consumer("a")
    for job in ("1", "2", "3"):
        await a.publish({"job": job}, Priority.HIGH if job == "3" else Priority.NORMAL)
    [done] = await a.read(1, NOW)
    await a.read(1, NOW)
    await a.ack(done)
    assert [payload["job"] async for payload in a.payloads()] == ["1", "2"]


async def test_what_is_never_acknowledged_is_given_out_again_and_holds_up_nothing(queue):
    a = queue.consumer("a", lease=LEASE)
    await a.publish({"job": "1"})
    for times in range(1, 9):
        [message] = await a.read(1, NOW)
        assert (message.payload["job"], message.deliveries) == ("1", times)
        await a.publish({"job": "behind"})
        [behind] = await a.read(1, NOW)
        await a.ack(behind)
        await lease_ends()
    assert await a.dead_letters() == []


async def test_dead_letters_are_counted_from_zero(queue):
    queue.consumer()
    assert REGISTRY.get_sample_value("ratchet_queue_dead_letters_total", {"stream": "jobs:high"}) == 0


async def test_dead_letter(queue):
    a, b = queue.consumer("a", lease=LEASE), queue.consumer("b", lease=LEASE)
    await a.publish({"job": "1"})
    [message] = await a.read(1, NOW)
    await a.dead_letter(message, "cannot be parsed")
    await lease_ends()
    assert await b.read(1, NOW) == []
    [letter] = await b.dead_letters()
    expected = {"job": "1", "dead_reason": "cannot be parsed", "dead_stream": "jobs:normal", "dead_deliveries": "1"}
    assert letter == expected | {"dead_id": message.id}


async def test_groups_of_a_shared_stream_each_see_every_message(queue):
    a = queue.consumer("a", group="one", shared=True)
    b = queue.consumer("b", group="two", shared=True)
    await a.publish({"job": "1"})
    for stream in (a, b):
        messages = await stream.read(10, NOW)
        assert jobs(messages) == ["1"]
        await stream.ack(*messages)
        assert await stream.read(10, NOW) == []


async def test_the_length_is_kept(queue):
    a = queue.consumer(shared=True, max_length=100)
    for n in range(500):
        await a.publish({"job": str(n)})
    assert (await a.depth())[Priority.NORMAL] < 300


async def test_flushall_is_survived(queue):
    a = queue.consumer()
    await a.publish({"job": "lost"})
    [message] = await a.read(1, NOW)
    await queue.redis.flushall()
    await a.ack(message)
    await a.publish({"job": "put back"})
    assert jobs(await a.read(10, NOW)) == ["put back"]


async def test_flushall_during_a_read_is_survived(queue):
    a, b = queue.consumer("a"), queue.consumer("b")
    waiting = asyncio.create_task(a.read(1, SOON))
    await asyncio.sleep(0.1)
    await queue.redis.flushall()
    await b.publish({"job": "put back"})
    assert jobs(await asyncio.wait_for(waiting, 2)) == ["put back"]


async def test_redis_that_cannot_be_reached_is_unavailable():
    client = streams.connect(f"redis://127.0.0.1:{free_port()}/0")
    stream = Stream(client, "jobs", "workers", "a")
    message = Message("1-0", {}, 1, "jobs:normal")
    attempts = stream.publish({"job": "1"}), stream.read(1, NOW), stream.ack(message), stream.extend(message)
    outcomes = await asyncio.gather(*attempts, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [errors.Unavailable] * 4
    await client.aclose()
