"""Do the experiments' sequences do what they say? Simulated experiments: `simulated_experiments.py
[EXPERIMENTS] [same | better | said]`, the second to see one part only.

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

Said: what reports say of versions that do not answer, of users who fail wholly, of a few users with most requests, of a
small variant; the power of what was planned; and looks after a fixed horizon. A tenth of the experiments, or fewer.
"""

import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from gateway_service.domain.experiments.analysis import Evidence, analyse
from gateway_service.domain.experiments.experiment import LEFT, Experiment, ExperimentSpec, Metric, Variant
from gateway_service.domain.experiments.plan import PlanRequest, plan
from gateway_service.domain.experiments.report import Comparison
from gateway_service.domain.statistics import horizons, power, sequences
from gateway_service.domain.statistics.conclusions import Standing
from gateway_service.domain.statistics.moments import MIN_UNITS, Mean, Moments, mean
from gateway_service.domain.traffic.measure import Measure
from gateway_service.domain.traffic.sample import UnitCount
from ratchet_kit.names import VersionRef
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

NOW = datetime(2026, 1, 1, tzinfo=UTC)
VARIANTS = tuple(
    Variant(name, VersionRef("starter", number)) for number, name in enumerate(("control", "treatment"), start=1)
)
TOKENS = Metric(Measure.TOKENS)

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


def report_of(
    spec: ExperimentSpec, control: Mapping[Metric, Moments], treatment: Mapping[Metric, Moments]
) -> Sequence[Comparison]:
    """Of two variants; whose callers never leave, where nothing is said of it."""
    moments: dict[Metric, dict[str, Moments]] = {}
    for metric in dict.fromkeys((*spec.metrics, *spec.unanswered)):
        of_both = {"control": control.get(metric), "treatment": treatment.get(metric)}
        some = {"control": control[spec.primary], "treatment": treatment[spec.primary]}
        nobody = {name: Moments.of(np.ones(one.units), np.zeros(one.units)) for name, one in some.items()}
        moments[metric] = {name: one or nobody[name] for name, one in of_both.items()}
    counts = {name: UnitCount(one.units, int(one.x)) for name, one in moments[LEFT].items()}
    experiment = Experiment("exp", spec, NOW).start(NOW)
    return analyse(experiment, Evidence(counts, moments, {}, {}), NOW + timedelta(days=30)).comparisons


def unanswered(experiments: int) -> None:
    """Answers are of lognormal length (sigma 1), in both variants alike; the treatment hangs instead of the longest."""
    generator, units = np.random.default_rng(3), 3_000
    print(f"\nthe treatment does not answer where it would be long, {experiments} experiments of {units} users each")
    for share in (0.01, 0.05, 0.4):
        false = worse = 0
        spec = ExperimentSpec(VARIANTS, TOKENS)
        for _ in range(experiments):
            lengths = np.exp(generator.normal(size=(2, units)))
            left = lengths[1] > np.exp(stats.norm.isf(share))
            said = set()
            for n in range(100, units + 1, 100):
                answers = [lengths[0, :n], lengths[1, :n][~left[:n]]]
                sides = [{TOKENS: Moments.of(np.ones(len(one)), one)} for one in answers]
                sides[0][LEFT] = Moments.of(np.ones(n), np.zeros(n))
                sides[1][LEFT] = Moments.of(np.ones(n), left[:n])
                found = report_of(spec, *sides)
                said |= {(one.measure, one.standing) for one in found}
            false += (Measure.TOKENS, Standing.BETTER) in said
            worse += (Measure.LEFT, Standing.WORSE) in said
        print(f"  {share:4.0%} left: {false / experiments:6.1%} ever 'better in tokens', ", end="")
        print(f"{worse / experiments:6.1%} 'worse in callers who left'", flush=True)


def no_difference(experiments: int) -> None:
    """Some of the treatment's users fail in all their requests, none of the control's."""
    generator, spec = np.random.default_rng(4), ExperimentSpec(VARIANTS, Metric(Measure.ERROR_RATE, 0.02))
    print(f"\n'no difference worth waiting for' by 2 points of errors, {experiments} experiments")
    for users, failing in ((30, 0.04), (100, 0.04), (200, 0.04), (900, 0.0)):
        row = []
        for size in (1, 10, 100):
            sizes, said = np.full(users, float(size)), 0
            for _ in range(experiments):
                fail = sizes * (generator.random(users) < failing)
                sides = ({spec.primary: Moments.of(sizes, y)} for y in (np.zeros(users), fail))
                said += report_of(spec, *sides)[0].standing is Standing.NO_DIFFERENCE
            row.append(f"{said / experiments:6.1%}")
        print(
            f"  {users:4} users a variant, {failing:3.0%} fail: {', '.join(row)} with 1, 10, 100 requests each",
            flush=True,
        )


