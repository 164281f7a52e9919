"""Do releases end as they should? Simulated releases, under the gateway's own controller and decision:
`simulated_releases.py [RELEASES] [NAME]`, the second for the rows whose name begins so.

20 requests a second by 20,000 users, of whom some ask far more often than others, and who stay with one version within
a stage. A user's rate of good answers is drawn from Beta(8, 8) (sd 0.12), and an answer is good or not; FEEDBACK of the
answers are scored. One request in a hundred fails. Latencies are lognormal (sd 0.4), with a user's own part (sd 0.2).

The stages, bounds and watch are the defaults. The controller looks every 15 s, and later after each 5 % of a stage's
time. The stores are in memory, the clock is set by hand; only the request log is of this file: it keeps the sums as
arrays.
"""

import asyncio
import logging
import os
import sys
import time
from collections import Counter, deque
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import combinations

import numpy as np
import structlog
from numpy.typing import NDArray

from gateway_service.adapters.memory import MemoryCompletionLog, MemoryReleaseStore
from gateway_service.domain.experiments.assignment import place
from gateway_service.domain.ports import GateResult
from gateway_service.domain.releases.controller import ControlOptions, ReleaseController
from gateway_service.domain.releases.release import Release, ReleaseSpec, State
from gateway_service.domain.serving import Serving, ServingOptions
from gateway_service.domain.statistics.moments import Moments, Products
from gateway_service.domain.statistics.strata import Cell, Strata
from gateway_service.domain.traffic.record import Arm
from gateway_service.domain.traffic.sample import ArmSample, Period, UnitLatency
from ratchet_kit.idempotency import Request
from ratchet_kit.names import CHAMPION, VersionRef
from ratchet_testing import ManualClock
from services.gateway.tests.doubles import ScriptedEngine, ScriptedRegistry

USERS, REQUESTS_A_SECOND = 20_000, 20
LOOK, GROWTH = 15.0, 0.05
LATEST = 1_000
START = datetime(2026, 1, 1, tzinfo=UTC)
NAMES = [f"user-{number}" for number in range(USERS)]
BASELINE, CANDIDATE = VersionRef("starter", 1), VersionRef("starter", 2)
SPEC = ReleaseSpec(CANDIDATE, "gate_2")
STAGES = len(SPEC.stages) + 1
"""With the watch."""

Values = NDArray[np.float64]


@dataclass(frozen=True)
class Kind:
    """How the candidate differs from the baseline, and the share of answers that is scored."""

    name: str
    feedback: float
    drop: float = 0.0
    errors: float = 0.0
    slower: float = 1.0


KINDS = (
    Kind("bad: quality -0.10", 0.2, drop=0.10),
    Kind("bad: errors +5 %", 0.2, errors=0.05),
    Kind("bad: latency x2", 0.2, slower=2.0),
    Kind("equal", 0.2),
    Kind("worse by 0.15, 100 % feedback", 1.0, drop=0.15),
    Kind("worse by 0.15, 20 % feedback", 0.2, drop=0.15),
    Kind("worse by 0.15, 4 % feedback", 0.04, drop=0.15),
)


