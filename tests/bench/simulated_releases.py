"""Do releases end as they should? Simulated releases, under the gateway's own controller and decision:
`simulated_releases.py [RELEASES] [NAME]`, the second for the rows whose name begins so.

20 requests a second by 20,000 users, of whom some ask far more often than others, and who stay with one version within
a stage. A user's rate of good answers is drawn from Beta(8, 8) (sd 0.12), and an answer is good or not; FEEDBACK of the
answers are scored. One request in a hundred fails. Latencies are lognormal (sd 0.4), with a user's own part (sd 0.2),
so the p95 is twice the median; a caller gives up after 2.5 medians, where an answer takes longer or never comes.

The stages, bounds, share of the baseline and watch are the defaults. The controller looks every 15 s, and later after
each 5 % of a stage's time. The stores are in memory, the clock is set by hand; only the request log is of this file: it
keeps the sums as arrays.

Two tables follow, of the decision alone: users who fail wholly, and p95 at a ratio of 1.
"""

import asyncio
import logging
import math
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import combinations

import numpy as np
import structlog
from numpy.typing import NDArray

from gateway_service.domain.experiments.assignment import place
from gateway_service.domain.ports import GateResult
from gateway_service.domain.releases.controller import ControlOptions, ReleaseController
from gateway_service.domain.releases.evidence import Traffic
from gateway_service.domain.releases.findings import Bound, Finding, look
from gateway_service.domain.releases.release import Bounds, Release, ReleaseSpec, State
from gateway_service.domain.serving import Serving, ServingOptions
from gateway_service.domain.statistics.moments import Moments, Products
from gateway_service.domain.statistics.strata import Cell, Strata
from gateway_service.domain.traffic.record import Arm
from gateway_service.domain.traffic.sample import ArmSample, Period, UnitLatency
from ratchet_kit.idempotency import Request
from ratchet_kit.names import CHAMPION, VersionRef
from ratchet_testing import ManualClock
from services.gateway.tests.doubles import ScriptedEngine, ScriptedRegistry
from services.gateway.tests.memory import MemoryCompletionLog, MemoryReleaseStore

USERS, REQUESTS_A_SECOND = 20_000, 20
LOOK, GROWTH = 15.0, 0.05
LATEST = 1_000
PATIENCE = 2.5
ARMS = (Arm.BASELINE, Arm.CANDIDATE)
START = datetime(2026, 1, 1, tzinfo=UTC)
NAMES = [f"user-{number}" for number in range(USERS)]
BASELINE, CANDIDATE = VersionRef("starter", 1), VersionRef("starter", 2)
SPEC = ReleaseSpec(CANDIDATE, "gate_2")
STAGES = len(SPEC.stages) + 1
"""With the watch."""
WHOLE = STAGES - 2
"""The stage of 100 %."""
ASKED, FAILED, LEFT, TIMED, SLOW, SCORED, GOOD = range(7)
"""Rows of the sums; the first is of all requests."""

Values = NDArray[np.float64]


@dataclass(frozen=True)
class Kind:
    """How the candidate differs from the baseline, what happens to both, and what is asked of the releases."""

    name: str
    asked: str
    feedback: float = 0.2
    drop: float = 0.0
    errors: float = 0.0
    slower: float = 1.0
    hangs: float = 0.0
    """Requests that get no answer."""
    breaks_at: tuple[int, float] = (STAGES, 0.0)
    """From this stage on, so many of the candidate's requests fail."""
    harder: tuple[int, float] = (STAGES, 0.0)
    """From this stage on the rate of good answers of both is so much lower."""
    waves: float = 0.0
    """By how much that rate goes up and down within 20 minutes."""
    timeouts: float = 0.0
    """So many requests of both fail: in each release from another stage on, some minutes after its start."""
    late: float = 0.0
    """As `timeouts`, from six minutes after the candidate got all traffic."""
    quicker: float = 1.0
    """How many times as long both take, from a minute after the candidate got 5 %."""
    kept: int = SPEC.baseline_percent
    heavy: float = 0.0
    """So many users ask 1,000 times as often as all others, who ask equally often."""
    fail_wholly: float = 0.0
    """So many users get an error from either version, each time."""


