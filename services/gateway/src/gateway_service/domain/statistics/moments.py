"""The mean of a metric over units, and how uncertain it is, from sums over the units.

A unit is what was assigned to a variant: a user, say. Its requests are not independent of each other, so all variances
are over units. A metric is a ratio of two totals (the sum of scores, by the number of scored answers): its variance is
that of the delta method (Deng, Knoblich, Lu: Applying the delta method in metric analytics, KDD 2018, section 3.1).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

MIN_UNITS = 20
"""Minimum of effective units of a variant: fewer prove nothing, since the intervals are valid for many units."""
SHARED_UNITS = 100
"""With the spread of all variants, that are added to each: a smaller one whose units agree may have had no luck yet."""
FEW = 0.2
"""Kish's effective units, as a share of the units, below which few units have most of the requests: 0.01 where one in
100 asks 1,000 times as often, 0.37 where sizes are lognormal with sd 1."""
ROUNDING = 1e-12
"""Share of a number that rounding may leave."""


@dataclass(frozen=True, slots=True)
class Before:
    """Sums over the units that have a mean, `c`, from before the experiment. For CUPED."""

    units: int = 0
    x: float = 0.0
    y: float = 0.0
    c: float = 0.0
    cc: float = 0.0
    xc: float = 0.0
    yc: float = 0.0


NOTHING_BEFORE = Before()


@dataclass(frozen=True, slots=True)
class Moments:
    """Sums over the units of a variant, each with a total `y` of `x` values; `yy` is the sum of the squares of y.

    All that is known of a metric, however many requests and units there were.
    """

    units: int = 0
    x: float = 0.0
    y: float = 0.0
    xx: float = 0.0
    yy: float = 0.0
    xy: float = 0.0
    before: Before = NOTHING_BEFORE

    @property
    def effective_units(self) -> float:
        """Units of one size that say as much: where one has most of the values, it is about one (Kish, Survey Sampling,
        1965, section 8.2)."""
        return self.x * self.x / self.xx if self.xx else 0.0

    @classmethod
    def of(cls, x: ArrayLike, y: ArrayLike, before: ArrayLike = ()) -> "Moments":
        """From each unit's count and total; `before`: their means from before, NaN for units without one."""
        counts, totals = np.asarray(x, float), np.asarray(y, float)
        means = np.asarray(before, float) if np.size(before) else np.full(counts.shape, np.nan)
        known = ~np.isnan(means)
        c, kx, ky = means[known], counts[known], totals[known]
        return cls(
            len(counts),
            counts.sum(),
            totals.sum(),
            (counts**2).sum(),
            (totals**2).sum(),
            (counts * totals).sum(),
            Before(len(c), kx.sum(), ky.sum(), c.sum(), (c**2).sum(), (kx * c).sum(), (ky * c).sum()),
        )


@dataclass(frozen=True, slots=True)
class Products:
    """Sums over the units that two variants share, of products of the one's `x` or `y` and the other's: `xy` is of the
    one's counts and the other's totals."""

    units: int = 0
    xx: float = 0.0
    xy: float = 0.0
    yx: float = 0.0
    yy: float = 0.0


@dataclass(frozen=True, slots=True)
class Mean:
    """An estimate of `units` units, and the variance of the estimate itself (the square of its standard error)."""

    value: float
    variance: float
    units: float

    def __sub__(self, other: "Mean") -> "Mean":
        """The difference of two variants that share no unit, so the variances add up; else `paired`."""
        return Mean(self.value - other.value, self.variance + other.variance, self.units + other.units)


def mean(moments: Moments, *, bounded: bool = False, cautious: bool = False) -> Mean:
    """The ratio of the totals. `moments` may also hold arrays, of many experiments at once.

    Units that all agree do not say what one that was not seen yet would be. `bounded`: values are in [0, 1]; the
    variance is then that with one unit more whose values are all 0 and one whose values are all 1, each of the average
    size, so that it is not 0 where no error was seen yet (after Agresti and Caffo, The American Statistician 54, 2000).
    Where few ask most (FEW), each is as large as the unit of a request that is drawn by chance: so may be who was not
    seen yet. `cautious`: two of each (Agresti and Coull, the same journal 52, 1998), so large always: to rule something
    out.
    Of other values it is at least what two units make among those that agree, one of 0 and one of twice the mean.
    """
    if bounded:
        return replace(ratio(padded(moments, cautious)), value=moments.y / moments.x, units=moments.units)
    found = ratio(moments)
    return replace(found, variance=np.maximum(found.variance, _least(found.value, moments.units)))


def ratio(moments: Moments) -> Mean:
    """Ratio of the totals, with its variance by the delta method alone."""
    m, value = moments, moments.y / moments.x
    squares = np.maximum(m.yy - 2 * value * m.xy + value * value * m.xx, 0.0)
    return Mean(value, m.units / (m.units - 1) * squares / (m.x * m.x), m.units)


def _least(value: float, units: float) -> float:
    """The variance of a mean of `units` units of which all agree but two, which are as far from them as 0 is."""
    return 2 * value * value / units / (units - 1)


