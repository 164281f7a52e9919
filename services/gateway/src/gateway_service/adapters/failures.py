"""FailureSource on trainer, eval and registry."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from gateway_service.domain.failures import FailedResource, Kind
from ratchet.eval.v1 import eval_pb2
from ratchet.registry.v1 import registry_pb2
from ratchet.trainer.v1 import trainer_pb2
from ratchet_kit import refs
from ratchet_kit.grpc_errors import rpc_errors
from ratchet_kit.times import timestamp_from_proto, timestamp_to_proto


class RunFailures:
    def __init__(self, stub: Any) -> None:
        self._stub = stub

    async def latest(self, after_time: datetime, limit: int) -> Sequence[FailedResource]:
        request = trainer_pb2.ListRunsRequest(
            page_size=limit, state=trainer_pb2.Run.STATE_FAILED, after_time=timestamp_to_proto(after_time)
        )
        with rpc_errors():
            runs = (await self._stub.ListRuns(request)).runs
        return [_failed(Kind.RUN, run.id, run.spec.display_name or _model(run.spec.base), run) for run in runs]


class EvaluationFailures:
    def __init__(self, stub: Any) -> None:
        self._stub = stub

    async def latest(self, after_time: datetime, limit: int) -> Sequence[FailedResource]:
        request = eval_pb2.ListEvaluationsRequest(
            page_size=limit, state=eval_pb2.Evaluation.STATE_FAILED, after_time=timestamp_to_proto(after_time)
        )
        with rpc_errors():
            found = (await self._stub.ListEvaluations(request)).evaluations
        return [_failed(Kind.EVALUATION, one.id, one.spec.display_name or _measured(one), one) for one in found]


class VersionFailures:
    def __init__(self, stub: Any) -> None:
        self._stub = stub

    async def latest(self, after_time: datetime, limit: int) -> Sequence[FailedResource]:
        request = registry_pb2.ListVersionsRequest(
            model="-",
            page_size=limit,
            state=registry_pb2.Version.STATE_FAILED,
            after_time=timestamp_to_proto(after_time),
        )
        with rpc_errors():
            found = (await self._stub.ListVersions(request)).versions
        return [_failed(Kind.VERSION, f"{one.ref.model}@{one.ref.number}", one.source_uri, one) for one in found]


def _failed(kind: Kind, id: str, name: str, message: Any) -> FailedResource:
    end = message.end_time if message.HasField("end_time") else message.create_time
    return FailedResource(kind, id, name, message.failure.message, timestamp_from_proto(end))


def _model(ref: Any) -> str:
    return str(refs.model_from_proto(ref)) if ref.WhichOneof("ref") else ""


def _measured(one: eval_pb2.Evaluation) -> str:
    sets = ", ".join(entry.problems.name for entry in one.spec.suite) or one.spec.problems.name
    named = f"{one.version.model}@{one.version.number}" if one.HasField("version") else _model(one.spec.model)
    return f"{named or 'imported samples'} on {sets}"
