"""Work queues on Redis Streams with consumer groups (extra `redis`).

Read, do, store, ack: a message is with its consumer until it is acknowledged. A consumer that dies stops renewing its
lease, and another one's `read` takes its messages over, as often as it takes: a queue holds no truth, and only who
knows the work can say that it is over. What cannot be done goes to the stream `<name>:dead` with its error. After
FLUSHALL the group is made again, at 0, so that nothing published since is missed, and the service puts its unfinished
work back from its database.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeAlias, cast

import redis.asyncio
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialBackoff
from redis.exceptions import ConnectionError, ReadOnlyError, ResponseError, TimeoutError

from ratchet_kit import metrics
from ratchet_kit.errors import Aborted
from ratchet_kit.redis_errors import redis_errors
from ratchet_kit.work import Priority

DEAD_LENGTH = 10_000
"""About how many dead letters are kept."""
_Fields: TypeAlias = dict[Any, Any]  # a dict's type is invariant, and redis-py's names every kind of value it takes
_dead_letters = metrics.counter("queue_dead_letters", "Messages given up, by stream", ("stream",))
_RANGE = 1_000  # entries that one look at a stream reads
_BLOCK_MS = 5_000  # the longest that one command waits
_EXTEND = """
if #redis.call('XPENDING', KEYS[1], ARGV[1], ARGV[3], ARGV[3], 1, ARGV[2]) == 0 then return 0 end
redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[2], 0, ARGV[3], 'JUSTID')
return 1
"""


@dataclass(frozen=True, slots=True)
class Message:
    """A message that is leased to this consumer."""

    id: str
    payload: Mapping[str, str]
    deliveries: int
    """How many times it was given to a consumer, this time included."""
    stream: str
    """The key of the stream it is in."""

    @property
    def priority(self) -> Priority:
        return Priority(self.stream.rpartition(":")[2])


def connect(url: str) -> redis.asyncio.Redis:
    """A client for `url` (redis://host:port/db) that gives text, and reconnects with backoff. Close it by `aclose`."""
    return redis.asyncio.Redis.from_url(
        url,
        decode_responses=True,
        socket_connect_timeout=5,
        # none of its own: redis-py would send in asyncio.wait_for, which up to Python 3.11 loses a cancellation that
        # arrives as the sending ends (cpython issue 86296). `redis_errors` bounds each command instead.
        socket_timeout=None,
        socket_keepalive=True,
        health_check_interval=30,
        retry=Retry(ExponentialBackoff(cap=1, base=0.05), 4),
        # After a failover the old primary is a replica that keeps its clients: a new connection finds the new one.
        retry_on_error=[ConnectionError, TimeoutError, ReadOnlyError],
    )


class Stream:
    """One queue, seen by one consumer of one group. Every method raises Unavailable when Redis cannot be used: see
    `redis_errors`.

    Each priority is a stream of its own; a read takes what is in the first before it looks at the next.

    `lease` is how long a message stays with a consumer that neither acknowledges nor extends it.
    """

    def __init__(
        self,
        redis: redis.asyncio.Redis,
        name: str,
        group: str,
        consumer: str,
        lease: timedelta = timedelta(seconds=60),
        *,
        shared: bool = False,
        max_length: int | None = None,
    ) -> None:
        """`shared`: other groups read the same messages (as with `events`), so that an acknowledged one stays until
        `max_length` pushes it out. Otherwise it is deleted, and the stream is as long as the work that is left."""
        self._redis = redis
        self._group = group
        self._consumer = consumer
        self._lease = lease
        self._shared = shared
        self._max_length = max_length
        self._keys = {priority: f"{name}:{priority}" for priority in Priority}
        self._dead = f"{name}:dead"
        metrics.start_at_zero(_dead_letters, self._keys.values())
        self._extend = redis.register_script(_EXTEND)

    async def publish(self, payload: Mapping[str, str], priority: Priority = Priority.NORMAL) -> str:
        """Adds a message and returns its id. Where the connection breaks in between, it may be there twice."""
        async with redis_errors():
            fields: _Fields = dict(payload)
            return str(await self._redis.xadd(self._keys[priority], fields, maxlen=self._max_length))

    async def read(self, count: int, block: timedelta) -> list[Message]:
        """Up to `count` messages: those of dead consumers first, then new ones, each by priority.

        Returns as soon as there is one, and with an empty list when there was none for `block`.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + block.total_seconds()
        while True:
            async with redis_errors():
                try:
                    last_ids = await self._last_ids()
                    messages = await self._reclaim(count)
                    messages += await self._new(count - len(messages))
                    left = int((end - loop.time()) * 1000)
                    if messages or left <= 0:
                        return messages
                    # Waits for a sign only: reading the group here could lease `count` messages of each priority.
                    await self._redis.xread(last_ids, count=1, block=min(left, _BLOCK_MS))
                except ResponseError as error:
                    if not _group_is_gone(error):
                        raise
                    await self._create_groups()

    async def resume(self) -> list[Message]:
        """The messages that a consumer of this name took and never acknowledged, of any age.

        Only for the start of the one process that has the name: it was killed, and need not wait for its own leases.
        """
        async with redis_errors():
            messages: list[Message] = []
            for key in self._keys.values():
                try:
                    pending = await self._redis.xpending_range(
                        key, self._group, "-", "+", DEAD_LENGTH, consumername=self._consumer
                    )
                except ResponseError as error:
                    if not _group_is_gone(error):
                        raise
                    continue
                if pending:
                    ids: Any = [entry["message_id"] for entry in pending]
                    claimed: Any = await self._redis.xclaim(key, self._group, self._consumer, 0, ids)
                    messages += await self._again(key, claimed)
            return messages

    async def payloads(self) -> AsyncIterator[Mapping[str, str]]:
        """Of all messages that wait or are leased (of a shared stream: that are kept), by priority."""
        for key in self._keys.values():
            start = "-"
            while True:
                async with redis_errors():
                    entries: Any = await self._redis.xrange(key, min=start, count=_RANGE)
                for _, payload in entries:
                    yield payload
                if len(entries) < _RANGE:
                    break
                start = f"({entries[-1][0]}"

    async def ack(self, *messages: Message) -> None:
        """The effect of these is durable: they will not be given out again. Harmless when repeated."""
        if not messages:
            return
        async with redis_errors():
            async with self._redis.pipeline(transaction=True) as pipeline:
                self._forget(pipeline, messages)
                await pipeline.execute()

    async def extend(self, message: Message) -> None:
        """Renews the lease: call it at least three times a lease while the work goes on.

        Raises:
            Aborted: another consumer has taken the message over, or it is gone. Stop the work.
        """
        async with redis_errors():
            try:
                kept = await self._extend(keys=[message.stream], args=[self._group, self._consumer, message.id])
            except ResponseError as error:
                if not _group_is_gone(error):
                    raise
                kept = 0
        if not kept:
            raise Aborted(f"the lease of message {message.id} of {message.stream} is lost")

    async def dead_letter(self, message: Message, reason: str) -> None:
        """Takes a message that cannot be done off the queue and keeps it, with the reason, in `<name>:dead`."""
        letter = dict(message.payload) | {
            "dead_reason": reason,
            "dead_id": message.id,
            "dead_stream": message.stream,
            "dead_deliveries": str(message.deliveries),
        }
        async with redis_errors():
            async with self._redis.pipeline(transaction=True) as pipeline:
                pipeline.xadd(self._dead, cast(_Fields, letter), maxlen=DEAD_LENGTH)
                self._forget(pipeline, [message])
                await pipeline.execute()
        _dead_letters.labels(message.stream).inc()

    async def dead_letters(self, count: int = 100) -> list[Mapping[str, str]]:
        """The newest dead letters, newest first."""
        async with redis_errors():
            letters: Any = await self._redis.xrevrange(self._dead, count=count)
            return [fields for _, fields in letters]

    async def depth(self) -> Mapping[Priority, int]:
        """How many messages wait or are being worked on, by priority (of a shared stream: how many are kept)."""
        async with redis_errors():
            return {priority: await self._redis.xlen(key) for priority, key in self._keys.items()}

    async def _reclaim(self, count: int) -> list[Message]:
        """Takes over messages whose lease ran out."""
        messages: list[Message] = []
        lease_ms = int(self._lease.total_seconds() * 1000)
        for key in self._keys.values():
            start = "0-0"
            while len(messages) < count:
                start, claimed, _ = await self._redis.xautoclaim(
                    key, self._group, self._consumer, lease_ms, start, count=count - len(messages)
                )
                messages += await self._again(key, claimed)
                if start == "0-0":
                    break
        return messages

    async def _again(self, key: str, entries: Sequence[tuple[str, dict[str, str]]]) -> list[Message]:
        """The messages of entries that were given out before."""
        return [Message(id, fields, await self._deliveries(key, id), key) for id, fields in entries]

    async def _deliveries(self, key: str, id: str) -> int:
        pending = await self._redis.xpending_range(key, self._group, id, id, 1)
        return int(pending[0]["times_delivered"]) if pending else 1

    async def _new(self, count: int) -> list[Message]:
        messages: list[Message] = []
        for key in self._keys.values():
            left = count - len(messages)
            if left <= 0:
                break
            replies = await self._redis.xreadgroup(self._group, self._consumer, {key: ">"}, count=left)
            messages += [Message(id, fields, 1, key) for id, fields in _entries(replies)]
        return messages

    async def _last_ids(self) -> dict[Any, Any]:
        """The newest id of each stream, acknowledged and deleted ones too."""
        async with self._redis.pipeline(transaction=False) as pipeline:
            for key in self._keys.values():
                pipeline.xinfo_stream(key)
            return {
                key: info["last-generated-id"]
                for key, info in zip(self._keys.values(), await pipeline.execute(), strict=True)
            }

    async def _create_groups(self) -> None:
        for key in self._keys.values():
            try:
                await self._redis.xgroup_create(key, self._group, id="0", mkstream=True)
            except ResponseError as error:
                if not str(error).startswith("BUSYGROUP"):
                    raise

    def _forget(self, pipeline: Any, messages: Sequence[Message]) -> None:
        for message in messages:
            pipeline.xack(message.stream, self._group, message.id)
            if not self._shared:
                pipeline.xdel(message.stream, message.id)


def _entries(replies: Any) -> Iterator[tuple[str, dict[str, str]]]:
    """The (id, fields) pairs of an XREADGROUP reply: a list of streams in RESP2, a mapping in RESP3."""
    if isinstance(replies, Mapping):
        yield from (entry for batches in replies.values() for batch in batches for entry in batch)
    else:
        yield from (entry for _, batch in replies or () for entry in batch)


def _group_is_gone(error: ResponseError) -> bool:
    """The streams or their group were never made, or FLUSHALL took them."""
    text = str(error)
    return "NOGROUP" in text or "no such key" in text
