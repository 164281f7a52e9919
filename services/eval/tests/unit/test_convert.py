"""What is not set has the proto's defaults; what cannot be measured is refused by field."""

import pytest

from eval_service import convert
from eval_service.domain.spec import EvaluationSpec, ProblemSetRef, SuiteEntry
from ratchet.common.v1 import model_pb2, problem_pb2
from ratchet.eval.v1 import eval_pb2 as pb
from ratchet_kit.errors import InvalidArgument
from ratchet_kit.names import AliasRef


def test_what_is_not_set_has_the_defaults_of_the_proto() -> None:
    message = pb.EvaluationSpec(
        model=model_pb2.ModelRef(alias=model_pb2.AliasRef(model="starter", alias="champion")),
        problems=problem_pb2.ProblemSetRef(name="basics", digest="not the caller's to say"),
    )
    champion, basics = AliasRef("starter", "champion"), (SuiteEntry(ProblemSetRef("basics")),)
    assert convert.spec_from_proto(message) == EvaluationSpec(champion, basics, 1, (1,), 1.0, 512, 0)
    message.temperature = 0
    assert convert.spec_from_proto(message).temperature == 0


@pytest.mark.parametrize(
    ("model", "field"),
    [
        (model_pb2.ModelRef(), "spec.model"),
        (model_pb2.ModelRef(version=model_pb2.VersionRef(model="starter")), "spec.model.version.number"),
        (model_pb2.ModelRef(version=model_pb2.VersionRef(model="Starter", number=1)), "spec.model.version.model"),
        (model_pb2.ModelRef(alias=model_pb2.AliasRef(model="starter")), "spec.model.alias.alias"),
        (model_pb2.ModelRef(model="No Such"), "spec.model.model"),
    ],
)
def test_all_faults_are_named_at_once(model: model_pb2.ModelRef, field: str) -> None:
    message = pb.EvaluationSpec(model=model, max_tokens=0, samples_per_problem=0)
    with pytest.raises(InvalidArgument) as refused:
        convert.spec_from_proto(message)
    assert [violation.field for violation in refused.value.violations] == [
        field,
        "spec.problems.name",
        "spec.samples_per_problem",
        "spec.max_tokens",
        "spec.k[0]",
    ]
