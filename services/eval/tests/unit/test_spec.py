"""Bad wishes are refused with every fault named."""

import pytest

from eval_service.convert import spec_from_proto
from eval_service.domain.spec import AliasRef, EvaluationSpec, PathRef, ProblemSetRef, VersionRef
from ratchet.common.v1 import common_pb2
from ratchet.eval.v1 import eval_pb2 as pb
from ratchet_kit.errors import InvalidArgument

BASICS = ProblemSetRef("basics")


def fields_of(spec: EvaluationSpec) -> list[str]:
    with pytest.raises(InvalidArgument) as refused:
        spec.check()
    assert all(violation.field in refused.value.message for violation in refused.value.violations)
    return [violation.field for violation in refused.value.violations]


@pytest.mark.parametrize(
    "model",
    [VersionRef("starter@3"), VersionRef("models/starter/versions/3"), AliasRef("starter:champion"), PathRef("/m")],
)
def test_good_specs_pass(model: VersionRef | AliasRef | PathRef) -> None:
    EvaluationSpec(model, BASICS, samples_per_problem=8, k=(1, 4, 8)).check()
    EvaluationSpec(model, BASICS, temperature=0).check()


@pytest.mark.parametrize("text", ["starter@3", "models/starter/versions/3"])
def test_both_forms_of_a_version_are_read(text: str) -> None:
    assert (VersionRef(text).model, VersionRef(text).number) == ("starter", 3)


def test_every_fault_is_named() -> None:
    spec = EvaluationSpec(
        None, ProblemSetRef("", limit=-1), samples_per_problem=2000, k=(0, 1, 1, 5000), temperature=-1, max_tokens=-3
    )
    assert fields_of(spec) == [
        "spec.model",
        "spec.problems.name",
        "spec.problems.limit",
        "spec.samples_per_problem",
        "spec.max_tokens",
        "spec.temperature",
        "spec.k[0]",
        "spec.k[2]",
        "spec.k[3]",
    ]


@pytest.mark.parametrize(
    ("model", "field"),
    [
        (VersionRef("starter"), "spec.model.version"),
        (VersionRef("starter@0"), "spec.model.version"),
        (VersionRef("starter@x"), "spec.model.version"),
        (VersionRef("Starter@1"), "spec.model.version"),
        (AliasRef("starter"), "spec.model.alias"),
        (AliasRef("starter:"), "spec.model.alias"),
        (PathRef(""), "spec.model.path"),
    ],
)
def test_references_that_name_nothing_are_refused(model: VersionRef | AliasRef | PathRef, field: str) -> None:
    assert fields_of(EvaluationSpec(model, BASICS)) == [field]


def test_several_greedy_samples_are_no_more_than_one() -> None:
    assert fields_of(EvaluationSpec(PathRef("/m"), BASICS, samples_per_problem=4, k=(4,), temperature=0)) == [
        "spec.k[0]"
    ]


def test_what_is_not_set_has_the_defaults_of_the_proto() -> None:
    message = pb.EvaluationSpec(
        model=common_pb2.ModelRef(alias="starter:champion"),
        problems=common_pb2.ProblemSetRef(name="basics", digest="not the caller's to say"),
    )
    assert spec_from_proto(message) == EvaluationSpec(AliasRef("starter:champion"), BASICS, 1, (1,), 1.0, 512, 0)
    message.temperature = 0
    assert spec_from_proto(message).temperature == 0
    assert spec_from_proto(pb.EvaluationSpec()).model is None
