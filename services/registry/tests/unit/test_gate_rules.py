"""What a gate lets pass, and how it says so."""

from dataclasses import replace

import pytest

from ratchet_kit.errors import FailedPrecondition, InvalidArgument
from ratchet_kit.faults import Faults
from ratchet_kit.statistics import Estimate
from registry_service.domain.evidence import Comparisons, Evaluation, MeasuredSet, SetComparison
from registry_service.domain.gate_rules import GateRules, Guard, Judgement, Question, judge

from ..conftest import comparison

GAIN, LOSS, LITTLE = Estimate(0.2, 0.1, 0.3), Estimate(-0.08, -0.12, -0.04), Estimate(-0.01, -0.03, 0.01)
EVALUATION = Evaluation("eval_2", "sha256:p", (MeasuredSet("test", "sha256:t"), MeasuredSet("mbpp", "sha256:m")))


def decided(rules: GateRules, on_mbpp: Estimate, tries: int = 1) -> Judgement:
    sets = (
        SetComparison("test", comparison(GAIN), ("test/7",)),
        SetComparison("mbpp", comparison(on_mbpp, 974), ("mbpp/2", "mbpp/3"), tampered_share=0.03),
    )
    comparisons = Comparisons(comparison(Estimate(0.06, 0.02, 0.1), 1174), sets)
    return judge(Question("starter@2", "starter@1", 0.0, tries), rules, comparisons)


def test_without_rules_the_whole_score_decides() -> None:
    judgement = decided(GateRules(), LOSS)
    assert judgement.passed
    assert judgement.reason == (
        "Passed: starter@2 has 0.700 and starter@1 0.500 in the whole score over 1174 problems: a difference of +0.060 "
        "(95 % interval +0.020 to +0.100), p = 0.0004, where it was asked to be above +0.000. starter@2 may be "
        "released or promoted with this gate."
    )


def test_what_gained_on_the_target_and_lost_on_a_guard_is_refused() -> None:
    rules = GateRules("test", (Guard("mbpp", 0.02),))
    judgement = decided(rules, LOSS)
    assert not judgement.passed
    assert judgement.reason == (
        "Refused: on mbpp it is -0.080 (95 % interval -0.120 to -0.040), so more than the 0.020 allowed is lost. "
        "starter@1 stays."
    )
    assert [(guard.problems, guard.passed) for guard in judgement.guards] == [("mbpp", False)]


def test_a_guard_asks_for_evidence_that_little_is_lost() -> None:
    judgement = decided(GateRules("test", (Guard("mbpp", 0.02),)), LITTLE)
    assert not judgement.passed
    assert judgement.reason.endswith("so more than the 0.020 allowed may be lost. starter@1 stays.")
    kept = decided(GateRules("test", (Guard("mbpp", 0.04),)), LITTLE)
    assert kept.passed
    assert "; on mbpp it is -0.010 (95 % interval -0.030 to +0.010). starter@2 may" in kept.reason


@pytest.mark.parametrize(
    ("rules", "reason"),
    [
        (GateRules(max_unsolved=2), "the candidate never does: 3 (test/7, mbpp/2, mbpp/3), where 2 may be"),
        (GateRules(max_tampered_share=0.02), "3.0% of its samples on mbpp tampered with their tests, where 2.0% may"),
    ],
)
def test_what_was_solved_stays_solved_and_tests_are_left_alone(rules: GateRules, reason: str) -> None:
    judgement = decided(rules, LITTLE)
    assert not judgement.passed
    assert reason in judgement.reason
    assert decided(GateRules(max_unsolved=3, max_tampered_share=0.03), LITTLE).passed


def test_every_rule_that_does_not_hold_is_named() -> None:
    judgement = decided(GateRules("mbpp", (Guard("mbpp", 0.02),), 0, 0.0), LOSS)
    assert judgement.reason.count(";") == 3
    assert "where all of the interval must be above +0.000" in judgement.reason


def test_a_later_try_says_so() -> None:
    assert decided(GateRules(), LITTLE, 3).reason.endswith(
        "2 other comparisons with starter@1 could have been gated on these problems: one of that many may look better "
        "by luck, so this one is decided at 95 %. starter@2 may be released or promoted with this gate."
    )


def test_what_is_not_shown_says_what_would_be() -> None:
    unclear = replace(comparison(LITTLE), detectable_difference=0.031)
    judgement = judge(Question("a@2", "a@1", 0.0, 1), GateRules(), Comparisons(unclear, ()))
    assert judgement.reason.endswith(
        "a@1 stays. Such a comparison shows a true difference of 0.031 four times in five; more problems or samples "
        "show a smaller one."
    )


def test_rules_name_sets_that_were_measured() -> None:
    rules = GateRules("test", (Guard("mbpp", 0.02),))
    assert [one.name for one in rules.gained_on(EVALUATION)] == ["test"]
    assert [one.name for one in rules.judged(EVALUATION)] == ["test", "mbpp"]
    assert [one.name for one in GateRules().judged(EVALUATION)] == ["test", "mbpp"]
    for unknown in (GateRules("humaneval"), replace(rules, guards=(Guard("humaneval", 0.1),))):
        with pytest.raises(FailedPrecondition, match="eval_2 did not measure humaneval, but test, mbpp"):
            unknown.judged(EVALUATION)


def test_guards_are_so_many() -> None:
    faults = Faults()
    GateRules("", (Guard("mbpp", 0.1),) * 100_000).check(faults)
    assert [violation.field for violation in faults.violations] == ["rules.guards"]


def test_every_fault_of_rules_is_named() -> None:
    faults = Faults()
    guards = (Guard("", 0.1), Guard("mbpp", -0.1), Guard("mbpp", 1.0))
    GateRules("", guards, -1, float("nan")).check(faults)
    with pytest.raises(InvalidArgument) as refused:
        faults.raise_if_any()
    assert [violation.field for violation in refused.value.violations] == [
        "rules.guards[0].problems",
        "rules.guards[1].max_loss",
        "rules.guards[2].max_loss",
        "rules.guards[2].problems",
        "rules.max_unsolved",
        "rules.max_tampered_share",
    ]
