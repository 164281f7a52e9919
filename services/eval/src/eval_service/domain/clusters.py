"""A mean over problems of which some are of one family, and how sure it is.

Problems of one family (one structure, one source) say less than as many that have nothing in common, so families are
what is counted: the variance is robust to any correlation within a family.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

Values = NDArray[np.float64]


class Clusters:
    """Which problems are of one family. An empty family is a problem that stands alone."""

    def __init__(self, families: Sequence[str]) -> None:
        """One for each problem, in the problems' order. Asks for at least one."""
        names = [family or index for index, family in enumerate(families)]
        numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
        self._of = np.array([numbers[name] for name in names])
        self._sizes = np.bincount(self._of).astype(float)
        self.problems = len(names)
        self.count = len(numbers)

    def sums(self, values: Values) -> Values:
        """The sum of each family's values."""
        return np.bincount(self._of, weights=values, minlength=self.count).astype(np.float64)

    def square(self, residuals: Values) -> float:
        """The sum of squares of the residuals of a mean; divided by m (m - 1), it is the variance of the mean of m.

        Without families it is just that. With them it is the estimator "CR2" of Bell and McCaffrey 2002, "Bias
        Reduction in Standard Errors for Linear Regression with Multi-Stage Samples", for a mean: the square of each
        family's sum, divided by 1 - n/m for a family of n. 0 when there is one family alone, which says nothing.
        """
        if self.count == 1:
            return 0.0
        share = self._sizes / self.problems
        return float((self.sums(residuals) ** 2 / (1 - share)).sum() * (1 - 1 / self.problems))

    @property
    def degrees(self) -> float:
        """Degrees of freedom of that variance: Satterthwaite's, for residuals of equal variance (Bell and McCaffrey
        2002). m - 1 without families; for families of one size their number less 1; less where sizes differ."""
        if self.count == 1:
            return 0.0
        share = self._sizes / self.problems
        # Each family's term is a square of a normal variable; these are the variables' variances and covariances.
        scaled = share / (1 - share)
        crossed = float((share**2 / (1 - share)).sum()) ** 2 - float((share**4 / (1 - share) ** 2).sum())
        variances = scaled * (1 - share)
        return float(variances.sum() ** 2 / ((variances**2).sum() + crossed))


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean with the variance of it, and the degrees of freedom of that variance."""

    value: float
    variance: float
    degrees: float

    @classmethod
    def of(cls, values: Values, clusters: Clusters) -> "Mean":
        """Asks for two families or more."""
        mean, problems = float(values.mean()), clusters.problems
        return cls(mean, clusters.square(values - mean) / problems / (problems - 1), clusters.degrees)


def t_quantile(degrees: float, confidence: float) -> float:
    """So many standard errors to either side hold `confidence` of Student's distribution."""
    return float(stdtrit(degrees, (1 + confidence) / 2))
