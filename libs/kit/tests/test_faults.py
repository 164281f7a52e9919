from datetime import timedelta

import pytest

from ratchet_kit.errors import FieldViolation, InvalidArgument
from ratchet_kit.faults import MAX_REASON, Faults, check_reason
from ratchet_kit.names import VersionRef


def test_all_faults_are_raised_at_once_by_their_paths():
    faults = Faults()
    faults.add("name", "must not be empty")
    spec = faults.under("spec")
    spec.bounds("steps", 0, at_least=1)
    spec.under("grpo").bounds("group_size", 1, at_least=2)
    with pytest.raises(InvalidArgument) as refused:
        faults.raise_if_any("the run cannot be made")
    assert refused.value.violations == (
        FieldViolation("name", "must not be empty"),
        FieldViolation("spec.steps", "must be 1 or more"),
        FieldViolation("spec.grpo.group_size", "must be 2 or more"),
    )
    assert refused.value.message == (
        "the run cannot be made: name must not be empty; spec.steps must be 1 or more; "
        "spec.grpo.group_size must be 2 or more"
    )


def test_nothing_is_raised_where_nothing_is_wrong():
    faults = Faults()
    assert faults.required("name", "x")
    assert faults.unless(True, "name", "must be otherwise")
    assert faults.one_of("device", "cpu", ["cpu", "cuda"])
    assert not faults
    faults.raise_if_any()


def test_what_is_found_below_a_prefix_counts_above_it():
    faults = Faults()
    below = faults.under("spec")
    assert not below.required("name", "")
    assert faults
    assert below.violations == faults.violations


@pytest.mark.parametrize(
    ("value", "bounds", "description"),
    [
        (0, {"at_least": 1}, "must be 1 or more"),
        (0.0, {"above": 0}, "must be above 0"),
        (1.5, {"at_least": 0, "at_most": 1}, "must be from 0 to 1"),
        (2, {"above": 0, "at_most": 1}, "must be above 0 and at most 1"),
        (1, {"at_least": 0, "below": 1}, "must be 0 or more and below 1"),
        (9, {"at_most": 8}, "must be at most 8"),
        (float("nan"), {"at_least": 0}, "must be 0 or more"),
        (float("inf"), {}, "must be finite"),
        (timedelta(0), {"above": timedelta(0)}, "must be above 0 s"),
        (timedelta(hours=2), {"at_most": timedelta(hours=1)}, "must be at most 3600 s"),
    ],
)
def test_bounds_say_what_is_allowed(value, bounds, description):
    faults = Faults()
    assert not faults.bounds("value", value, **bounds)
    assert faults.violations == (FieldViolation("value", description),)


@pytest.mark.parametrize(
    ("value", "bounds"),
    [
        (1, {"at_least": 1}),
        (1, {"at_most": 1}),
        (0.5, {"above": 0, "below": 1}),
        (timedelta(1), {"above": timedelta()}),
    ],
)
def test_values_within_bounds_are_no_fault(value, bounds):
    faults = Faults()
    assert faults.bounds("value", value, **bounds)
    assert not faults


def test_choices_are_named():
    faults = Faults()
    faults.one_of("device", "tpu", ["cpu", "cuda"])
    assert faults.violations == (FieldViolation("device", "must be one of cpu, cuda; not 'tpu'"),)


def test_a_text_is_read_or_is_at_fault():
    faults = Faults()
    spec = faults.under("spec")
    assert spec.read("base", VersionRef.parse, "starter@2") == VersionRef("starter", 2)
    assert spec.read("base", VersionRef.parse, "starter@0") is None
    [violation] = faults.violations
    assert violation.field == "spec.base"


def test_a_reader_without_violations_is_at_fault_by_its_message():
    def refuse(text: str, field: str) -> str:
        raise InvalidArgument(f"cannot be {text}")

    faults = Faults()
    faults.read("name", refuse, "x")
    assert faults.violations == (FieldViolation("name", "cannot be x"),)


def test_texts_and_lists_have_a_length():
    faults = Faults()
    assert faults.length("name", "abc", 3)
    assert not faults.length("name", "abcd", 3)
    assert not faults.length("models", ["a", "b"], 1)
    assert not faults.length("description", "a\0b", 3)
    assert [fault.description for fault in faults.violations] == [
        "must have at most 3 characters",
        "must have at most 1 entries",
        "must not hold NUL",
    ]
    assert check_reason("x" * MAX_REASON)
    with pytest.raises(InvalidArgument, match="reason"):
        check_reason("x" * (MAX_REASON + 1))
