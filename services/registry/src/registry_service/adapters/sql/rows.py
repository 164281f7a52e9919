"""Rows of the tables to values of the domain, and back."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from sqlalchemy import Row

from ratchet_kit.errors import Failure, InvalidArgument
from ratchet_kit.names import AnyModel, Location, ModelRef, VersionRef
from ratchet_kit.sql import hold_of, hold_row
from ratchet_kit.statistics import Comparison, Estimate
from registry_service.domain import gate, version
from registry_service.domain.gate import Gate, GateSpec
from registry_service.domain.gate_rules import GateRules, Guard, GuardResult
from registry_service.domain.model import AliasChange, Model, RecordedChange
from registry_service.domain.version import Artifact, Lineage, Version, VersionSpec


def to_model(row: Row[Any], aliases: Mapping[str, int]) -> Model:
    return Model(row.name, row.description, row.create_time, aliases, row.latest_version)


def version_row(version: Version) -> dict[str, Any]:
    artifact, lineage = version.artifact, version.spec.lineage
    return {
        "model": version.ref.model,
        "number": version.ref.number,
        "source_uri": version.spec.source_uri,
        "lineage": asdict(lineage) | {"base": str(lineage.base or "")},
        "labels": dict(version.spec.labels),
        "create_time": version.create_time,
        "state": version.state,
        "artifact_uri": artifact.uri if artifact else "",
        "artifact_sha256": artifact.sha256 if artifact else "",
        "policy_id": version.policy_id,
        "size_bytes": artifact.size_bytes if artifact else 0,
        "settings_id": version.settings_id,
        "end_time": version.end_time,
        **_failure_row(version.failure),
        **hold_row(version.hold),
    }


def to_version(row: Row[Any]) -> Version:
    drawn = tuple(row.lineage.get("drawn_digests", ()))
    lineage = Lineage(**row.lineage | {"base": _base(row.lineage["base"]), "drawn_digests": drawn})
    artifact = Artifact(row.artifact_uri, row.artifact_sha256, row.policy_id, row.size_bytes, row.settings_id)
    return Version(
        ref=VersionRef(row.model, row.number),
        spec=VersionSpec(row.model, row.source_uri, lineage, row.labels),
        create_time=row.create_time,
        state=version.State(row.state),
        artifact=artifact if artifact.uri else None,
        failure=_to_failure(row),
        end_time=row.end_time,
        hold=hold_of(row),
    )


def to_recorded(row: Row[Any]) -> RecordedChange:
    change = AliasChange(
        row.model,
        row.alias,
        row.from_number,
        row.to_number,
        row.reason,
        row.gate_id,
        row.create_time,
        row.actor,
        row.takes_back,
    )
    return RecordedChange(row.position, change)


def gate_row(gate: Gate) -> dict[str, Any]:
    return {
        "id": gate.id,
        "model": gate.spec.candidate.model,
        "candidate_number": gate.spec.candidate.number,
        "champion_number": gate.champion.number,
        "candidate_evaluation_id": gate.spec.candidate_evaluation_id,
        "champion_evaluation_id": gate.spec.champion_evaluation_id,
        "min_difference": gate.spec.min_difference,
        "rules": asdict(gate.spec.rules),
        "create_time": gate.create_time,
        "state": gate.state,
        "comparison": asdict(gate.comparison) if gate.comparison else None,
        "reason": gate.reason,
        "guards": [asdict(guard) for guard in gate.guards],
        "tries": gate.tries,
        "end_time": gate.end_time,
        **_failure_row(gate.failure),
        **hold_row(gate.hold),
    }


def to_gate(row: Row[Any]) -> Gate:
    return Gate(
        id=row.id,
        spec=GateSpec(
            candidate=VersionRef(row.model, row.candidate_number),
            candidate_evaluation_id=row.candidate_evaluation_id,
            champion_evaluation_id=row.champion_evaluation_id,
            min_difference=row.min_difference,
            rules=_to_rules(row.rules),
        ),
        champion=VersionRef(row.model, row.champion_number),
        create_time=row.create_time,
        state=gate.State(row.state),
        comparison=_to_comparison(row.comparison) if row.comparison else None,
        reason=row.reason,
        guards=tuple(
            GuardResult(one["problems"], _to_comparison(one["comparison"]), one["passed"]) for one in row.guards
        ),
        tries=row.tries,
        failure=_to_failure(row),
        end_time=row.end_time,
        hold=hold_of(row),
    )


def _to_rules(stored: Mapping[str, Any]) -> GateRules:
    """`{}` is of a gate from before there were rules."""
    return GateRules(**{**stored, "guards": tuple(Guard(**guard) for guard in stored.get("guards", ()))})


def _to_comparison(stored: Mapping[str, Any]) -> Comparison:
    estimates = {name: Estimate(**stored[name]) for name in ("baseline", "candidate", "difference")}
    return Comparison(**{**stored, **estimates})


def _failure_row(failure: Failure | None) -> dict[str, Any]:
    return {
        "failure_code": failure.code if failure else None,
        "failure_message": failure.message if failure else None,
    }


def _to_failure(row: Row[Any]) -> Failure | None:
    return Failure(row.failure_code, row.failure_message) if row.failure_code else None


def _base(text: str) -> AnyModel | None:
    try:
        return ModelRef.parse(text) if text else None
    except InvalidArgument:  # stored before all read names by the same grammar
        return Location(text)
