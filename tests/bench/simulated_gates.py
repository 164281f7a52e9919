"""Are a comparison's intervals what they say? Simulated gates with a known truth: `simulated_gates.py [GATES]`.

Each line is GATES (1,000) comparisons of two models on 164 problems that are drawn anew each time. A problem's rate of
passing is drawn from Beta(0.8, 1.2); the candidate's is higher by the gain, by more or less from problem to problem
(sd 0.05) and, where there are families of 4, 8 and 12 problems, from family to family (sd 0.1), within 0 and 1.

    passes    how many of them a gate lets pass that asks for a gain: the interval lies above 0
    covers    how many of the 95 % intervals hold the true difference, and how wide they are on average
    t         the same of the ordinary paired t interval, which knows nothing of families
    bootstrap the same of the percentile bootstrap over families (or over problems, where there are none)

Below, how many of the 95 % intervals of pass@k hold the true one; how often somebody gets a candidate through that is
no better, by many gates or by many looks; and how often one passes that is better.
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from eval_service.domain.statistics import Tally, estimate_difference, estimate_pass_at_k
from ratchet_kit.statistics import Estimate
from registry_service.domain.tries import CONFIDENCE, Look, Tries, count_tries, share_of

PROBLEMS = 164
SAMPLES = (1, 4, 32, 100)
GAINS = (0.0, 0.02, 0.05)
RESAMPLES = 500

Rates = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class World:
    """What problems there are, and how much better the candidate is."""

    gain: float
    families: bool

    def draw(self, generator: np.random.Generator, problems: int) -> tuple[Rates, Rates, list[str]]:
        """Rates of baseline and candidate, and the problems' families."""
        baseline = generator.beta(0.8, 1.2, size=problems)
        gains = self.gain + generator.normal(0, 0.05, size=problems)
        names = [""] * problems
        if self.families:
            sizes = np.tile([4, 8, 12], problems // 12)
            numbers = np.repeat(np.arange(len(sizes)), sizes)[:problems]
            gains += generator.normal(0, 0.1, size=len(sizes))[numbers]
            names = [f"family {number}" for number in numbers]
        return baseline, np.clip(baseline + gains, 0, 1), names

    def truth(self) -> float:
        """The mean difference over all problems that may be drawn: what clipping leaves of the gain."""
        baseline, candidate, _ = self.draw(np.random.default_rng(0), 400_000)
        return float((candidate - baseline).mean())


class Score:
    """How often an interval held the truth, lay above 0, and how wide it was."""

    def __init__(self, truth: float) -> None:
        self._truth = truth
        self._rows: list[tuple[bool, bool, float]] = []

    def add(self, interval: Estimate) -> None:
        self._rows.append(
            (interval.low <= self._truth <= interval.high, interval.low > 0, interval.high - interval.low)
        )

    def __str__(self) -> str:
        covers, _, width = np.mean(self._rows, axis=0)
        return f"{covers:7.1%} {width:.3f}"

    @property
    def passes(self) -> float:
        return float(np.mean([row[1] for row in self._rows]))


def paired_t(differences: Rates, families: Sequence[str], generator: np.random.Generator) -> Estimate:
    mean, error = differences.mean(), differences.std(ddof=1) / len(differences) ** 0.5
    half = stats.t.ppf(0.975, len(differences) - 1) * error
    return Estimate(mean, mean - half, mean + half)


def cluster_bootstrap(differences: Rates, families: Sequence[str], generator: np.random.Generator) -> Estimate:
    numbers = np.unique(families, return_inverse=True)[1] if families[0] else np.arange(len(differences))
    sums, sizes = np.bincount(numbers, weights=differences), np.bincount(numbers)
    drawn = generator.integers(0, len(sums), size=(RESAMPLES, len(sums)))
    means = sums[drawn].sum(1) / sizes[drawn].sum(1)
    low, high = np.quantile(means, [0.025, 0.975])
    return Estimate(float(differences.mean()), low, high)


PEERS: dict[str, Callable[[Rates, Sequence[str], np.random.Generator], Estimate]] = {
    "t": paired_t,
    "bootstrap": cluster_bootstrap,
}


def differences(gates: int) -> None:
    print(f"{gates} simulated gates a line; 95 % intervals of a difference in pass@1 over {PROBLEMS} problems")
    print("                          |        |     Ratchet     |    paired t     | cluster bootstrap")
    print("families  samples   gain  | passes |  covers  width  |  covers  width  |  covers  width")
    for families in (False, True):
        for samples in SAMPLES:
            for gain in GAINS:
                world = World(gain, families)
                ours, peers, truth = _simulate(world, samples, gates)
                print(
                    f"{'yes' if families else 'no':8} {samples:8} {truth:+8.3f} | {ours.passes:6.1%} | {ours}   | "
                    + "   | ".join(str(peer) for peer in peers.values()),
                    flush=True,
                )


def _simulate(world: World, samples: int, gates: int) -> tuple[Score, dict[str, Score], float]:
    generator, truth = np.random.default_rng(samples), world.truth()
    ours, peers = Score(truth), {name: Score(truth) for name in PEERS}
    for _ in range(gates):
        before, after, names = world.draw(generator, PROBLEMS)
        old, new = generator.binomial(samples, before), generator.binomial(samples, after)
        ours.add(
            estimate_difference(
                [Tally(samples, int(passed), name) for passed, name in zip(new, names, strict=True)],
                [Tally(samples, int(passed), name) for passed, name in zip(old, names, strict=True)],
            )
        )
        for name, interval in PEERS.items():
            peers[name].add(interval((new - old) / samples, names, generator))
    return ours, peers, truth


def pass_at_k(rounds: int) -> None:
    print(f"\n{rounds} simulated evaluations a line: how many 95 % intervals of pass@k hold the true one")
    print("rates of problems    problems  samples " + "".join(f"  pass@{k:<4}" for k in (1, 5, 10, 100)))
    for name, (a, b) in {"Beta(2, 2)": (2, 2), "Beta(0.3, 3)": (0.3, 3), "Beta(0.1, 0.1)": (0.1, 0.1)}.items():
        many = np.random.default_rng(0).beta(a, b, size=1_000_000)
        for problems, samples in ((164, 1), (50, 10), (164, 10), (164, 200), (500, 20)):
            generator, hits = np.random.default_rng(problems), Counter[int]()
            truths = {k: float((1 - (1 - many) ** k).mean()) for k in (1, 5, 10, 100) if k <= samples}
            for _ in range(rounds):
                passed = generator.binomial(samples, generator.beta(a, b, size=problems))
                tallies = [Tally(samples, int(count)) for count in passed]
                for k, truth in truths.items():
                    estimate = estimate_pass_at_k(tallies, k)
                    hits[k] += estimate.low <= truth <= estimate.high
            shown = "".join(f"{hits[k] / rounds:10.1%}" if k in truths else f"{'-':>10}" for k in (1, 5, 10, 100))
            print(f"{name:20} {problems:8} {samples:8} {shown}", flush=True)


# Schemes: what somebody may do who wants a candidate to pass that is no better. Each gives every comparison that is
# gated: the candidate's tallies, the champion's, and the registry's confidence.

Gated = tuple[list[Tally], list[Tally], float]
START = datetime(2026, 1, 1, tzinfo=UTC)


class Models:
    """Models that are equally good over all problems, and better or worse from problem to problem (sd 0.05)."""

    def __init__(self, generator: np.random.Generator, problems: int = PROBLEMS, samples: int = 4) -> None:
        self._generator = generator
        self._rates = generator.beta(0.8, 1.2, size=problems)
        self._samples = samples
        self._known: dict[str, Rates] = {}
        self.looks: list[Look] = []

    def measure(self, policy: str, setup: str = "", problems: int | None = None) -> tuple[Look, list[Tally]]:
        """Evaluates it on the first so many problems; the weights "champion" are the champion's."""
        noise = self._generator.normal(0, 0.05, size=len(self._rates))
        rates = self._known.setdefault(policy, np.clip(self._rates + noise, 0, 1))
        passed = self._generator.binomial(self._samples, rates[:problems])
        number = len(self.looks)
        id, time = f"eval_{number}", START + timedelta(minutes=number)
        look = Look(id, "starter", policy, time, setup, id, problems or len(self._rates))
        self.looks.append(look)
        return look, [Tally(self._samples, int(count)) for count in passed]

    def confidence(self, candidate: Look, champion: Look, sets: int = 1, *, target: bool = False) -> float:
        looks = [replace(one, problems=min(one.problems, candidate.problems)) for one in self.looks]
        ids = (candidate.evaluation_id, champion.evaluation_id)
        tries = count_tries("starter", *ids, "champion", lambda measured: START, looks)
        return tries.confidence(share_of(sets, target=target))


def one_after_another(generator: np.random.Generator) -> Iterator[Gated]:
    models = Models(generator)
    base, old = models.measure("champion")
    for number in range(20):
        look, new = models.measure(f"candidate {number}")
        yield new, old, models.confidence(look, base)


def best_of_20(generator: np.random.Generator) -> Iterator[Gated]:
    models = Models(generator)
    base, old = models.measure("champion")
    measured = [models.measure(f"candidate {number}") for number in range(20)]
    look, new = max(measured, key=lambda one: sum(tally.passed for tally in one[1]))
    yield new, old, models.confidence(look, base)


def best_of_20_seeds(generator: np.random.Generator) -> Iterator[Gated]:
    """Of the candidate, against the worst of 20 of the champion."""
    models = Models(generator)
    olds = [models.measure("champion") for _ in range(20)]
    news = [models.measure("candidate") for _ in range(20)]
    base, old = min(olds, key=lambda one: sum(tally.passed for tally in one[1]))
    look, new = max(news, key=lambda one: sum(tally.passed for tally in one[1]))
    yield new, old, models.confidence(look, base)


def one_problem_less(generator: np.random.Generator) -> Iterator[Gated]:
    models = Models(generator, 300)
    for limit in range(300, 280, -1):
        base, old = models.measure("champion", str(limit), limit)
        look, new = models.measure("candidate", str(limit), limit)
        yield new, old, models.confidence(look, base)


def each_set_in_turn(generator: np.random.Generator) -> Iterator[Gated]:
    """One pair of evaluations of 10 sets of 60 problems, gated on each and on the whole."""
    models = Models(generator, 600)
    (base, old), (look, new) = models.measure("champion"), models.measure("candidate")
    yield new, old, models.confidence(look, base, 10)
    for start in range(0, 600, 60):
        part = slice(start, start + 60)
        yield new[part], old[part], models.confidence(look, base, 10, target=True)


SCHEMES = {
    "20 candidates, each gated": one_after_another,
    "20 candidates, the best one gated": best_of_20,
    "20 seeds of one, the best against the champion's worst of 20": best_of_20_seeds,
    "20 gates with one problem less each time (300 ... 281)": one_problem_less,
    "10 sets in one evaluation, gated on each and on the whole": each_set_in_turn,
}


def passes(scheme: Callable[[np.random.Generator], Iterator[Gated]], rounds: int, *, paid: bool = True) -> float:
    """How often a candidate that is no better passes at least once; not `paid`: where each gate was at 95 %."""
    generator = np.random.default_rng(1)
    hits = 0
    for _ in range(rounds):
        gated = list(scheme(generator))
        hits += any(estimate_difference(new, old, sure if paid else CONFIDENCE).low > 0 for new, old, sure in gated)
    return hits / rounds


def schemes(rounds: int) -> None:
    print(f"\n{rounds} times each: candidates that are no better; how often one passes, 4 samples a problem")
    print(f"{'scheme':62} always at 95 %  what was looked at paid for")
    for name, scheme in SCHEMES.items():
        always, paid = passes(scheme, rounds, paid=False), passes(scheme, rounds)
        print(f"{name:62} {always:14.1%}  {paid:27.1%}", flush=True)


def power(rounds: int) -> None:
    print(f"\n{rounds} times each: a candidate that is better by 0.03, {PROBLEMS} problems x 32; how often it passes")
    print("it was looked at as the     1st     2nd     3rd     5th    10th    20th")
    shown = {"on one set": 1.0, "on the whole of several sets": 0.5, "on the target, of two sets": 0.25}
    generator = np.random.default_rng(2)
    pairs = []
    for _ in range(rounds):
        rates = generator.uniform(size=PROBLEMS)
        old, new = generator.binomial(32, rates), generator.binomial(32, np.clip(rates + 0.03, 0, 1))
        pairs.append(([Tally(32, int(count)) for count in new], [Tally(32, int(count)) for count in old]))
    for name, share in shown.items():
        found = [Tries(number - 1, number).confidence(share) for number in (1, 2, 3, 5, 10, 20)]
        rates_of = [np.mean([estimate_difference(new, old, sure).low > 0 for new, old in pairs]) for sure in found]
        print(f"{name:28}" + "".join(f"{rate:6.1%}  " for rate in rates_of), flush=True)


if __name__ == "__main__":
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    differences(number)
    pass_at_k(number)
    schemes(number)
    power(number)
