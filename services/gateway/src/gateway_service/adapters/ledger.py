"""Ledger on trainer, eval and registry: what their lists say."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from gateway_service.domain.keys.quotas import Used
from ratchet.eval.v1 import eval_pb2
from ratchet.registry.v1 import dataset_pb2, registry_pb2
from ratchet.trainer.v1 import trainer_pb2
from ratchet_kit import projects
from ratchet_kit.grpc_errors import rpc_errors
from ratchet_kit.times import timestamp_to_proto

PAGE = 1000
WAITING = (trainer_pb2.Run.STATE_QUEUED, trainer_pb2.Run.STATE_STARTING, trainer_pb2.Run.STATE_RUNNING)


class GrpcLedger:
    def __init__(self, trainer: Any, evaluation: Any, registry: Any, datasets: Any) -> None:
        """Stubs."""
        self._trainer = trainer
        self._evaluation = evaluation
        self._registry = registry
        self._datasets = datasets

    async def used(self, project: str, since: datetime) -> Used:
        with projects.acting(project), rpc_errors():
            waiting = [await self._runs(state=state) for state in WAITING]
            done = [*await self._runs(after_time=since), *await self._evaluations(since)]
            stored = await self._version_bytes(project) + await self._dataset_bytes(project)
        return Used(
            sum(map(len, waiting)),
            sum(_seconds(it.usage.gpu_time) for it in done),
            sum(_seconds(it.usage.cpu_time) + _seconds(it.usage.sandbox_time) for it in done),
            stored,
            sum(it.usage.cost for it in done),
        )

    async def _runs(
        self,
        state: trainer_pb2.Run.State.ValueType = trainer_pb2.Run.STATE_UNSPECIFIED,
        after_time: datetime | None = None,
    ) -> Sequence[Any]:
        after = timestamp_to_proto(after_time) if after_time else None
        return await _all(self._trainer.ListRuns, trainer_pb2.ListRunsRequest(state=state, after_time=after), "runs")

    async def _evaluations(self, since: datetime) -> Sequence[Any]:
        request = eval_pb2.ListEvaluationsRequest(after_time=timestamp_to_proto(since))
        return await _all(self._evaluation.ListEvaluations, request, "evaluations")

    async def _version_bytes(self, project: str) -> int:
        found = await _all(self._registry.ListVersions, registry_pb2.ListVersionsRequest(model="-"), "versions")
        return sum(it.size_bytes for it in found if projects.owned_by(it.ref.model, project))

    async def _dataset_bytes(self, project: str) -> int:
        found = await _all(self._datasets.ListDatasets, dataset_pb2.ListDatasetsRequest(), "datasets")
        splits = [split for it in found if projects.owned_by(it.name, project) for split in it.splits]
        return sum(split.content_bytes or split.size_bytes for split in splits)


async def _all(call: Any, request: Any, field: str) -> Sequence[Any]:
    request.page_size, found = PAGE, list[Any]()
    while True:
        reply = await call(request)
        found += getattr(reply, field)
        if not reply.next_page_token:
            return found
        request.page_token = reply.next_page_token


def _seconds(duration: Any) -> float:
    return float(duration.ToTimedelta().total_seconds())
