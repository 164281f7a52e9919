"""Ledger on trainer, eval and registry: what their lists say."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from gateway_service.domain.keys.costs import Charge, Kind
from ratchet.common.v1 import model_pb2
from ratchet.eval.v1 import eval_pb2
from ratchet.registry.v1 import dataset_pb2, registry_pb2
from ratchet.trainer.v1 import trainer_pb2
from ratchet_client.names import measured_name, model_name, version_name
from ratchet_kit.grpc_errors import rpc_errors
from ratchet_kit.times import timestamp_to_proto
from ratchet_kit.usage import usage_from_proto

PAGE = 1000
WAITING = (trainer_pb2.Run.STATE_QUEUED, trainer_pb2.Run.STATE_STARTING, trainer_pb2.Run.STATE_RUNNING)


class GrpcLedger:
    def __init__(self, trainer: Any, evaluation: Any, registry: Any, datasets: Any) -> None:
        """Stubs."""
        self._trainer = trainer
        self._evaluation = evaluation
        self._registry = registry
        self._datasets = datasets

    async def entries(self, since: datetime) -> Sequence[Charge]:
        after = timestamp_to_proto(since)
        with rpc_errors():
            runs = await _all(self._trainer.ListRuns, trainer_pb2.ListRunsRequest(after_time=after), "runs")
            request = eval_pb2.ListEvaluationsRequest(after_time=after)
            measured = await _all(self._evaluation.ListEvaluations, request, "evaluations")
        return [*map(_run, runs), *map(_evaluation, measured)]

    async def waiting(self) -> Sequence[Charge]:
        with rpc_errors():
            requests = [trainer_pb2.ListRunsRequest(state=state) for state in WAITING]
            return [_run(run) for one in requests for run in await _all(self._trainer.ListRuns, one, "runs")]

    async def stored(self) -> Sequence[Charge]:
        with rpc_errors():
            request = registry_pb2.ListVersionsRequest(model="-")
            versions = await _all(self._registry.ListVersions, request, "versions")
            sets = await _all(self._datasets.ListDatasets, dataset_pb2.ListDatasetsRequest(), "datasets")
        return [
            *(Charge(Kind.STORED, it.ref.model, "", it.ref.model, size_bytes=it.size_bytes) for it in versions),
            *(Charge(Kind.STORED, it.name, "", size_bytes=_size(it)) for it in sets),
        ]


def _run(run: trainer_pb2.Run) -> Charge:
    version = version_name(run.version) or model_name(run.spec.base)
    study = run.spec.display_name.partition(", seed ")[0]  # runs of a study differ by their seeds alone
    return Charge(Kind.RUN, run.id, run.actor, run.spec.output_model, version, study, usage_from_proto(run.usage))


def _evaluation(one: eval_pb2.Evaluation) -> Charge:
    study, usage = one.spec.display_name.partition(", seed ")[0], usage_from_proto(one.usage)
    return Charge(Kind.EVALUATION, one.id, one.actor, _model(one), measured_name(one), study, usage)


def _model(one: eval_pb2.Evaluation) -> str:
    """Empty for a folder, and for samples."""
    ref: model_pb2.ModelRef = one.spec.model
    return one.version.model or ref.version.model or ref.alias.model or ref.model


def _size(dataset: dataset_pb2.Dataset) -> int:
    return sum(split.content_bytes or split.size_bytes for split in dataset.splits)


async def _all(call: Any, request: Any, field: str) -> Sequence[Any]:
    request.page_size, found = PAGE, list[Any]()
    while True:
        reply = await call(request)
        found += getattr(reply, field)
        if not reply.next_page_token:
            return found
        request.page_token = reply.next_page_token
