"""How often a version that stays as it is gets a notice of drift in a month, and how soon one that gets worse does.

    python -m tests.bench.simulated_drift [MONTHS]

A month is 30 days, each looked at four times, by `drift.find` as `VersionHealth` calls it: the day so far against the
same hours of the week before. 2,000 users, of whom some ask far more often than others (lognormal, sd 1), and each of
whom has rates of its own; weekends have half of the traffic and are somewhat worse.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gateway_service.domain import drift
from gateway_service.domain.releases.findings import Bound
from gateway_service.domain.statistics.moments import Moments
from gateway_service.domain.traffic.sample import ArmSample
from gateway_service.domain.version_health import DAYS_BEFORE

Counts = NDArray[np.int64]
USERS, DAYS, LOOKS = 2_000, 30, 4
CHANGED = 3
"""The day from which on a version is worse."""
REQUESTS = 2.0
"""Of a user and day, on average."""
SCORED = 0.2


@dataclass(frozen=True, slots=True)
class Kind:
    name: str
    error_rate: float = 0.0
    """Each is added to that of the days before."""
    left: float = 0.0
    score: float = 0.0
    slow: float = 0.0
    """Share of answers that take longer than 1.5 times the p95 of before: 0.007 of a lognormal with sd 0.5, and 0.14
    more where all take twice as long."""
    bound: Bound | None = None


QUIET = Kind("stays as it is")
WORSE = (
    Kind("error rate +8 points", error_rate=0.08, bound=Bound.ERROR_RATE),
    Kind("8 points more leave", left=0.08, bound=Bound.LEFT),
    Kind("latency x2", slow=0.14, bound=Bound.LATENCY),
    Kind("mean score -0.20", score=-0.20, bound=Bound.QUALITY),
)


@dataclass(frozen=True, slots=True)
class Notice:
    day: int
    bound: Bound


def month(kind: Kind, seed: int) -> Sequence[Notice]:
    """Those of one month."""
    generator = np.random.default_rng(seed)
    often = generator.lognormal(0, 1, USERS)
    often *= REQUESTS / often.mean() / LOOKS
    failing, leaving = generator.beta(0.05, 4.95, USERS), generator.beta(0.2, 9.8, USERS)
    liking = generator.beta(3, 2, USERS)

    def counts(day: int) -> Counts:
        """By look, quantity and user: requests, left, errors, timed, slow, scored, score."""
        worse, weekend = kind if day >= CHANGED else QUIET, day % 7 >= 5
        requests = generator.poisson(often * (0.5 if weekend else 1.0), (LOOKS, USERS))
        left = generator.binomial(requests, np.clip(leaving + worse.left, 0, 1))
        errors = generator.binomial(requests - left, np.clip(failing + 0.005 * weekend + worse.error_rate, 0, 1))
        answers = requests - left - errors
        slow = generator.binomial(answers, 0.007 + 0.01 * weekend + worse.slow)
        scored = generator.binomial(answers, SCORED)
        score = generator.binomial(scored, np.clip(liking - 0.02 * weekend + worse.score, 0, 1))
        return np.stack([requests, left, errors, answers, slow, scored, score], 1).cumsum(0)

    days = [counts(0)]
    found: list[Notice] = []
    for day in range(1, DAYS):
        now = counts(day)
        before: Counts = np.sum(days[-DAYS_BEFORE:], axis=0)
        for look in range(LOOKS):
            found += [Notice(day, one.bound) for one in drift.find(_sample(now[look]), _sample(before[look]))]
        days.append(now)
    return found


def _sample(counts: Counts) -> ArmSample:
    requests, left, errors, answers, slow, scored, score = counts
    return ArmSample(
        failures=_moments(requests - left, errors),
        scores=_moments(scored, score),
        leaving=_moments(requests, left),
        slowness=_moments(answers, slow),
    )


def _moments(x: Counts, y: Counts) -> Moments:
    return Moments.of(x[x > 0], y[x > 0])


def false_alarms(months: int) -> int:
    """Quiet months with a notice."""
    return sum(bool(month(QUIET, seed)) for seed in range(months))


def noticed(kind: Kind, months: int) -> int:
    """Months in which it was noticed on its first day or the next, and nothing before."""
    by_then = [[one for one in month(kind, seed) if one.day <= CHANGED + 1] for seed in range(months)]
    return sum(
        any(one.bound is kind.bound for one in found) and all(one.day >= CHANGED for one in found) for found in by_then
    )


def main() -> None:
    months = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    print(f"{QUIET.name}: {false_alarms(months)} of {months} months with a notice")
    for kind in WORSE:
        print(f"{kind.name} from day {CHANGED} on: {noticed(kind, months)} of {months} noticed by day {CHANGED + 1}")


if __name__ == "__main__":
    main()
