"""Do the experiments' sequences do what they say? Simulated experiments: `simulated_experiments.py
[EXPERIMENTS] [same | better]`, the second to see one half only.

Users come again and again: each request is of one of 400 users, of whom some ask far more often than others, and a user
stays with one variant. A user's rate of good answers is drawn from Beta(8, 8) (sd 0.12), and an answer is good or not.
Every experiment is looked at after each of its REQUESTS requests, once both variants have 20 users.

A/A: both variants are the same; how many of the experiments ever showed a difference.

    Ratchet     the sequence of the gateway, over users (the default)
    gbstats     its sequential test, over users (tuning parameter 5,000), at the same looks
    peeked t    Welch's t over requests at 5 %, looked at as often: what people do

Power: the second variant is better by 2, 5 and 10 points; each request is a user of its own, so that all peers have
what they ask for. How many of the experiments showed it within LONG requests, after how many in the median, and how
many show it with one look at the end. Before all, gbstats and statsmodels are run on the same data as ours, in
.venvs/peers, and the largest difference is printed.
"""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from gateway_service.domain.statistics import horizons, power, sequences
from gateway_service.domain.statistics.moments import MIN_UNITS, Mean, Moments, mean
from ratchet_kit.statistics import Estimate

from . import statistics_of_peers as peers

ALPHA = 0.05
TUNED_FOR = 2_000
REQUESTS, USERS = 4_000, 400
LONG = 40_000
OURS = sequences.mixture(TUNED_FOR, ALPHA)
GBSTATS = 5000 / (-2 * np.log(ALPHA) + np.log(-2 * np.log(ALPHA) + 1))
"""The mixture of gbstats' tuning parameter; `agreement` checks that the rest is the same."""
PEERS_PYTHON = Path(__file__).resolve().parents[2] / ".venvs" / "peers" / "bin" / "python"

Values = NDArray[np.float64]


class Sides:
    """The moments of both variants of many experiments, request by request."""

    def __init__(self, experiments: int) -> None:
        self._sums = np.zeros((6, 2, experiments))
        self._all = np.arange(experiments)

    def add(self, variant: NDArray[np.int64], x: Values, y: Values, value: Values) -> None:
        """One request of each experiment, of a unit that had the count x and the total y before."""
        new = (x == 0).astype(float)
        changes = (new, 1.0, value, 2 * x + 1, 2 * y * value + value**2, (x + 1) * (y + value) - x * y)
        for sums, change in zip(self._sums, changes, strict=True):
            sums[variant, self._all] += change

    def gap(self, *, bounded: bool) -> tuple[Mean, Mean, Mean]:
        """The second variant minus the first, then both."""
        first, second = (mean(Moments(*self._sums[:, side]), bounded=bounded) for side in (0, 1))
        return second - first, second, first

    @property
    def ready(self) -> NDArray[np.bool_]:
        ready: NDArray[np.bool_] = self._sums[0].min(axis=0) >= MIN_UNITS
        return ready


def shown(gap: Mean, r: float) -> NDArray[np.bool_]:
    shows: NDArray[np.bool_] = np.abs(gap.value) > sequences.width(gap.units, ALPHA, r) * gap.variance**0.5
    return shows


def peeked(gap: Mean, a: Mean, b: Mean) -> NDArray[np.bool_]:
    freedom = gap.variance**2 / (a.variance**2 / (a.units - 1) + b.variance**2 / (b.units - 1))
    limit = stats.t.ppf(1 - ALPHA / 2, np.maximum(freedom, 1))
    shows: NDArray[np.bool_] = np.abs(gap.value) > limit * gap.variance**0.5
    return shows


def same(experiments: int) -> None:
    generator = np.random.default_rng(1)
    every = np.arange(experiments)
    rates = generator.beta(8, 8, (experiments, USERS))
    variants = generator.integers(0, 2, (experiments, USERS))
    activity = generator.pareto(1.5, USERS) + 0.2
    counts, totals = np.zeros((experiments, USERS)), np.zeros((experiments, USERS))
    by_user, by_request = Sides(experiments), Sides(experiments)
    nothing = np.zeros(experiments)
    false = {name: np.zeros(experiments, bool) for name in ("Ratchet", "gbstats", "peeked t")}
    for _ in range(REQUESTS):
        user = generator.choice(USERS, experiments, p=activity / activity.sum())
        value = (generator.random(experiments) < rates[every, user]).astype(float)
        variant, x, y = variants[every, user], counts[every, user], totals[every, user]
        by_user.add(variant, x, y, value)
        by_request.add(variant, nothing, nothing, value)
        counts[every, user] += 1
        totals[every, user] += value
        ready = by_user.ready
        false["Ratchet"] |= ready & shown(by_user.gap(bounded=True)[0], OURS)
        false["gbstats"] |= ready & shown(by_user.gap(bounded=False)[0], GBSTATS)
        false["peeked t"] |= ready & peeked(*by_request.gap(bounded=False))
    print(f"\nA/A, {experiments} experiments, {USERS} sticky users, watched at each of {REQUESTS} requests")
    for name, of_name in false.items():
        print(f"  {name:9} {of_name.mean():7.1%} false alarms", flush=True)


