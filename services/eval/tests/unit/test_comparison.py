"""Two evaluations compared: by set, and in the whole score."""

import numpy as np
import pytest

from eval_service.domain.comparison import Comparisons, Plan, Question, compare, plan
from eval_service.domain.sample import ProblemKey
from eval_service.domain.score import Facts
from eval_service.domain.spec import EvaluationSpec, ProblemSetRef, SuiteEntry
from eval_service.domain.statistics import Tally, estimate_difference, permutation_p_value
from ratchet_kit.errors import FailedPrecondition, InvalidArgument

SETS = (SuiteEntry(ProblemSetRef("one"), 3.0), SuiteEntry(ProblemSetRef("two"), 1.0))
SPEC = EvaluationSpec(None, SETS, samples_per_problem=4, imported_samples=1)
Tallies = dict[ProblemKey, Tally]


def tallies(one: list[int], two: list[int], samples: int = 4) -> Tallies:
    """Of problems 0, 1, ... of either set, which passed so often."""
    return {
        ProblemKey(name, str(index)): Tally(samples, passed)
        for name, counts in (("one", one), ("two", two))
        for index, passed in enumerate(counts)
    }


BEFORE, AFTER = tallies([0, 1, 2, 4] * 10, [4, 4, 3] * 10), tallies([2, 2, 2, 4] * 10, [0, 4, 2] * 10)


def compared(question: Question = Question(), facts: tuple[Facts, ...] = ()) -> Comparisons:
    return compare(SPEC, facts, BEFORE, AFTER, question)


def test_each_set_is_compared_by_itself_and_all_by_weight() -> None:
    comparisons = compared()
    one, two = comparisons.sets
    for found in (one, two):
        before, after = ([side[key] for key in side if key.benchmark == found.name] for side in (BEFORE, AFTER))
        assert found.comparison.difference == estimate_difference(after, before)
        assert found.comparison.p_value == permutation_p_value(after, before)
    assert (one.comparison.difference.value, two.comparison.difference.value) == (0.1875, pytest.approx(-1.25 / 3))
    whole = comparisons.whole
    assert whole.difference.value == pytest.approx((3 * 0.1875 - 1.25 / 3) / 4)
    assert (whole.problems, whole.clusters, whole.won, whole.lost) == (70, 70, 20, 20)
    assert (one.comparison.won, one.comparison.lost, two.comparison.won, two.comparison.lost) == (20, 0, 0, 20)
    assert whole.difference.low < whole.difference.value < whole.difference.high
    assert comparisons.sets[1].adjusted_p_value == min(1, 2 * min(two.comparison.p_value, one.comparison.p_value))


def test_the_whole_of_one_set_is_that_set() -> None:
    spec = EvaluationSpec(None, SETS[:1], imported_samples=1)
    comparisons = compare(spec, (), BEFORE, AFTER)
    assert comparisons.whole == comparisons.sets[0].comparison


def test_what_was_always_solved_and_never_is_now_is_named() -> None:
    one, two = compared().sets
    assert one.unsolved == ()
    assert two.unsolved == tuple(sorted(str(index) for index in range(0, 30, 3)))


def test_what_was_won_and_lost_is_named_the_most_lost_first() -> None:
    one, two = compared().sets
    assert {change.problem_id for change in one.changed} == {str(index) for index in range(40) if index % 4 < 2}
    assert {(change.baseline, change.candidate) for change in one.changed} == {(0.0, 0.5), (0.25, 0.5)}
    lost = [(change.baseline, change.candidate) for change in two.changed]
    assert lost == [(1.0, 0.0)] * 10 + [(0.75, 0.5)] * 10


def test_tampering_and_training_are_counted_by_set() -> None:
    after = AFTER | {ProblemKey("two", "0"): Tally(4, 0, tampered=3)}
    facts = tuple(Facts(key, fingerprint=f"print of {key.problem_id}") for key in BEFORE)
    one, two = compare(
        SPEC, facts, BEFORE, after, Question(training=["print of 3", "print of 35", "other"], selection=["print of 35"])
    ).sets
    assert (one.tampered_share, two.tampered_share) == (0, 3 / 120)
    assert (one.trained_on, two.trained_on) == (2, 1)
    assert (one.selected_on, two.selected_on) == (1, 0)


def test_problems_of_one_family_count_as_one() -> None:
    before = {key: Tally(4, tally.passed, f"family {int(key.problem_id) % 5}") for key, tally in BEFORE.items()}
    related = compare(SPEC, (), before, AFTER)
    assert (related.whole.clusters, related.sets[0].comparison.clusters) == (10, 5)
    assert related.sets[0].comparison.p_value > compared().sets[0].comparison.p_value


def test_confidence_is_of_every_interval() -> None:
    wide, narrow = compared(Question(0.999)), compared(Question(0.5))
    assert (wide.whole.confidence, narrow.sets[0].comparison.confidence) == (0.999, 0.5)
    for estimate in ("baseline", "candidate", "difference"):
        outer, inner = getattr(wide.whole, estimate), getattr(narrow.whole, estimate)
        assert outer.low < inner.low < inner.high < outer.high
    for wrong in (0, 1, float("nan")):
        with pytest.raises(InvalidArgument, match="confidence"):
            Question(wrong)


def test_problems_that_one_left_out_count_in_neither() -> None:
    less = {key: tally for key, tally in AFTER.items() if key.problem_id != "0"}
    assert compare(SPEC, (), BEFORE, less).whole.problems == 68
    none = {key: tally for key, tally in AFTER.items() if key.benchmark == "one"}
    with pytest.raises(FailedPrecondition, match="no problem of two in common"):
        compare(SPEC, (), BEFORE, none)


def test_the_whole_interval_covers_the_truth() -> None:
    """Two sets of unequal weight, 400 rounds: 0.95 is measured to +-0.02."""
    generator, hits = np.random.default_rng(3), 0
    truth = (3 * 0.04 + 0.1) / 4
    for _ in range(400):
        rates = [generator.beta(2, 3, size=size) * 0.9 for size in (60, 40)]
        old = tallies(*(list(generator.binomial(4, one)) for one in rates))
        new = tallies(*(list(generator.binomial(4, one + gain)) for one, gain in zip(rates, (0.04, 0.1), strict=True)))
        difference = compare(SPEC, (), old, new).whole.difference
        hits += difference.low <= truth <= difference.high
    assert 0.93 <= hits / 400 <= 0.975


def test_a_plan_says_what_would_be_seen() -> None:
    same = plan(SPEC, BEFORE, Plan())
    assert (same.problems, same.samples_per_problem) == (70, 4)
    assert same.detectable_difference == pytest.approx(compared().whole.detectable_difference, rel=0.5)
    for more in (Plan(samples_per_problem=16), Plan(problems=700)):
        assert plan(SPEC, BEFORE, more).detectable_difference < same.detectable_difference
    assert plan(SPEC, BEFORE, Plan(power=0.9)).detectable_difference > same.detectable_difference


def test_every_fault_of_a_plan_is_named() -> None:
    with pytest.raises(InvalidArgument) as refused:
        Plan(samples_per_problem=0, problems=1, power=1.0)
    fields = [violation.field for violation in refused.value.violations]
    assert fields == ["samples_per_problem", "problems", "power"]