def paired(one: Moments, other: Moments, shared: Products, *, bounded: bool = False) -> Mean:
    """The difference of two variants that answered the same units: what a unit does to both is taken out of the
    variance, 2 Cov(one, other), again by the delta method. Units of one variant alone add none.

    `bounded`: the variance is that with half a unit more of each pair of 0 and 1, which is what `mean` adds to either
    (Agresti and Min, Simple improved confidence intervals for comparing matched proportions, Statistics in Medicine 24,
    2005): it is not 0 where the two never differed yet. Of other values it is at least what two units make among those
    that differ by the same: one that does not, and one that does twice; where none does, one that is 0 in either.
    """
    a, b = mean(one, bounded=bounded), mean(other, bounded=bounded)
    if bounded:
        size = _size(one) * _size(other)
        one, other = padded(one), padded(other)
        shared = Products(
            shared.units + 2,
            shared.xx + 2 * size,
            shared.xy + size,
            shared.yx + size,
            shared.yy + size / 2,
        )
    p, q = one.y / one.x, other.y / other.x
    together = shared.yy - q * shared.yx - p * shared.xy + p * q * shared.xx
    covariance = shared.units / (shared.units - 1) * together / (one.x * other.x)
    apart = a.variance + b.variance
    gap, variance = a.value - b.value, apart - 2 * covariance
    if bounded:
        return Mean(gap, max(variance, ROUNDING * apart), shared.units - 2)
    of_both = (abs(a.value) + abs(b.value)) / 2
    is_same = abs(gap) <= ROUNDING * of_both and variance <= ROUNDING * apart
    return Mean(gap, max(variance, _least(of_both if is_same else gap, shared.units)), shared.units)


def covariance(one: Moments, other: Moments, shared: Products) -> float:
    """Covariance of the ratios of two samples that share units, by the delta method. If variances are `bounded`, both
    samples are `padded`, too; the units that are added are of one sample alone."""
    p, q = one.y / one.x, other.y / other.x
    return (shared.yy - q * shared.yx - p * shared.xy + p * q * shared.xx) / (one.x * other.x)


def adjusted(variants: Sequence[Moments], *, bounded: bool = False) -> Sequence[Mean]:
    """The means with what units did before the experiment taken out of them (CUPED).

    Deng, Xu, Kohavi, Walker: Improving the sensitivity of online controlled experiments by utilizing pre-experiment
    data, WSDM 2013, of a ratio's linearized values; one coefficient for all variants, and a unit without a past counts
    as an average one. Where a variant has too few units with a past, the plain means.
    """
    plain = [mean(moments, bounded=bounded) for moments in variants]
    if not variants or min(moments.before.units for moments in variants) < MIN_UNITS:
        return plain
    average = sum(m.before.c for m in variants) / sum(m.before.units for m in variants)
    pasts = [_past(moments, average) for moments in variants]
    spread = sum(past.spread for past in pasts)
    if spread <= 0:
        return plain
    slope = sum(past.common for past in pasts) / spread
    return [
        Mean(
            one.value - slope * past.mean,
            max(
                one.variance + _per_unit(slope * slope * past.spread - 2 * slope * past.common, moments.units),
                0.0 if bounded else _least(one.value, moments.units),
            ),
            one.units,
        )
        for one, past, moments in zip(plain, pasts, variants, strict=True)
    ]


def of_one_spread(means: Sequence[Mean]) -> Sequence[Mean]:
    """Each with a variance that is at least that with SHARED_UNITS units more that spread as those of all variants do:
    20 units beside 1,000, in which one of 20 has a value that is far off, may have none, and would be certain of it."""
    spread = sum(one.units**2 * one.variance for one in means) / sum(one.units for one in means) if means else 0.0
    return [
        replace(
            one,
            variance=max(
                one.variance,
                (one.units**2 * one.variance + SHARED_UNITS * spread) / (one.units + SHARED_UNITS) / one.units,
            ),
        )
        for one in means
    ]


@dataclass(frozen=True, slots=True)
class _Past:
    """The units' centred means from before: their mean, their sum of squares about it, and that with the metric."""

    mean: float
    spread: float
    common: float


def _past(moments: Moments, average: float) -> _Past:
    before, n = moments.before, moments.units
    ratio = moments.y / moments.x
    total = before.c - before.units * average
    squares = before.cc - 2 * average * before.c + before.units * average * average
    products = before.yc - average * before.y - ratio * (before.xc - average * before.x)
    return _Past(total / n, squares - total * total / n, products / (moments.x / n))


def _per_unit(squares: float, units: float) -> float:
    return squares / (units - 1) / units


def padded(m: Moments, cautious: bool = False) -> Moments:
    """With units more that are all 0, and as many that are all 1, as `mean` adds them: requests of one unit are one
    surprise."""
    number, size = 2 if cautious else 1, _size(m, cautious)
    x, xx = number * size, number * size**2
    return Moments(m.units + 2 * number, m.x + 2 * x, m.y + x, m.xx + 2 * xx, m.yy + xx, m.xy + xx)


def _size(m: Moments, cautious: bool = False) -> float:
    """Size of a unit that is added: see `mean`."""
    few_ask_most = cautious | (m.x * m.x < FEW * m.units * m.xx)
    size: Any = np.where(few_ask_most, m.xx / m.x, m.x / m.units)
    return size  # type: ignore[no-any-return]
