"""Rates of each API key: requests, requests at once, tokens. For months see quotas."""

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta

from gateway_service.domain.keys.key import ApiKey
from ratchet_kit.errors import ResourceExhausted, invalid
from ratchet_kit.times import Clock

MINUTE = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class KeyLimits:
    """Of one key at one gateway. 0: no limit."""

    requests_per_minute: int = 6_000
    concurrent_requests: int = 512
    """One with several prompts, or n choices, counts as prompts x n: as so many answers are made at once."""
    tokens_per_minute: int = 0
    """Of prompts and completions together. What a request takes is known at its end: one may overdraw."""


@dataclass(slots=True)  # mutable: it fills with time
class _Bucket:
    """Holds a minute's worth of what a key may use, and fills at that rate."""

    per_minute: int
    level: float
    time: datetime

    def fill(self, now: datetime) -> None:
        self.level = min(self.per_minute, self.level + self.per_minute * ((now - self.time) / MINUTE))
        self.time = max(now, self.time)

    def wait(self, needed: float) -> timedelta:
        """Until it holds `needed`."""
        return MINUTE * max(0.0, (needed - self.level) / self.per_minute)


class Usage:
    """What the keys use. There are as many of them as keys that were made: it holds no more than those."""

    def __init__(self, limits: KeyLimits, clock: Clock) -> None:
        self._limits = limits
        self._clock = clock
        self._under_way: defaultdict[str, int] = defaultdict(int)
        self._requests: dict[str, _Bucket] = {}
        self._tokens: dict[str, _Bucket] = {}

    @contextmanager
    def admit(self, key: ApiKey) -> Iterator[None]:
        """Around one request. Raises ResourceExhausted when the key has too many under way, or sent too many."""
        self._require_room(key, 1)
        self._take(self._requests, self._limits.requests_per_minute, key, 1, 1, "requests")
        with self._counted(key, 1):
            yield

    def require_answers(self, key: ApiKey, answers: int) -> None:
        """Looks whether a request that was admitted has room for so many answers. Raises InvalidArgument where it never
        has, ResourceExhausted where it has none now."""
        most = self._limits.concurrent_requests
        if most and answers > most:
            raise invalid("n", f"times the prompts is {answers} answers at once, and one API key may have {most}")
        self._require_room(key, answers - 1)

    @contextmanager
    def admit_more(self, key: ApiKey, more: int) -> Iterator[None]:
        """Around what a request that was admitted does beside its first answer. Raises ResourceExhausted."""
        self._require_room(key, more)
        with self._counted(key, more):
            yield

    def _require_room(self, key: ApiKey, more: int) -> None:
        most = self._limits.concurrent_requests
        if most and more and self._under_way.get(key.id, 0) + more > most:
            raise ResourceExhausted(
                f"the API key may have at most {most} answers or other requests under way",
                timedelta(seconds=1),
            )

    @contextmanager
    def _counted(self, key: ApiKey, more: int) -> Iterator[None]:
        self._under_way[key.id] += more
        try:
            yield
        finally:
            self._under_way[key.id] -= more
            if not self._under_way[key.id]:
                del self._under_way[key.id]

    def require_tokens(self, key: ApiKey) -> None:
        """Raises ResourceExhausted while the key has used its tokens of the minute up."""
        self._take(self._tokens, self._limits.tokens_per_minute, key, 1, 0, "tokens")

    def spend(self, key: ApiKey, tokens: int) -> None:
        """Notes the tokens of an answer."""
        if self._limits.tokens_per_minute:
            self._bucket(self._tokens, self._limits.tokens_per_minute, key).level -= tokens

    def _take(
        self, buckets: dict[str, _Bucket], per_minute: int, key: ApiKey, needed: int, taken: int, what: str
    ) -> None:
        if not per_minute:
            return
        bucket = self._bucket(buckets, per_minute, key)
        if bucket.level < needed:
            raise ResourceExhausted(f"the API key has used its {per_minute} {what} per minute", bucket.wait(needed))
        bucket.level -= taken

    def _bucket(self, buckets: dict[str, _Bucket], per_minute: int, key: ApiKey) -> _Bucket:
        now = self._clock.now()
        bucket = buckets.setdefault(key.id, _Bucket(per_minute, per_minute, now))
        bucket.fill(now)
        return bucket
