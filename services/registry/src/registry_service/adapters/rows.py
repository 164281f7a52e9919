"""Rows of the tables to values of the domain, and back."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from sqlalchemy import Row

from ratchet_kit.idempotency import Request
from registry_service.domain.gates import Estimate, Gate
from registry_service.domain.models import AliasChange, Artifact, Lineage, Model, RecordedChange, Version


def to_model(row: Row[Any], aliases: Mapping[str, int]) -> Model:
    return Model(row.name, row.description, row.create_time, aliases, row.latest_version)


def version_row(version: Version, request: Request) -> dict[str, Any]:
    return {
        "model": version.model,
        "number": version.number,
        "artifact_uri": version.artifact.uri,
        "artifact_sha256": version.artifact.sha256,
        "policy_id": version.artifact.policy_id,
        "size_bytes": version.artifact.size_bytes,
        "lineage": asdict(version.lineage),
        "labels": dict(version.labels),
        "create_time": version.create_time,
        "request_id": request.id,
        "fingerprint": request.fingerprint,
    }


def to_version(row: Row[Any]) -> Version:
    artifact = Artifact(row.artifact_uri, row.artifact_sha256, row.policy_id, row.size_bytes)
    return Version(row.model, row.number, artifact, Lineage(**row.lineage), row.labels, row.create_time)


def to_recorded(row: Row[Any]) -> RecordedChange:
    change = AliasChange(row.model, row.alias, row.from_version, row.to_version, row.reason, row.gate_id, row.time)
    return RecordedChange(row.position, change)


def gate_row(gate: Gate, request: Request) -> dict[str, Any]:
    difference = {
        "difference": gate.difference.value,
        "difference_low": gate.difference.low,
        "difference_high": gate.difference.high,
    }
    return asdict(gate) | difference | {"request_id": request.id, "fingerprint": request.fingerprint}


def to_gate(row: Row[Any]) -> Gate:
    return Gate(
        id=row.id,
        model=row.model,
        candidate_version=row.candidate_version,
        champion_version=row.champion_version,
        candidate_evaluation=row.candidate_evaluation,
        champion_evaluation=row.champion_evaluation,
        difference=Estimate(row.difference, row.difference_low, row.difference_high),
        p_value=row.p_value,
        passed=row.passed,
        reason=row.reason,
        min_difference=row.min_difference,
        create_time=row.create_time,
    )
