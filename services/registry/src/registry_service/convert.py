"""Protobuf to the domain and back. Pure."""

from ratchet.common.v1 import common_pb2
from ratchet.registry.v1 import registry_pb2 as pb
from ratchet_kit.times import timestamp_to_proto
from registry_service.domain.gates import Gate, GateSpec
from registry_service.domain.models import AliasChange, Lineage, Model, Version


def lineage_from_proto(lineage: pb.Lineage) -> Lineage:
    return Lineage(
        base=lineage.base,
        run_id=lineage.run_id,
        data_digest=lineage.data_digest,
        config_digest=lineage.config_digest,
        code_version=lineage.code_version,
        step=lineage.step,
    )


def gate_spec_from_proto(request: pb.CreateGateRequest) -> GateSpec:
    return GateSpec(
        model=request.model,
        candidate_version=request.candidate_version,
        candidate_evaluation=request.candidate_evaluation,
        champion_evaluation=request.champion_evaluation,
        min_difference=request.min_difference,
    )


def model_to_proto(model: Model) -> pb.Model:
    return pb.Model(
        name=model.name,
        description=model.description,
        create_time=timestamp_to_proto(model.create_time),
        aliases=model.aliases,
        latest_version=model.latest_version,
    )


def version_to_proto(version: Version) -> pb.Version:
    return pb.Version(
        model=version.model,
        number=version.number,
        artifact_uri=version.artifact.uri,
        artifact_sha256=version.artifact.sha256,
        policy_id=version.artifact.policy_id,
        size_bytes=version.artifact.size_bytes,
        lineage=lineage_to_proto(version.lineage),
        labels=version.labels,
        create_time=timestamp_to_proto(version.create_time),
    )


def lineage_to_proto(lineage: Lineage) -> pb.Lineage:
    return pb.Lineage(
        base=lineage.base,
        run_id=lineage.run_id,
        data_digest=lineage.data_digest,
        config_digest=lineage.config_digest,
        code_version=lineage.code_version,
        step=lineage.step,
    )


def change_to_proto(change: AliasChange) -> pb.AliasChange:
    return pb.AliasChange(
        model=change.model,
        alias=change.alias,
        from_version=change.from_version,
        to_version=change.to_version,
        reason=change.reason,
        gate_id=change.gate_id,
        time=timestamp_to_proto(change.time),
    )


def gate_to_proto(gate: Gate) -> pb.Gate:
    difference = common_pb2.Estimate(value=gate.difference.value, low=gate.difference.low, high=gate.difference.high)
    return pb.Gate(
        id=gate.id,
        model=gate.model,
        candidate_version=gate.candidate_version,
        champion_version=gate.champion_version,
        candidate_evaluation=gate.candidate_evaluation,
        champion_evaluation=gate.champion_evaluation,
        difference=difference,
        p_value=gate.p_value,
        passed=gate.passed,
        reason=gate.reason,
        min_difference=gate.min_difference,
        create_time=timestamp_to_proto(gate.create_time),
    )
