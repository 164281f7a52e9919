"""Are a comparison's intervals what they say? Simulated gates with a known truth: `simulated_gates.py [GATES]`.

Each line is GATES (1,000) comparisons of two models on 164 problems that are drawn anew each time. A problem's rate of
passing is drawn from Beta(0.8, 1.2); the candidate's is higher by the gain, by more or less from problem to problem
(sd 0.05) and, where there are families of 4, 8 and 12 problems, from family to family (sd 0.1), within 0 and 1.

    passes    how many of them a gate lets pass that asks for a gain: the interval lies above 0
    covers    how many of the 95 % intervals hold the true difference, and how wide they are on average
    t         the same of the ordinary paired t interval, which knows nothing of families
    bootstrap the same of the percentile bootstrap over families (or over problems, where there are none)

Below, how many of the 95 % intervals of pass@k hold the true one. And how many candidates that are no better pass when
they are gated again and again on the same problems, by the first gate's confidence and by that of each try.
"""

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from eval_service.domain.statistics import Tally, estimate_difference, estimate_pass_at_k
from ratchet_kit.statistics import Estimate
from registry_service.domain.evidence import confidence_of

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


def tries(rounds: int, samples: int = 4) -> None:
    print(
        f"\n{rounds} models no better than the champion, each gated until it passes on {PROBLEMS} problems x {samples}"
    )
    print("tries  always at 95 %  each try paid for")
    generator, numbers = np.random.default_rng(1), (1, 2, 5, 20)
    passed = {(paid, number): 0 for paid in (False, True) for number in numbers}
    for _ in range(rounds):
        rates = generator.beta(0.8, 1.2, size=PROBLEMS)
        old = [Tally(samples, int(count)) for count in generator.binomial(samples, rates)]
        at = {False: max(numbers) + 1, True: max(numbers) + 1}
        for number in range(1, max(numbers) + 1):
            new = [Tally(samples, int(count)) for count in generator.binomial(samples, rates)]
            for paid in at:
                if estimate_difference(new, old, confidence_of(number if paid else 1)).low > 0:
                    at[paid] = min(at[paid], number)
        for paid, number in passed:
            passed[paid, number] += at[paid] <= number
    for number in numbers:
        print(f"{number:5}  {passed[False, number] / rounds:14.1%}  {passed[True, number] / rounds:16.1%}", flush=True)


if __name__ == "__main__":
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    differences(number)
    pass_at_k(number)
    tries(number)
