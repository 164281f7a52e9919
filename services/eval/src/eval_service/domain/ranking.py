"""How strong models are by people's votes: Bradley and Terry 1952, "Rank Analysis of Incomplete Block Designs: I. The
Method of Paired Comparisons", Biometrika 39, with intervals."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, stdtrit

from ratchet_kit.errors import FailedPrecondition
from ratchet_kit.statistics import Estimate

STEPS = 100
PRECISION = 1e-9


@dataclass(frozen=True, slots=True)
class Vote:
    first: str
    """Id of an evaluation."""
    second: str
    score: float
    """1 where the first was preferred, 0 where the second was, 0.5 for a tie."""
    problem: tuple[str, str]
    """Set and id: votes on one problem are not independent."""


@dataclass(frozen=True, slots=True)
class Rank:
    evaluation_id: str
    strength: Estimate
    """On the logit scale; the mean over those ranked is 0."""
    votes: int
    wins: float


def rank(ids: Sequence[str], votes: Sequence[Vote], confidence: float = 0.95) -> list[Rank]:
    """The strongest first. A tie is half a win to each. Raises FailedPrecondition when votes do not connect all `ids`.

    The strengths are those of most likelihood, where each two that were compared have one tie more than they have: so
    they stay finite when one always wins (Agresti, Categorical Data Analysis, on adding to sparse tables). Wald
    intervals; the variance is the larger of the model's own (inverse information) and the one robust to votes on the
    same problem being alike (Liang and Zeger 1986, problems as clusters), which alone would be 0 where all votes agree.
    The quantile is Student's with as many degrees of freedom as problems less one.
    """
    place = {id: number for number, id in enumerate(ids)}
    pairs = np.array([(place[vote.first], place[vote.second]) for vote in votes], dtype=int).reshape(-1, 2)
    scores = np.array([vote.score for vote in votes])
    ties = np.unique(np.sort(pairs, axis=1), axis=0)
    design = _design(np.concatenate([pairs, ties]), len(ids))
    if np.linalg.matrix_rank(design) < len(ids) - 1:
        raise FailedPrecondition("votes do not connect all of these evaluations: some were never compared")
    strengths, covariance = _fit(design, np.concatenate([scores, np.full(len(ties), 0.5)]))
    variance = np.maximum(np.diag(covariance), _robust(design[: len(votes)], scores, strengths, covariance, votes))
    problems = len({vote.problem for vote in votes})
    half = float(stdtrit(max(1, problems - 1), (1 + confidence) / 2)) * np.sqrt(variance)
    found = [
        Rank(id, Estimate(float(s), float(s - h), float(s + h)), *_won(id, votes))
        for id, s, h in zip(ids, strengths, half, strict=True)
    ]
    return sorted(found, key=lambda one: -one.strength.value)


def _design(pairs: NDArray[np.int_], count: int) -> NDArray[np.float64]:
    """A row a vote: 1 for the first, -1 for the second."""
    rows = np.zeros((len(pairs), count))
    rows[np.arange(len(pairs)), pairs[:, 0]] = 1.0
    rows[np.arange(len(pairs)), pairs[:, 1]] = -1.0
    return rows


def _fit(design: NDArray[np.float64], scores: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Strengths whose sum is 0, and their covariance. By Newton's steps, none of them larger than 1."""
    count = design.shape[1]
    strengths, covariance = np.zeros(count), np.zeros((count, count))
    together = np.full((count, count), 1.0 / count)  # only differences matter: the information has none of this
    for _ in range(STEPS):
        expected = expit(design @ strengths)
        information = design.T @ (design * (expected * (1 - expected))[:, None])
        covariance = np.linalg.inv(information + together) - together
        step = covariance @ (design.T @ (scores - expected))
        largest = float(np.abs(step).max())
        strengths = strengths + step / max(1.0, largest)
        if largest < PRECISION:
            break
    return strengths, covariance


def _robust(
    design: NDArray[np.float64],
    scores: NDArray[np.float64],
    strengths: NDArray[np.float64],
    covariance: NDArray[np.float64],
    votes: Sequence[Vote],
) -> NDArray[np.float64]:
    residuals = design * (scores - expit(design @ strengths))[:, None]
    clusters: dict[tuple[str, str], NDArray[np.float64]] = {}
    for vote, residual in zip(votes, residuals, strict=True):
        clusters[vote.problem] = clusters.get(vote.problem, 0.0) + residual
    each = np.array(list(clusters.values()))
    correction = len(each) / max(1, len(each) - 1)
    return np.diag(covariance @ (each.T @ each * correction) @ covariance)


def _won(id: str, votes: Sequence[Vote]) -> tuple[int, float]:
    """How many votes, and wins among them."""
    scores = [vote.score if vote.first == id else 1 - vote.score for vote in votes if id in (vote.first, vote.second)]
    return len(scores), sum(scores)
