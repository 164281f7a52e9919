"""Scores are counted: of sets, parts of sets, and the whole by weights."""

from dataclasses import replace

import pytest

from eval_service.domain.sample import FailureClass, ProblemKey
from eval_service.domain.score import Count, Facts, check_complete, score, tallies, weighted
from eval_service.domain.spec import EvaluationSpec, ProblemSetRef, SuiteEntry
from eval_service.domain.statistics import Tally
from ratchet_kit.errors import FailedPrecondition
from ratchet_kit.names import Location
from ratchet_kit.statistics import Estimate

SPEC = EvaluationSpec(
    Location("/m"),
    (SuiteEntry(ProblemSetRef("a"), 3.0), SuiteEntry(ProblemSetRef("b"))),
    samples_per_problem=2,
    k=(1, 2),
)


def fact(set_name: str, problem: str, *slices: str, excluded: str = "", family: str = "") -> Facts:
    return Facts(ProblemKey(set_name, problem), family, slices=slices, excluded=excluded)


def count(set_name: str, problem: str, verdict: str, samples: int, failure: str = "", forgeable: bool = False) -> Count:
    key = ProblemKey(set_name, problem)
    return Count(key, verdict, FailureClass(failure) if failure else None, forgeable, samples)


FACTS = [fact("a", "1", "easy"), fact("a", "2", "hard", family="f"), fact("a", "3", excluded="no"), fact("b", "1")]
COUNTS = [
    count("a", "1", "PASSED", 1),
    count("a", "1", "PASSED", 1, forgeable=True),
    count("a", "2", "FAILED", 1, "WRONG"),
    count("a", "2", "TAMPERED", 1, "TAMPERED"),
    count("a", "3", "PASSED", 2),
    count("b", "1", "RUNTIME_ERROR", 1, "NO_CODE"),
    count("b", "1", "", 1),
]


def test_tallies_are_of_judged_samples_of_measured_problems() -> None:
    assert tallies(FACTS, COUNTS) == {
        ProblemKey("a", "1"): Tally(2, 2),
        ProblemKey("a", "2"): Tally(2, 0, "f", 1),
        ProblemKey("b", "1"): Tally(1, 0),
    }
    assert tallies([], COUNTS[:1]) == {ProblemKey("a", "1"): Tally(1, 1)}, "of evaluations that kept no facts"


def test_a_running_one_has_scores_of_what_is_there() -> None:
    found = score(SPEC, FACTS, COUNTS)
    a, b = found.benchmarks
    assert [(item.k, item.estimate.value) for item in a.pass_at_k] == [(1, 0.5), (2, 0.5)]
    assert (a.problems_done, a.problems_total, a.samples, a.forgeable_passes) == (2, 2, 4, 1)
    assert (a.verdicts, a.failures) == (
        {"PASSED": 2, "FAILED": 1, "TAMPERED": 1},
        {"WRONG": 1, "TAMPERED": 1},
    )
    assert [(one.problem_id, one.reason) for one in a.exclusions] == [("3", "no")]
    assert (b.problems_done, b.failures, a.slices) == (0, {"NO_CODE": 1}, ())
    assert [item.k for item in b.pass_at_k] == [1], "no problem of it has two samples"
    assert [(item.k, item.estimate.value) for item in found.pass_at_k] == [(1, 0.375)]
    assert (found.problems_done, found.problems_total, found.samples) == (2, 3, 5)
    assert found.verdicts == {"PASSED": 2, "FAILED": 1, "TAMPERED": 1, "RUNTIME_ERROR": 1}


def test_of_one_that_ended_parts_are_scored_and_what_was_not_judged_is_the_platforms_fault() -> None:
    a, b = score(SPEC, FACTS, COUNTS, ended=True).benchmarks
    assert [(part.name, part.problems, part.pass_at_k[0].estimate.value) for part in a.slices] == [
        ("easy", 1, 1.0),
        ("hard", 1, 0.0),
        ("shared grading", 1, 1.0),
        ("strict grading", 1, 0.0),
    ]
    assert b.failures == {"NO_CODE": 1, "PLATFORM": 1}


def test_a_part_that_is_all_of_the_set_is_none() -> None:
    facts = [fact("a", "1", "difficulty 1"), fact("a", "2", "difficulty 1")]
    counts = [replace(one, forgeable=False) for one in COUNTS]
    assert score(replace(SPEC, suite=SPEC.suite[:1]), facts, counts, ended=True).benchmarks[0].slices == ()


def test_a_set_of_both_kinds_of_grading_has_a_score_of_each() -> None:
    counts = [count("a", "1", "PASSED", 2, forgeable=True), count("a", "2", "FAILED", 2, "WRONG")]
    a, b = score(SPEC, FACTS, counts, ended=True).benchmarks
    assert (a.shared, a.forgeable_passes, b.shared) == (("1",), 2, ())
    assert [(part.name, part.pass_at_k[0].estimate.value) for part in a.slices if "grading" in part.name] == [
        ("shared grading", 1.0),
        ("strict grading", 0.0),
    ]
    assert all("grading" not in part.name for part in score(SPEC, FACTS, counts[:1], ended=True).benchmarks[0].slices)


def test_pass_at_k_without_k_samples_is_refused() -> None:
    with pytest.raises(FailedPrecondition, match="pass@2 needs 2 samples of each problem; 1 of b have fewer: 1"):
        check_complete(SPEC, FACTS, COUNTS)
    check_complete(replace(SPEC, k=(1,)), FACTS, COUNTS)
    nothing = [replace(one, excluded="no") for one in FACTS]
    with pytest.raises(FailedPrecondition, match="a has no problem that can be measured"):
        check_complete(SPEC, nothing, COUNTS)


def test_the_whole_is_the_weighted_mean_and_no_wider_than_its_parts() -> None:
    parts = [(3.0, Estimate(0.5, 0.4, 0.6)), (1.0, Estimate(0.9, 0.7, 1.0))]
    whole = weighted(parts)
    assert whole.value == pytest.approx(0.6)
    assert whole.value - whole.low == pytest.approx((0.075**2 + 0.05**2) ** 0.5)
    assert whole.high - whole.value == pytest.approx((0.075**2 + 0.025**2) ** 0.5)
    one = Estimate(0.3, 0.2, 0.5)
    alone = weighted([(0.7, one)])
    assert [alone.value, alone.low, alone.high] == pytest.approx([0.3, 0.2, 0.5])