def better(experiments: int, gain: float) -> None:
    generator = np.random.default_rng(2)
    nothing, sides = np.zeros(experiments), Sides(experiments)
    first_look = {name: np.full(experiments, np.inf) for name in ("Ratchet", "gbstats", "peeked t")}
    for number in range(1, LONG + 1):
        variant = generator.integers(0, 2, experiments)
        value = (generator.random(experiments) < 0.5 + gain * variant).astype(float)
        sides.add(variant, nothing, nothing, value)
        if number % 10:
            continue
        gap, *both = sides.gap(bounded=False)
        ready = sides.ready
        padded = sides.gap(bounded=True)[0]
        for name, now in (
            ("Ratchet", shown(padded, OURS) & (padded.value > 0)),
            ("gbstats", shown(gap, GBSTATS) & (gap.value > 0)),
            ("peeked t", peeked(gap, *both) & (gap.value > 0)),
        ):
            of_name = first_look[name]
            of_name[ready & now & np.isinf(of_name)] = number
    fixed = 2 * power.fixed_units(gain, 0.5, ALPHA, 0.8)
    sequence = 2 * power.sequential_units(gain, 0.5, ALPHA, 0.8)
    print(
        f"\n+{gain * 100:.0f} points, {experiments} experiments of up to {LONG} requests; the plan for 80 %: {fixed} at"
    )
    print(f"a fixed horizon, {sequence} with a sequence")
    for name, looks in first_look.items():
        median = f"{np.median(looks):.0f}" if np.isfinite(np.median(looks)) else "-"
        print(
            f"  {name:9} {np.isfinite(looks).mean():7.1%} shown, after {median:>6} requests in the median; "
            f"{(looks <= sequence).mean():6.1%} within the plan",
            flush=True,
        )


def agreement() -> None:
    """What the peers compute of the same data, live."""
    theirs = json.loads(subprocess.run([PEERS_PYTHON, peers.__file__], check=True, capture_output=True).stdout)
    (x0, y0, _), (x1, y1, _) = peers.FIRST, peers.SECOND
    first, second = mean(Moments.of(x0, y0)), mean(Moments.of(x1, y1))
    fixed = horizons.welch(second, first, ALPHA)
    sequence = sequences.interval(second - first, ALPHA, GBSTATS)
    passed, n, other, m = peers.PROPORTIONS
    shares = [mean(Moments.of(np.ones(k), np.arange(k) < x), bounded=True) for x, k in ((passed, n), (other, m))]
    half = stats.norm.isf(ALPHA / 2) * sum(one.variance * (one.units + 1) / (one.units + 2) for one in shares) ** 0.5
    centre = (passed + 1) / (n + 2) - (other + 1) / (m + 2)  # theirs; ours is about the shares themselves
    ours = {
        "welch": [*_ends(fixed.difference), fixed.p_value],
        "sequence": [*_ends(sequence), sequences.p_value(second - first, GBSTATS)],
        "proportions": [centre - half, centre + half],
    }
    gaps = [np.max(np.abs(np.subtract(ours[name], theirs[name]))) for name in ours]
    print(f"gbstats and statsmodels on the same data: the largest difference is {max(gaps):.1e}")


def _ends(estimate: Estimate) -> list[float]:
    return [estimate.value, estimate.low, estimate.high]


if __name__ == "__main__":
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 5000
    half = sys.argv[2] if len(sys.argv) > 2 else ""
    agreement()
    with np.errstate(divide="ignore", invalid="ignore"):  # before there are two units
        if half != "better":
            same(number)
        for gain in (0.02, 0.05, 0.10) if half != "same" else ():
            better(max(number // 5, 1), gain)
