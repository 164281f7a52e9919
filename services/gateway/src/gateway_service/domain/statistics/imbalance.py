"""The alarm for a sample ratio that is not the one asked for: assignment or recording is broken then, and no other
number can be believed (Fabijan et al., Diagnosing sample ratio mismatch in online controlled experiments, KDD 2019)."""

from collections.abc import Sequence

import numpy as np
from scipy import special

ALARM = 0.001
"""The p-value below which it rings: in one of a thousand experiments with nothing wrong, however often looked at."""
CONCENTRATION = 100.0
"""Concentration of the Dirichlet prior about the requested shares: the higher, the nearer to them it looks."""


def sample_ratio(counts: Sequence[float], weights: Sequence[float]) -> float:
    """The p-value of the units' counts for shares of `weights`, valid at all looks at once.

    The sequential multinomial test: one by the Bayes factor of a Dirichlet prior, which is a martingale (Lindon, Malek:
    Anytime-valid inference for multinomial count data, NeurIPS 2022, eq. (4)).
    """
    shares = np.asarray(weights, float) / np.sum(weights)
    found = np.asarray(counts, float)
    prior = CONCENTRATION * shares
    evidence = special.gammaln(prior.sum()) - special.gammaln(prior.sum() + found.sum())
    evidence += np.sum(special.gammaln(prior + found) - special.gammaln(prior) - found * np.log(shares))
    return float(np.exp(-max(evidence, 0.0)))
