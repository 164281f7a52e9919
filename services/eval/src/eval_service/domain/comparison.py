"""Compares two finished evaluations, problem by problem."""

from collections.abc import Mapping

from eval_service.domain.evaluation import Evaluation, State
from eval_service.domain.sample import ProblemKey
from eval_service.domain.statistics import Tally, estimate_difference, estimate_pass_at_k, permutation_p_value
from ratchet_kit.errors import FailedPrecondition
from ratchet_kit.statistics import Comparison


def check_comparable(baseline: Evaluation, candidate: Evaluation) -> None:
    """Raises FailedPrecondition unless both succeeded, on the same problems, and sampled in the same way."""
    for evaluation in (baseline, candidate):
        if evaluation.state is not State.SUCCEEDED:
            raise FailedPrecondition(f"evaluation {evaluation.id} is {evaluation.state}; only a succeeded one compares")
    theirs, ours = baseline.spec, candidate.spec
    for what, before, after in (
        ("problems", theirs.digests, ours.digests),
        ("temperature", theirs.temperature, ours.temperature),
        ("max_tokens", theirs.max_tokens, ours.max_tokens),
    ):
        if before != after:
            raise FailedPrecondition(
                f"evaluations {baseline.id} and {candidate.id} differ in their {what}: {before} against {after}"
            )


def compare(baseline: Mapping[ProblemKey, Tally], candidate: Mapping[ProblemKey, Tally]) -> Comparison:
    """The comparison of two evaluations that `check_comparable` let pass, from their tallies by problem."""
    problems = sorted(baseline)
    before = [baseline[problem] for problem in problems]
    after = [candidate[problem] for problem in problems]
    return Comparison(
        baseline=estimate_pass_at_k(before, 1),
        candidate=estimate_pass_at_k(after, 1),
        difference=estimate_difference(after, before),
        p_value=permutation_p_value(after, before),
        problems=len(problems),
    )
