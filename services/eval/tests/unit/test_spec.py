"""A spec that cannot be measured is refused with every fault named."""

from typing import Any

import pytest

from eval_service.domain.spec import EvaluationSpec, ProblemSetRef
from ratchet_kit.errors import InvalidArgument
from ratchet_kit.names import AliasRef, AnyModel, BareModel, Location, VersionRef

BASICS = ProblemSetRef("basics")
STARTER = VersionRef("starter", 3)


def fields_of(problems: ProblemSetRef = BASICS, **fields: Any) -> list[str]:
    with pytest.raises(InvalidArgument) as refused:
        EvaluationSpec(STARTER, problems, **fields)
    assert all(violation.field in refused.value.message for violation in refused.value.violations)
    return [violation.field for violation in refused.value.violations]


@pytest.mark.parametrize("model", [STARTER, AliasRef("starter", "champion"), BareModel("starter"), Location("/m")])
def test_good_specs_pass(model: AnyModel) -> None:
    EvaluationSpec(model, BASICS, samples_per_problem=8, k=(1, 4, 8))
    EvaluationSpec(model, ProblemSetRef("basics", 1), temperature=0)


def test_every_fault_is_named() -> None:
    assert fields_of(
        ProblemSetRef("", limit=0), samples_per_problem=2000, k=(0, 1, 1, 5000), temperature=-1, max_tokens=-3
    ) == [
        "spec.problems.name",
        "spec.problems.limit",
        "spec.samples_per_problem",
        "spec.max_tokens",
        "spec.temperature",
        "spec.k[0]",
        "spec.k[2]",
        "spec.k[3]",
    ]


def test_several_greedy_samples_are_no_more_than_one() -> None:
    assert fields_of(samples_per_problem=4, k=(4,), temperature=0) == ["spec.k[0]"]
