"""Executions and what a node offers: to protobuf."""

from ratchet.common.v1 import problem_pb2, verdict_pb2
from ratchet.sandbox.v1 import program_pb2 as pb
from ratchet_kit.errors import Failure
from ratchet_kit.grpc_errors import failure_to_proto
from ratchet_kit.times import duration_to_proto
from sandbox_service.domain.capabilities import Capabilities
from sandbox_service.domain.execution import Execution, TestResult, Verdict
from sandbox_service.domain.levels import Level
from sandbox_service.domain.program import Limits
from sandbox_service.domain.stream import Item, PlatformFault


def verdict_to_proto(verdict: Verdict) -> verdict_pb2.Verdict.ValueType:
    if verdict is Verdict.NONE:
        return verdict_pb2.VERDICT_UNSPECIFIED
    return verdict_pb2.Verdict.Value(f"VERDICT_{verdict.name}")


def _level_to_proto(level: Level) -> pb.IsolationLevel.ValueType:
    return pb.IsolationLevel.Value("ISOLATION_LEVEL_UNSPECIFIED" if level is Level.NONE else f"ISOLATION_LEVEL_{level}")


def execution_to_proto(execution: Execution) -> pb.Execution:
    return pb.Execution(
        id=execution.program_id,
        verdict=verdict_to_proto(execution.verdict),
        results=[_result_to_proto(result) for result in execution.results],
        tests_passed=execution.tests_passed,
        tests_total=execution.tests_total,
        stdout=execution.stdout,
        stderr=execution.stderr,
        output_cut=execution.output_cut,
        cpu_time=duration_to_proto(execution.cpu_time),
        wall_time=duration_to_proto(execution.wall_time),
        isolation_layers=execution.layers,
        detail=execution.detail,
        runtime=execution.runtime,
        files=[pb.File(name=file.name, content=file.content) for file in execution.files],
        compile_output=execution.compile_output,
        compile_time=duration_to_proto(execution.compile_time),
        exit_status=execution.exit_status,
        max_memory_bytes=execution.max_memory_bytes,
        level=_level_to_proto(execution.level),
        signs=[str(sighting) for sighting in execution.signs],
        forgeable=execution.forgeable,
        failure=failure_to_proto(Failure("INVALID_ARGUMENT", execution.failure)) if execution.failure else None,
    )


def _result_to_proto(result: TestResult) -> pb.TestResult:
    return pb.TestResult(
        passed=result.passed,
        got=result.got,
        expected=result.expected,
        error=result.error,
        held_out=result.held_out,
        forgeable=result.forgeable,
        by_values=result.by_values,
    )


def item_to_proto(item: Item) -> pb.ExecutionItem:
    if isinstance(item.outcome, PlatformFault):
        return pb.ExecutionItem(index=item.index, platform_error=item.outcome.message)
    return pb.ExecutionItem(index=item.index, execution=execution_to_proto(item.outcome))


def capabilities_to_proto(capabilities: Capabilities, most: Limits) -> pb.GetCapabilitiesResponse:
    return pb.GetCapabilitiesResponse(
        isolation_layers=capabilities.layers,
        python_version=capabilities.python_version,
        lanes=capabilities.lanes,
        level=_level_to_proto(capabilities.level),
        missing_layers=capabilities.missing,
        max_limits=problem_pb2.Limits(
            cpu_time=duration_to_proto(most.cpu_time), memory_bytes=most.memory_bytes, output_bytes=most.output_bytes
        ),
        runtimes=[
            pb.Runtime(name=runtime.name, language=runtime.language, version=runtime.version, packages=runtime.packages)
            for runtime in capabilities.runtimes
        ],
        missing_languages=capabilities.missing_languages,
        processes=capabilities.processes,
    )