class SimulatedLog(MemoryCompletionLog):
    """The sums of one release, per stage, arm and user."""

    def __init__(self, kind: Kind, generator: np.random.Generator) -> None:
        super().__init__()
        self._kind = kind
        self._generator = generator
        rates = np.cumsum(generator.lognormal(0.0, 1.0, USERS))
        self._rates = rates / rates[-1]
        self._good = generator.beta(8, 8, USERS)
        self._speed = generator.normal(0.0, 0.2, USERS)
        self._sums = np.zeros((STAGES, 2, 4, USERS))
        self._latencies = {(stage, arm): deque[UnitLatency](maxlen=LATEST) for stage in range(STAGES) for arm in (0, 1)}

    def ask(self, release: Release, at: Values, seconds: float) -> None:
        """The requests of so many seconds; `at`: where each user is placed, in percent."""
        users = np.searchsorted(
            self._rates, self._generator.random(self._generator.poisson(seconds * REQUESTS_A_SECOND))
        )
        is_candidate = at[users] < release.percent
        for arm in (0, 1):
            self._answer(release.stage, arm, users[is_candidate == bool(arm)])

    def _answer(self, stage: int, arm: int, users: NDArray[np.int64]) -> None:
        kind, chance, sums = self._kind, self._generator, self._sums[stage, arm]
        failed = chance.random(len(users)) < 0.01 + arm * kind.errors
        answered = users[~failed]
        scored = answered[chance.random(len(answered)) < kind.feedback]
        good = chance.random(len(scored)) < self._good[scored] - arm * kind.drop
        for row, found in enumerate((users, users[failed], scored, scored[good])):
            sums[row] += np.bincount(found, minlength=USERS)
        latencies = np.exp(self._speed[answered] + chance.normal(0, 0.4, len(answered))) * kind.slower**arm
        latest = zip(answered[-LATEST:], latencies[-LATEST:].tolist(), strict=True)
        self._latencies[stage, arm].extend(UnitLatency(NAMES[user], latency) for user, latency in latest)

    async def release_sample(self, release_id: str, arm: Arm, stage: int) -> ArmSample:
        index = int(arm is Arm.CANDIDATE)
        x, failed, scored, good = self._sums[stage, index]
        asked, rated = x > 0, scored > 0
        return ArmSample(
            Moments.of(x[asked], failed[asked]),
            Moments.of(scored[rated], good[rated]),
            tuple(self._latencies[stage, index]),
            Moments.of(x[asked], np.zeros(asked.sum())),
        )

    async def release_scores(self, release_id: str) -> Strata:
        scored, good = (self._sums[:, :, row].reshape(-1, USERS) for row in (2, 3))
        cells = [Cell(stage, arm) for stage in range(STAGES) for arm in (Arm.BASELINE, Arm.CANDIDATE)]
        there = [number for number, counts in enumerate(scored) if counts.any()]
        xx, xy, yy = scored @ scored.T, scored @ good.T, good @ good.T
        return Strata(
            {cells[one]: Moments.of(scored[one][scored[one] > 0], good[one][scored[one] > 0]) for one in there},
            {
                (cells[a], cells[b]): Products(1, xx[a, b], xy[a, b], xy[b, a], yy[a, b])
                for a, b in combinations(there, 2)
            },
        )

    async def version_sample(self, ref: VersionRef, period: Period) -> ArmSample:
        return ArmSample()


async def ended(kind: Kind, number: int) -> Release:
    """A release from its creation to its end."""
    generator = np.random.default_rng([number, len(kind.name), int(1000 * kind.feedback)])
    clock, releases, log = ManualClock(START), MemoryReleaseStore(), SimulatedLog(kind, generator)
    gate = GateResult("gate_2", CANDIDATE, BASELINE, True, "better")
    registry = ScriptedRegistry({"starter": 2}, {("starter", CHAMPION): 1}, {"gate_2": gate})
    serving = Serving(ScriptedEngine(), registry, clock, ServingOptions(poll=timedelta(0)))
    await serving.ensure(CANDIDATE)
    controller = ReleaseController(releases, log, serving, registry, clock, ControlOptions())
    release = await releases.create(Release(f"rel_{number}", SPEC, BASELINE, clock.now()), Request.of(""))
    at = np.array([100 * place(release.id, name) for name in NAMES])
    while release.active:
        started = release.stage_start_time or clock.now()
        seconds = max(LOOK, GROWTH * (clock.now() - started).total_seconds())
        clock.advance(timedelta(seconds=seconds))
        if release.percent:
            log.ask(release, at, seconds)
        await controller.tick()
        release = await releases.get(release.id)
    is_champion = registry.aliases["starter", CHAMPION] == 2
    assert is_champion == (release.state is State.SUCCEEDED), "the champion is what the release says"
    await serving.close()
    return release


def run(task: tuple[Kind, int]) -> Release:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    return asyncio.run(ended(*task))


def row(kind: Kind, number: int) -> str:
    begun = time.monotonic()
    with ProcessPoolExecutor(os.cpu_count()) as processes:
        releases = list(processes.map(run, [(kind, one) for one in range(number)], chunksize=5))
    states = Counter(release.state for release in releases)
    early = sum(release.state is State.ROLLED_BACK and release.stage <= 1 for release in releases)
    promoted = sum(one.stage == len(SPEC.stages) for one in releases)
    hours = np.median([(one.end_time - one.create_time).total_seconds() / 3600 for one in releases if one.end_time])
    return (
        f"{kind.name:30} {promoted / number:9.1%} {states[State.ROLLED_BACK] / number:12.1%} {early / number:12.1%} "
        f"{states[State.FAILED] / number:12.1%} {hours:8.1f} h   ({time.monotonic() - begun:.0f} s)"
    )


if __name__ == "__main__":
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    chosen = [kind for kind in KINDS if kind.name.startswith(sys.argv[2] if len(sys.argv) > 2 else "")]
    print(f"{number} releases each             promoted  rolled back  at 1 or 5 %  not decided   median")
    for kind in chosen:
        print(row(kind, number), flush=True)
