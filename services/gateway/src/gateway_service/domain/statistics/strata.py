"""The difference of two arms, compared within strata and combined over them: what changes from one stratum to the next
(questions that get harder, another share of traffic) is in both arms of each, so it is no difference.

Cochran, Some methods for strengthening the common chi-squared tests, Biometrics 10 (1954); Mantel and Haenszel, JNCI 22
(1959): the strata are weighted by n m / (n + m), of the units in their arms. Units come again in other strata, and may
be in another arm there, so the variance is over units, by the delta method: each unit's part in the whole difference.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from gateway_service.domain.statistics.moments import (
    MIN_UNITS,
    ROUNDING,
    Mean,
    Moments,
    Products,
    covariance,
    mean,
    padded,
)


class Cell(NamedTuple):
    """An arm in a stratum."""

    stratum: int
    arm: str


@dataclass(frozen=True, slots=True)
class Strata:
    """Sums over the units of each cell, and of each pair of cells over the units that are in both, once a pair."""

    cells: Mapping[Cell, Moments] = field(default_factory=dict)
    shared: Mapping[tuple[Cell, Cell], Products] = field(default_factory=dict)

    def number(self, arm: str) -> int:
        """How many values an arm has, in all strata."""
        return int(sum(moments.x for cell, moments in self.cells.items() if cell.arm == arm))

    def between(self, first: int, end: int) -> "Strata":
        """The strata from `first` on, and before `end`."""
        cells = {cell: moments for cell, moments in self.cells.items() if first <= cell.stratum < end}
        shared = {pair: products for pair, products in self.shared.items() if cells.keys() >= set(pair)}
        return Strata(cells, shared)


NO_STRATA = Strata()


def difference(strata: Strata, one: str, other: str, *, cautious: bool = False) -> Mean | None:
    """The one arm minus the other, of values in [0, 1]. A stratum in which an arm has fewer than MIN_UNITS units adds
    nothing; None where all are so. `cautious`: as `mean` has it.

    Its units are as many as would give this variance if each came once, counted as if the other arm were known.
    """
    weights: dict[int, float] = {}
    for stratum in sorted({cell.stratum for cell in strata.cells}):
        n, m = (strata.cells.get(Cell(stratum, arm), Moments()).units for arm in (one, other))
        if min(n, m) >= MIN_UNITS:
            weights[stratum] = n * m / (n + m)
    if not weights:
        return None
    total = sum(weights.values())
    parts = {
        Cell(stratum, arm): sign * weight / total
        for stratum, weight in weights.items()
        for arm, sign in ((one, 1), (other, -1))
    }
    means = {cell: mean(strata.cells[cell], bounded=True, cautious=cautious) for cell in parts}
    full = {cell: padded(strata.cells[cell], cautious) for cell in parts}
    apart = sum(part**2 * means[cell].variance for cell, part in parts.items())
    together = sum(
        2 * parts[a] * parts[b] * covariance(full[a], full[b], products)
        for (a, b), products in strata.shared.items()
        if a in parts and b in parts
    )
    variance = max(apart + together, ROUNDING * apart)
    value = sum(part * means[cell].value for cell, part in parts.items())
    return Mean(value, variance, total * apart / variance)
