"""The latest failures of the platform, from the services that know them."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Protocol

from gateway_service.domain.releases.ports import ReleaseStore
from gateway_service.domain.releases.release import Release, State
from ratchet_kit import projects
from ratchet_kit.errors import RatchetError
from ratchet_kit.times import Clock

PERIOD = timedelta(days=7)
MOST = 50
"""Failures of one kind in an answer."""
PATIENCE = timedelta(seconds=3)
"""For the answer of one service."""
_PAGE = 200


class Kind(StrEnum):
    RUN = "run"
    EVALUATION = "evaluation"
    RELEASE = "release"
    VERSION = "version"


@dataclass(frozen=True, slots=True)
class FailedResource:
    """A resource that failed, or a release that was rolled back."""

    kind: Kind
    id: str
    name: str
    message: str
    end_time: datetime


class FailureSource(Protocol):
    """A service that knows failures of one kind."""

    async def latest(self, after_time: datetime, limit: int) -> Sequence[FailedResource]:
        """The failures of resources created since then; the latest `limit` of them. Raises RatchetError."""
        ...


class ReleaseFailures:
    """FailureSource: the gateway's own."""

    def __init__(self, releases: ReleaseStore) -> None:
        self._releases = releases

    async def latest(self, after_time: datetime, limit: int) -> Sequence[FailedResource]:
        found: list[FailedResource] = []
        last: str | None = None
        while page := await self._releases.page("", _PAGE, last):
            for release in page:
                if release.create_time < after_time or len(found) == limit:
                    return found
                if projects.is_seen(release.id) and release.state in (
                    State.FAILED,
                    State.ROLLED_BACK,
                    State.FALLING_BACK,
                ):
                    found.append(_failed(release))
            last = page[-1].id
        return found


def _failed(release: Release) -> FailedResource:
    said = release.failure.message if release.failure else release.events[-1].reason if release.events else ""
    state = "rolled back: " if release.state is not State.FAILED else ""
    name = f"{release.candidate} in place of {release.baseline}"
    return FailedResource(Kind.RELEASE, release.id, name, f"{state}{said}", release.end_time or release.create_time)


@dataclass(frozen=True, slots=True)
class LatestFailures:
    failures: Sequence[FailedResource]
    """The latest first."""
    missing: Sequence[str]
    """Services that did not answer."""


class Failures:
    def __init__(self, sources: Mapping[str, FailureSource], clock: Clock) -> None:
        """`sources`: by the names of their services."""
        self._sources = sources
        self._clock = clock

    async def latest(self, after_time: datetime | None = None) -> LatestFailures:
        """Failures of the last 7 days where no time is given. A service that cannot answer is named and left out."""
        since = after_time or self._clock.now() - PERIOD
        answers = await asyncio.gather(*(_ask(source, since) for source in self._sources.values()))
        missing = [name for name, answer in zip(self._sources, answers, strict=True) if answer is None]
        found = [one for answer in answers for one in answer or ()]
        return LatestFailures(sorted(found, key=lambda one: one.end_time, reverse=True), missing)


async def _ask(source: FailureSource, since: datetime) -> Sequence[FailedResource] | None:
    try:
        async with asyncio.timeout(PATIENCE.total_seconds()):
            return await source.latest(since, MOST)
    except (RatchetError, TimeoutError):
        return None