KINDS = (
    Kind("bad: quality -0.10", "0 promoted", drop=0.10),
    Kind("bad: errors +5 %", "0 promoted", errors=0.05),
    Kind("bad: latency x2", "0 promoted", slower=2.0),
    Kind("bad: 30 % hang", "0 promoted", hangs=0.3),
    Kind("bad: 70 % hang", "0 promoted", hangs=0.7),
    Kind("bad: all broken off", "0 promoted", errors=1.0),
    Kind("bad: breaks under all traffic", "all back", breaks_at=(WHOLE, 0.2)),
    Kind("bad: the same, no share kept", "all back", breaks_at=(WHOLE, 0.2), kept=0),
    Kind("equal", "97 % promoted"),
    Kind("equal: harder by 0.20 at 50 %", "97 % promoted", harder=(3, 0.2)),
    Kind("equal: easier by 0.20 at 50 %", "97 % promoted", harder=(3, -0.2)),
    Kind("equal: waves of 0.20", "97 % promoted", waves=0.2),
    Kind("equal: quicker by 60 % at 5 %", "97 % promoted", quicker=0.4),
    Kind("equal: 4 % of all time out", "0 back", timeouts=0.04),
    Kind("equal: the same, no share kept", "0 back", late=0.04, kept=0),
    Kind("equal: 1 user of 100 asks 1,000 x", "5 % back", heavy=0.01, fail_wholly=0.02),
    Kind("worse by 0.10, harder by 0.20", "1 % promoted", drop=0.10, harder=(3, 0.2)),
    Kind("worse by 0.10, easier by 0.20", "1 % promoted", drop=0.10, harder=(3, -0.2)),
    Kind("worse by 0.15, 100 % feedback", "0 promoted", 1.0, drop=0.15),
    Kind("worse by 0.15, 4 % feedback", "0 promoted", 0.04, drop=0.15),
)


