"""The plan of a turn, as a YAML file says it: for each stage the message that the API takes.

    model: starter
    system: "..."      the system message of both, where they name none; chat_template: mine.jinja, too
    train: {...}       of a RunSpec
    evaluate: {...}    of an EvaluationSpec
    gate: {...}        min_difference and rules, of a CreateGateRequest
    release: {...}     of a ReleaseSpec

`train: {pairs: traffic, days: 30}` learns from what people found better in the kept traffic of the last 30 days: each
turn makes a data set of it. What the flow finds out itself (the candidate, ids) is not a field.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from google.protobuf.message import Message

from ratchet.eval.v1 import eval_pb2
from ratchet.gateway.v1 import release_pb2
from ratchet.registry.v1 import registry_pb2
from ratchet.trainer.v1 import trainer_pb2
from ratchet_kit import refs
from ratchet_kit.errors import InvalidArgument
from ratchet_kit.names import VersionRef, check_model_name
from ratchet_workflows.errors import Together
from ratchet_workflows.notation.fields import OF_ALL, Source
from ratchet_workflows.traffic import NAME

M = TypeVar("M", bound=Message)
MOST_DAYS = 36_500

SECTIONS = {
    "train": ("output_model",),
    "evaluate": ("model", "imported_samples"),
    "gate": ("request_id", "candidate", "candidate_evaluation_id", "champion_evaluation_id"),
    "release": ("candidate", "gate_id"),
}
"""Section -> the fields of its message that are not the file's to say."""
REQUIRED = {
    "model": "name the model of the registry that is to become better",
    "train": "say how it is trained",
    "evaluate": "name the problems that measure it",
}


@dataclass(frozen=True, slots=True)
class Plan:
    """`model`: its champion is trained, unless `train.base` names something else, and is what a candidate must beat."""

    model: str
    train: trainer_pb2.RunSpec
    evaluate: eval_pb2.EvaluationSpec
    gate: registry_pb2.CreateGateRequest
    release: release_pb2.ReleaseSpec
    days: int | None = None
    """Age of the oldest traffic; None: no limit."""

    @property
    def learns_traffic(self) -> bool:
        return self.train.pairs.name == NAME

    @property
    def sets(self) -> list[str]:
        """The names of the sets that are measured or trained on."""
        measured = [entry.problems.name for entry in self.evaluate.suite] or [self.evaluate.problems.name]
        return [*measured, self.train.problems.name]

    def run_of(self, champion: VersionRef, turn: int) -> trainer_pb2.RunSpec:
        """The run to be trained, from the champion where nothing else is named; with the turn's number as its seed
        where none is: after a turn that released nothing, the same seed would make the same candidate again."""
        spec = _copy(self.train)
        spec.seed = spec.seed or turn
        if not spec.base.WhichOneof("ref"):
            spec.base.CopyFrom(refs.model_to_proto(champion))
        spec.output_model = self.model
        return spec

    def learning(self, pairs: str) -> "Plan":
        """With these pairs in place of the traffic; none: as it is."""
        train = _copy(self.train)
        train.pairs.name = pairs or train.pairs.name
        return replace(self, train=train) if pairs else self

    def evaluation_of(self, version: VersionRef) -> eval_pb2.EvaluationSpec:
        spec = _copy(self.evaluate)
        spec.model.CopyFrom(refs.model_to_proto(version))
        return spec

    def release_of(self, candidate: VersionRef, gate_id: str) -> release_pb2.ReleaseSpec:
        spec = _copy(self.release)
        spec.candidate.CopyFrom(refs.version_to_proto(candidate))
        spec.gate_id = gate_id
        return spec

    @property
    def rules(self) -> registry_pb2.GateRules | None:
        return self.gate.rules if self.gate.HasField("rules") else None


def read(source: Source) -> Plan:
    """Raises UsageError for what is not a field, is no value of one, or is missing."""
    fields, together = source.fields(), Together()
    for name in fields:
        with together.one():
            if name not in ("model", *OF_ALL, *SECTIONS):
                raise source.unknown("", name, ("model", *OF_ALL, *SECTIONS))
    for name, reason in REQUIRED.items():
        with together.one():
            if name not in fields:
                raise source.wrong(name, f"is missing: {reason}")

    days = None
    if isinstance(train := fields["train"], Mapping) and "days" in train:
        days = source.whole_number(train["days"], "train.days", at_least=1, at_most=MOST_DAYS)
        fields = {**fields, "train": {name: value for name, value in train.items() if name != "days"}}

    def section(name: str, message: M) -> M:
        with together.one():
            source.fill(message, fields.get(name, {}), name, without=SECTIONS[name])
        return message

    sections = (
        section("train", trainer_pb2.RunSpec()),
        section("evaluate", eval_pb2.EvaluationSpec()),
        section("gate", registry_pb2.CreateGateRequest()),
        section("release", release_pb2.ReleaseSpec()),
    )
    together.raise_if_any()
    plan = Plan(
        _model(source, fields["model"]),
        *sections,
        days,
    )
    if days is not None and not plan.learns_traffic:
        raise source.wrong("train.days", f"goes with pairs: {NAME}")
    source.put_into_all(plan.train, plan.evaluate)
    _check_gate(plan, source)
    return plan


def _model(source: Source, value: object) -> str:
    try:
        return check_model_name(value if isinstance(value, str) else "")
    except InvalidArgument as error:
        raise source.wrong("model", error.violations[0].description) from error


def _check_gate(plan: Plan, source: Source) -> None:
    """A gate that names what is not measured could never be decided."""
    sets = [one.problems.name for one in plan.evaluate.suite] or [plan.evaluate.problems.name]
    rules = plan.gate.rules
    named = [("gate.rules.target", rules.target)] if rules.target else []
    named += [(f"gate.rules.guards[{place}].problems", guard.problems) for place, guard in enumerate(rules.guards)]
    for path, name in named:
        if name not in sets:
            raise source.wrong(path, f"is {name!r}, which evaluate does not measure: it has {', '.join(sets)}")


def _copy(message: M) -> M:
    copy = type(message)()
    copy.CopyFrom(message)
    return copy
