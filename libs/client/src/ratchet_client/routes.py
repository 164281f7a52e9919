"""Which HTTP request carries which message: verb and path under the gateway, by the message of the request."""

from collections.abc import Mapping
from dataclasses import dataclass

from google.protobuf.message import Message

from ratchet.eval.v1 import eval_pb2
from ratchet.gateway.v1 import gateway_pb2
from ratchet.registry.v1 import registry_pb2
from ratchet.trainer.v1 import trainer_pb2


@dataclass(frozen=True, slots=True)
class Route:
    verb: str
    path: str
    """Names in braces are fields of the message."""


ROUTES: Mapping[type[Message], Route] = {
    trainer_pb2.CreateRunRequest: Route("POST", "/api/v1/runs"),
    trainer_pb2.ListRunsRequest: Route("GET", "/api/v1/runs"),
    trainer_pb2.GetRunRequest: Route("GET", "/api/v1/runs/{id}"),
    trainer_pb2.CancelRunRequest: Route("POST", "/api/v1/runs/{id}/cancel"),
    trainer_pb2.WatchRunRequest: Route("GET", "/api/v1/runs/{id}/watch"),
    trainer_pb2.ListStepsRequest: Route("GET", "/api/v1/runs/{run_id}/steps"),
    trainer_pb2.ListCheckpointsRequest: Route("GET", "/api/v1/runs/{run_id}/checkpoints"),
    eval_pb2.CreateEvaluationRequest: Route("POST", "/api/v1/evaluations"),
    eval_pb2.ListEvaluationsRequest: Route("GET", "/api/v1/evaluations"),
    eval_pb2.GetEvaluationRequest: Route("GET", "/api/v1/evaluations/{id}"),
    eval_pb2.CancelEvaluationRequest: Route("POST", "/api/v1/evaluations/{id}/cancel"),
    eval_pb2.WatchEvaluationRequest: Route("GET", "/api/v1/evaluations/{id}/watch"),
    eval_pb2.ListSamplesRequest: Route("GET", "/api/v1/evaluations/{evaluation_id}/samples"),
    eval_pb2.CompareEvaluationsRequest: Route("POST", "/api/v1/evaluations/compare"),
    registry_pb2.CreateModelRequest: Route("POST", "/api/v1/models"),
    registry_pb2.ListModelsRequest: Route("GET", "/api/v1/models"),
    registry_pb2.GetModelRequest: Route("GET", "/api/v1/models/{name}"),
    registry_pb2.CreateVersionRequest: Route("POST", "/api/v1/models/{model}/versions"),
    registry_pb2.ListVersionsRequest: Route("GET", "/api/v1/models/{model}/versions"),
    registry_pb2.GetVersionRequest: Route("GET", "/api/v1/models/{model}/versions/{number}"),
    registry_pb2.SetAliasRequest: Route("PUT", "/api/v1/models/{model}/aliases/{alias}"),
    registry_pb2.ListAliasHistoryRequest: Route("GET", "/api/v1/models/{model}/aliases/history"),
    registry_pb2.CreateGateRequest: Route("POST", "/api/v1/models/{model}/gates"),
    registry_pb2.ListGatesRequest: Route("GET", "/api/v1/models/{model}/gates"),
    registry_pb2.GetGateRequest: Route("GET", "/api/v1/gates/{id}"),
    gateway_pb2.CreateReleaseRequest: Route("POST", "/api/v1/releases"),
    gateway_pb2.ListReleasesRequest: Route("GET", "/api/v1/releases"),
    gateway_pb2.GetReleaseRequest: Route("GET", "/api/v1/releases/{id}"),
    gateway_pb2.RollbackReleaseRequest: Route("POST", "/api/v1/releases/{id}/rollback"),
    gateway_pb2.WatchReleaseRequest: Route("GET", "/api/v1/releases/{id}/watch"),
    gateway_pb2.CreateFeedbackRequest: Route("POST", "/api/v1/feedback"),
}