def luck(experiments: int) -> None:
    """Both variants are the same: looked at after each 20 units a variant."""
    generator = np.random.default_rng(5)
    spec = ExperimentSpec(VARIANTS, Metric(Measure.LATENCY))

    def ever(ratio: int, draw: Callable[[int], tuple[Values, Values]]) -> float:
        shown = 0
        for _ in range(experiments):
            sides = [draw(500 * ratio), draw(500)]
            for n in range(20, 501, 20):
                both = (Moments.of(x[: n * k], y[: n * k]) for (x, y), k in zip(sides, (ratio, 1), strict=True))
                found = report_of(spec, *({spec.primary: one} for one in both))[0]
                if found.standing in (Standing.BETTER, Standing.WORSE):
                    shown += 1
                    break
        return shown / experiments

    def large(n: int) -> tuple[Values, Values]:
        x = np.where(generator.random(n) < 0.01, 1000.0, 1.0)
        return x, x * generator.gamma(4, 0.5, n)

    def pareto(n: int) -> tuple[Values, Values]:
        x: Values = np.floor(generator.pareto(1.2, n) + 1)
        return x, x * generator.gamma(4, 0.5, n)

    def skewed(n: int) -> tuple[Values, Values]:
        x, y = np.ones(n), np.where(generator.random(n) < 0.05, 30.0, 1.0)
        return np.asarray(x, float), np.asarray(y, float)

    print(f"\nfalse alarms where a few units could decide, {experiments} A/A experiments")
    print(f"  one user in 100 asks 1,000 times as often: {ever(1, large):6.1%}")
    print(f"  requests of a user as Pareto(1.2):         {ever(1, pareto):6.1%}")
    print(f"  one unit in 20 has 30 times the value:     {ever(1, skewed):6.1%}, ", end="")
    print(f"with weights of 10 to 1 {ever(10, skewed):6.1%}", flush=True)


def planned(experiments: int) -> None:
    generator, effect = np.random.default_rng(6), 0.1
    print(f"\npower of what is planned for 80 %, effect of {effect} sd, {experiments} experiments")
    for guardrails in (0, 2, 5, 10):
        found = plan(PlanRequest("starter", Measure.TOKENS, effect, guardrails=guardrails), 1.0, 1.0)
        level = ALPHA / (guardrails + 2)  # the first of Holm's: with who left
        n = found.fixed_units // 2
        one, other = generator.normal([[0.0]] * 2, n**-0.5, (2, experiments))
        fixed = [
            horizons.welch(Mean(b + effect, 1 / n, n), Mean(a, 1 / n, n), level).p_value
            for a, b in zip(one, other, strict=True)
        ]
        looks = np.linspace(40, found.sequential_units, 200).astype(int)
        steps = np.diff(looks, prepend=0) ** 0.5 * generator.normal(size=(experiments, len(looks)))
        gaps = effect + 2 * steps.cumsum(axis=1) / looks
        r = sequences.mixture(found.sequential_units, level)
        limits = np.array([sequences.width(units, level, r) * 2 / units**0.5 for units in looks])
        of_fixed = np.mean(np.array(fixed) <= level)
        print(f"  {guardrails:2} guardrails: fixed {of_fixed:6.1%} of {found.fixed_units} units, ", end="")
        print(f"sequence {(np.abs(gaps) > limits).any(axis=1).mean():6.1%} of {found.sequential_units}", flush=True)


def horizon(experiments: int) -> None:
    """500 units a variant, which then come to be 10,000 and are looked at each 250."""
    generator, ever, step = np.random.default_rng(7), np.zeros(experiments, bool), 250
    sums, squares = np.zeros((2, 2, experiments))
    for n in range(step, 10_001, step):
        of_step = generator.normal(0, step**0.5, (2, experiments))
        sums += of_step
        squares += generator.chisquare(step - 1, (2, experiments)) + of_step**2 / step
        if n < 500:
            continue
        sides = [(y / n, (yy / n - (y / n) ** 2) / (n - 1)) for y, yy in zip(sums, squares, strict=True)]
        (a, va), (b, vb) = sides
        pairs = zip(a, va, b, vb, strict=True)
        found = [horizons.welch(Mean(x, v, n), Mean(y, w, n), ALPHA).p_value for x, v, y, w in pairs]
        now = np.array(found) <= ALPHA
        ever |= now
        if n == 500:
            print(f"\nA/A, a fixed horizon of 500 units a variant: {now.mean():.1%} false alarms, whoever looks later;")
    print(f"a test that decides at each look, each 250 units until 10,000: {ever.mean():.1%} of {experiments}")


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
    if half != "said":
        agreement()
    with np.errstate(divide="ignore", invalid="ignore"):  # before there are two units
        if half in ("", "same"):
            same(number)
        for gain in (0.02, 0.05, 0.10) if half in ("", "better") else ():
            better(max(number // 5, 1), gain)
    if half in ("", "said"):
        unanswered(max(number // 50, 1))
        no_difference(max(number // 10, 1))
        luck(max(number // 25, 1))
        planned(number)
        horizon(number)
