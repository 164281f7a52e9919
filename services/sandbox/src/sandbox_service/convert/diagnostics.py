"""Audits and benchmarks of a node: from protobuf and to it."""

from dataclasses import dataclass

from ratchet.common.v1 import verdict_pb2
from ratchet.sandbox.v1 import diagnostics_pb2 as pb
from ratchet_kit.faults import Faults
from ratchet_kit.times import duration_to_proto
from sandbox_service.convert.executions import verdict_to_proto
from sandbox_service.domain.audit import Finding
from sandbox_service.domain.grading import clip
from sandbox_service.domain.node_speed import Measurement

_PROGRAMS = 1000
_MIXED = 300


@dataclass(frozen=True, slots=True)
class AuditCall:
    """`names` of attacks and honest programs, none for all; `mixed` programs in a mixed run."""

    names: tuple[str, ...]
    mixed: int


def audit_from_proto(request: pb.AuditRequest) -> AuditCall:
    """Raises InvalidArgument."""
    mixed = request.mixed if request.HasField("mixed") else 0 if request.attacks else _MIXED
    faults = Faults()
    faults.bounds("mixed", mixed, at_least=0, at_most=1_000_000)
    faults.raise_if_any()
    return AuditCall(tuple(request.attacks), mixed)


def benchmark_size(request: pb.BenchmarkRequest) -> int:
    """Programs per line. Raises InvalidArgument."""
    programs = request.programs if request.HasField("programs") else _PROGRAMS
    faults = Faults()
    faults.bounds("programs", programs, at_least=1, at_most=100_000)
    faults.raise_if_any()
    return programs


def measurement_to_proto(measurement: Measurement) -> pb.BenchmarkResponse:
    return pb.BenchmarkResponse(
        name=measurement.name,
        programs_per_second=measurement.rate,
        of_limit=measurement.of_limit,
        p50=duration_to_proto(measurement.p50),
        p99=duration_to_proto(measurement.p99),
    )


def finding_to_proto(finding: Finding, total: int) -> pb.AuditResponse:
    return pb.AuditResponse(
        attack=finding.name,
        kind=pb.AttackKind.Value(f"ATTACK_KIND_{finding.kind.name if finding.kind else 'UNSPECIFIED'}"),
        title=finding.title,
        caught=finding.good,
        verdict=verdict_to_proto(finding.verdict) if finding.verdict else verdict_pb2.VERDICT_UNSPECIFIED,
        detail=clip(finding.detail),
        total=total,
    )