class SimulatedLog(MemoryCompletionLog):
    """The sums of one release, per stage, arm and user."""

    def __init__(self, kind: Kind, number: int, generator: np.random.Generator) -> None:
        super().__init__()
        self._kind = kind
        self._chance = generator
        sizes = generator.lognormal(0.0, 1.0, USERS)
        if kind.heavy:
            sizes = np.where(generator.random(USERS) < kind.heavy, 1_000.0, 1.0)
        rates = np.cumsum(sizes)
        self._rates = rates / rates[-1]
        self._good = generator.beta(8, 8, USERS)
        self._speed = generator.normal(0.0, 0.2, USERS)
        self._sums = np.zeros((STAGES, 2, GOOD + 1, USERS))
        self._fails = generator.random(USERS) < kind.fail_wholly
        self._latest = np.exp(self._speed[:LATEST] + generator.normal(0, 0.4, LATEST))
        self._cells: dict[Cell, Moments] = {}
        self._products: dict[tuple[Cell, Cell], Products] = {}
        self._baseline_until = START
        self._breaks_from = (number % STAGES, generator.uniform(0, 240))

    def ask(self, release: Release, at: Values, seconds: float, now: datetime) -> None:
        """The requests of so many seconds; `at`: where each user is placed, in percent."""
        users = np.searchsorted(self._rates, self._chance.random(self._chance.poisson(seconds * REQUESTS_A_SECOND)))
        is_candidate = at[users] < release.percent
        assert release.stage_start_time is not None
        in_stage, since = (now - release.stage_start_time).total_seconds(), (now - START).total_seconds()
        stage, offset = self._breaks_from
        fails = self._kind.timeouts * (release.stage > stage or (release.stage == stage and in_stage >= offset))
        fails += self._kind.late * (release.stage > WHOLE or (release.stage == WHOLE and in_stage > 360))
        harder = self._kind.harder[1] * (release.stage >= self._kind.harder[0])
        harder += self._kind.waves * math.sin(2 * math.pi * since / 1200)
        quicker = self._kind.quicker if release.stage > 1 or (release.stage == 1 and in_stage > 60) else 1.0
        if release.percent < 100:
            self._baseline_until = now
        for arm in (0, 1):
            self._answer(release, arm, users[is_candidate == bool(arm)], fails, harder, quicker)

    def _answer(
        self, release: Release, arm: int, users: NDArray[np.int64], fails: float, harder: float, quicker: float
    ) -> None:
        kind, chance, stage = self._kind, self._chance, release.stage
        breaks = kind.breaks_at[1] * (stage >= kind.breaks_at[0])
        failed = self._fails[users] | (chance.random(len(users)) < 0.01 + fails + arm * (kind.errors + breaks))
        latency = np.exp(self._speed[users] + chance.normal(0, 0.4, len(users))) * kind.slower**arm * quicker
        left = ~failed & ((latency > PATIENCE) | (chance.random(len(users)) < arm * kind.hangs))
        latency = np.where(left, PATIENCE, latency)
        answered = ~failed & ~left
        scored = answered & (chance.random(len(users)) < kind.feedback)
        rate = np.clip(self._good[users] - harder, 0, 1) - arm * kind.drop
        good = scored & (chance.random(len(users)) < rate)
        limit = release.slow_after(ARMS[arm])
        slow = ~failed & (latency > limit.total_seconds()) if limit else np.zeros_like(failed)
        timed = answered | slow if limit else slow
        for row, mask in enumerate((np.ones_like(failed), failed, left, timed, slow, scored, good)):
            self._sums[stage, arm, row] += np.bincount(users[mask], minlength=USERS)
        if arm == 0:
            self._latest = np.concatenate([self._latest, latency[answered]])[-LATEST:]

    async def release_sample(self, release_id: str, arm: Arm, stage: int) -> ArmSample:
        asked, failed, left, timed, slow, scored, good = self._sums[stage, ARMS.index(arm)]
        return ArmSample(
            _moments(asked - left, failed), _moments(scored, good), (), _moments(asked, left), _moments(timed, slow)
        )

    async def release_scores(self, release_id: str) -> Strata:
        """Only the last stage with scores has changed since the last look."""
        scored, good = (self._sums[:, :, row].reshape(-1, USERS) for row in (SCORED, GOOD))
        there = [number for number, counts in enumerate(scored) if counts.any()]
        cells = {number: Cell(number // 2, ARMS[number % 2]) for number in there}
        for one in there[-2:]:
            self._cells[cells[one]] = _moments(scored[one], good[one])
            for other in there:
                if other != one:
                    pairs = ((x[other], y[one]) for x in (scored, good) for y in (scored, good))
                    self._products[cells[other], cells[one]] = Products(1, *(_product(*pair) for pair in pairs))
        shared = [(cells[a], cells[b]) for a, b in combinations(there, 2)]
        return Strata(dict(self._cells), {pair: self._products[pair] for pair in shared})

    async def latest_latencies(self, ref: VersionRef) -> Sequence[UnitLatency]:
        return [UnitLatency("", latency) for latency in self._latest.tolist()]

    async def version_sample(self, ref: VersionRef, period: Period) -> ArmSample:
        """That of the baseline in the stage of 50 %, which lasts little longer than what is asked for."""
        if period.start_time > self._baseline_until:
            return ArmSample()
        return await self.release_sample("", Arm.BASELINE, WHOLE - 1)


def _moments(x: Values, y: Values) -> Moments:
    sums = float(x.sum()), float(y.sum()), _product(x, x), _product(y, y), _product(x, y)
    return Moments(int(np.count_nonzero(x)), *sums)


def _product(x: Values, y: Values) -> float:
    """Not BLAS's, whose threads wait for each other where each core has a process of its own."""
    return float(np.einsum("i,i->", x, y))


async def ended(kind: Kind, number: int) -> Release:
    """A release from its creation to its end."""
    generator = np.random.default_rng([number, len(kind.name), int(1000 * kind.feedback)])
    clock, releases, log = ManualClock(START), MemoryReleaseStore(), SimulatedLog(kind, number, generator)
    gate = GateResult("gate_2", CANDIDATE, BASELINE, True, "better")
    registry = ScriptedRegistry({"starter": 2}, {("starter", CHAMPION): 1}, {"gate_2": gate})
    serving = Serving(ScriptedEngine(), registry, clock, ServingOptions(poll=timedelta(0)))
    await serving.ensure(CANDIDATE)
    controller = ReleaseController(releases, log, serving, registry, clock, ControlOptions())
    spec = replace(SPEC, baseline_percent=kind.kept)
    release = await releases.create(Release(f"rel_{number}", spec, BASELINE, clock.now()), Request.of(""))
    at = np.array([100 * place(release.id, name) for name in NAMES])
    while release.active:
        started = release.stage_start_time or clock.now()
        seconds = max(LOOK, GROWTH * (clock.now() - started).total_seconds())
        clock.advance(timedelta(seconds=seconds))
        if release.percent:
            log.ask(release, at, seconds, clock.now())
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
    promoted = sum(release.state is State.SUCCEEDED for release in releases)
    hours = np.median([(one.end_time - one.create_time).total_seconds() / 3600 for one in releases if one.end_time])
    return (
        f"{kind.name:32} {kind.asked:>14} {promoted / number:9.1%} {states[State.ROLLED_BACK] / number:12.1%} "
        f"{early / number:12.1%} {states[State.FAILED] / number:12.1%} {hours:8.1f} h   "
        f"({time.monotonic() - begun:.0f} s)"
    )


RELEASE = replace(
    Release("rel_1", SPEC, BASELINE, START, baseline_p95=timedelta(seconds=1)).begin(START),
    spec=replace(SPEC, bounds=Bounds(max_latency_ratio=1.0)),
)


def looks(first: int, last: int, growth: float) -> Iterator[int]:
    size = float(first)
    while size <= last:
        yield round(size)
        size = max(size + 1, size * growth)


def found(bound: Bound, traffic: Traffic) -> Finding:
    return next(finding for finding in look(RELEASE, traffic) if finding.bound is bound)


def shown(requests: float, share: float, spread: float, number: int, users: int = 4_000) -> float:
    """How often 2 % more errors are ruled out at some look, where a share of the candidate's users fails wholly, and
    the baseline has none: 9 times as many users. `spread`: sd of the logarithm of a user's requests."""
    generator, count = np.random.default_rng([int(requests), int(1000 * share), int(10 * spread)]), 0
    for _ in range(number):
        sizes = np.maximum(np.round(requests * generator.lognormal(-spread * spread / 2, spread, 10 * users)), 1.0)
        fails = generator.random(users) < share
        for n in looks(20, users, 1.08):
            baseline = Moments.of(sizes[users : users + 9 * n], np.zeros(9 * n))
            candidate = Moments.of(sizes[:n], sizes[:n] * fails[:n])
            if found(Bound.ERROR_RATE, Traffic(ArmSample(candidate), ArmSample(baseline))).holds:
                count += 1
                break
    return count / number


def rolled_back_for_p95(slower: float, number: int, answers: int = 50_000) -> float:
    """Of stages in which both versions have so many answers, looked at after every 50th, and later after each 2 %. The
    limit is the p95 of 1,000 answers of the baseline before."""
    generator, count = np.random.default_rng([5, int(100 * slower)]), 0
    for _ in range(number):
        before, baseline, candidate = (np.exp(generator.normal(0, 0.5, n)) for n in (1_000, answers, answers))
        limit = np.sort(before)[949]
        sums = [np.cumsum(latencies > limit) for latencies in (candidate * slower, baseline)]
        for n in looks(50, answers, 1.02):
            candidates, baselines = (Moments(n, n, y[n - 1], n, y[n - 1], y[n - 1]) for y in sums)
            if found(Bound.LATENCY, Traffic(ArmSample(slowness=candidates), ArmSample(slowness=baselines))).broken:
                count += 1
                break
    return count / number


def tables(number: int) -> None:
    print("\nusers who fail wholly: 2 % more errors are ruled out (asked at 2 %, the bound: at most 10 %)")
    for requests, spread in ((1, 0.0), (10, 0.0), (100, 0.0), (10, 1.0), (100, 1.5)):
        cells = "  ".join(f"{share:.0%}: {shown(requests, share, spread, number):6.1%}" for share in (0.02, 0.04, 0.08))
        print(f"{requests:4} requests a user, sd of the logarithm {spread}:  {cells}", flush=True)
    print("\np95, ratio 1, 50,000 answers each (asked: at most 1 % of equal versions rolled back)")
    for slower in (1.0, 1.1, 2.0):
        print(f"x{slower:g}: rolled back {rolled_back_for_p95(slower, number):.1%}", flush=True)


if __name__ == "__main__":
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    name = sys.argv[2] if len(sys.argv) > 2 else ""
    chosen = [kind for kind in KINDS if kind.name.startswith(name)]
    if chosen:
        head = f"{number} releases each"
        print(f"{head:32} {'asked':>14}  promoted  rolled back  at 1 or 5 %  not decided   median")
    for kind in chosen:
        print(row(kind, number), flush=True)
    if "tables".startswith(name):
        tables(number)
