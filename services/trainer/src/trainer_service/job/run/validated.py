"""What a validation says of a policy, and how sure it is."""

from collections.abc import Sequence
from statistics import fmean

from ratchet_kit.statistics import Estimate, mean_over_problems
from ratchet_problems import Problem


def interval(problems: Sequence[Problem], scores: Sequence[Sequence[float]]) -> Estimate | None:
    """Of the mean score over problems. `scores`: of each problem's samples; a problem without any is left out.

    None where there are none, or one is not from 0 to 1: such scores have no interval here.
    """
    known = [(problem.structure, some) for problem, some in zip(problems, scores, strict=True) if some]
    if not known or not all(0 <= score <= 1 for _, some in known for score in some):
        return None
    families = [family for family, _ in known]
    return mean_over_problems([fmean(some) for _, some in known], families, sum(len(some) for _, some in known))
