"""Audits and benchmarks of a node: from protobuf and to it."""

from ratchet.common.v1 import verdict_pb2
from ratchet.sandbox.v1 import diagnostics_pb2 as pb
from ratchet_kit.faults import Faults
from ratchet_kit.times import duration_to_proto
from sandbox_service.convert.executions import verdict_to_proto
from sandbox_service.domain.audit import Finding
from sandbox_service.domain.benchmark import Measurement
from sandbox_service.domain.grading import clip

_PROGRAMS = 1000


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
        kind=pb.AttackKind.Value(f"ATTACK_KIND_{finding.attack.kind.name}"),
        title=finding.attack.title,
        caught=finding.caught,
        verdict=verdict_to_proto(finding.verdict) if finding.verdict else verdict_pb2.VERDICT_UNSPECIFIED,
        detail=clip(finding.detail),
        total=total,
    )
