"""The SDK: one class per resource, each method one request to the gateway."""

import json
import os
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx
from google.protobuf import json_format
from google.protobuf.message import Message
from httpx_sse import connect_sse

from ratchet.eval.v1 import eval_pb2
from ratchet.gateway.v1 import gateway_pb2
from ratchet.registry.v1 import registry_pb2
from ratchet.trainer.v1 import trainer_pb2
from ratchet_client.errors import ApiError, Unreachable
from ratchet_client.local.layout import Home

M = TypeVar("M", bound=Message)

DEFAULT_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class Answer:
    """What a completion request gave."""

    id: str
    text: str
    version: str


class Client:
    """A connection to a gateway. Use it as a context manager, or close() it.

    Without arguments: RATCHET_URL and RATCHET_API_KEY, else the platform that `ratchet up` started on this machine.
    Every method raises ApiError when the platform refuses and Unreachable when nothing answers.
    """

    def __init__(
        self, url: str | None = None, api_key: str | None = None, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> None:
        url, api_key = _address(url, api_key)
        self.url = url
        headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._http = httpx.Client(base_url=url, headers=headers, timeout=timeout_s)
        self.runs = Runs(self)
        self.evaluations = Evaluations(self)
        self.models = Models(self)
        self.releases = Releases(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def chat(
        self, model: str, message: str, *, temperature: float = 1.0, max_tokens: int = 256, routing_key: str = ""
    ) -> Answer:
        """One chat completion of one user message."""
        body: dict[str, Any] = {
            "model": model,
            "messages": [{"role": "user", "content": message}],
            "temperature": temperature,
            "max_tokens": max_tokens,
        }
        if routing_key:
            body["user"] = routing_key
        reply = self._request("POST", "/v1/chat/completions", body)
        return Answer(reply["id"], reply["choices"][0]["message"]["content"], reply["model"])

    def feedback(
        self, completion_id: str, *, score: float | None = None, problem_set: str = "", problem_id: str = ""
    ) -> float:
        """Scores a completion in [0, 1], or has the tests of a problem score it in the sandbox; returns the score."""
        body: dict[str, Any] = {"completion_id": completion_id}
        if score is not None:
            body["score"] = score
        else:
            body["problem"] = {"problem_set": problem_set, "problem_id": problem_id}
        return float(self._request("POST", "/api/v1/feedback", body).get("score", 0.0))

    def _request(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, query: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        try:
            response = self._http.request(method, path, json=body, params=query)
        except httpx.TransportError as error:
            raise Unreachable(f"No answer from {self.url}: {error}. Is the platform up? (ratchet status)") from error
        if response.is_success:
            return dict(response.json()) if response.content else {}
        raise _refusal(response)

    def _get(self, path: str, shape: type[M], query: Mapping[str, Any] | None = None) -> M:
        return _parse(self._request("GET", path, query=query), shape)

    def _post(self, path: str, message: Message | Mapping[str, Any], shape: type[M]) -> M:
        body = message if isinstance(message, Mapping) else to_json(message)
        return _parse(self._request("POST", path, body), shape)

    def _watch(self, path: str, shape: type[M]) -> Iterator[M]:
        try:
            with connect_sse(self._http, "GET", path, timeout=None) as source:
                if not source.response.is_success:
                    source.response.read()
                    raise _refusal(source.response)
                for event in source.iter_sse():
                    if event.event == "error":
                        raise _error(500, json.loads(event.data))
                    yield _parse(json.loads(event.data), shape)
        except httpx.TransportError as error:
            raise Unreachable(f"The connection to {self.url} broke: {error}") from error


class Runs:
    """Training runs."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def create(self, spec: trainer_pb2.RunSpec, request_id: str = "") -> trainer_pb2.Run:
        request = trainer_pb2.CreateRunRequest(request_id=request_id or uuid.uuid4().hex, spec=spec)
        return self._client._post("/api/v1/runs", request, trainer_pb2.CreateRunResponse).run

    def get(self, run_id: str) -> trainer_pb2.Run:
        return self._client._get(f"/api/v1/runs/{run_id}", trainer_pb2.GetRunResponse).run

    def list(self, page_size: int = 50) -> Sequence[trainer_pb2.Run]:
        return self._client._get("/api/v1/runs", trainer_pb2.ListRunsResponse, {"page_size": page_size}).runs

    def cancel(self, run_id: str) -> trainer_pb2.Run:
        return self._client._post(f"/api/v1/runs/{run_id}/cancel", {}, trainer_pb2.CancelRunResponse).run

    def watch(self, run_id: str) -> Iterator[trainer_pb2.WatchRunResponse]:
        """The run and its new steps at every change, until it has ended."""
        return self._client._watch(f"/api/v1/runs/{run_id}/watch", trainer_pb2.WatchRunResponse)

    def steps(self, run_id: str) -> Sequence[trainer_pb2.Step]:
        """All steps, first to last."""
        found: list[trainer_pb2.Step] = []
        token = ""
        while True:
            page = self._client._get(
                f"/api/v1/runs/{run_id}/steps",
                trainer_pb2.ListStepsResponse,
                {"page_size": 500, "page_token": token},
            )
            found.extend(page.steps)
            token = page.next_page_token
            if not token:
                return found

    def checkpoints(self, run_id: str) -> Sequence[trainer_pb2.Checkpoint]:
        path = f"/api/v1/runs/{run_id}/checkpoints"
        return self._client._get(path, trainer_pb2.ListCheckpointsResponse).checkpoints


class Evaluations:
    """Evaluations and their comparison."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def create(self, spec: eval_pb2.EvaluationSpec, request_id: str = "") -> eval_pb2.Evaluation:
        request = eval_pb2.CreateEvaluationRequest(request_id=request_id or uuid.uuid4().hex, spec=spec)
        return self._client._post("/api/v1/evaluations", request, eval_pb2.CreateEvaluationResponse).evaluation

    def get(self, evaluation_id: str) -> eval_pb2.Evaluation:
        path = f"/api/v1/evaluations/{evaluation_id}"
        return self._client._get(path, eval_pb2.GetEvaluationResponse).evaluation

    def list(self, page_size: int = 50) -> Sequence[eval_pb2.Evaluation]:
        query = {"page_size": page_size}
        return self._client._get("/api/v1/evaluations", eval_pb2.ListEvaluationsResponse, query).evaluations

    def cancel(self, evaluation_id: str) -> eval_pb2.Evaluation:
        path = f"/api/v1/evaluations/{evaluation_id}/cancel"
        return self._client._post(path, {}, eval_pb2.CancelEvaluationResponse).evaluation

    def watch(self, evaluation_id: str) -> Iterator[eval_pb2.Evaluation]:
        """The evaluation at every change, until it has ended."""
        path = f"/api/v1/evaluations/{evaluation_id}/watch"
        for message in self._client._watch(path, eval_pb2.WatchEvaluationResponse):
            yield message.evaluation

    def compare(self, baseline_id: str, candidate_id: str) -> eval_pb2.Comparison:
        body = {"baseline_id": baseline_id, "candidate_id": candidate_id}
        return self._client._post("/api/v1/evaluations/compare", body, eval_pb2.CompareEvaluationsResponse).comparison


class Models:
    """Models, versions, aliases and gates."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def get(self, name: str) -> registry_pb2.Model:
        return self._client._get(f"/api/v1/models/{name}", registry_pb2.GetModelResponse).model

    def list(self) -> Sequence[registry_pb2.Model]:
        return self._client._get("/api/v1/models", registry_pb2.ListModelsResponse).models

    def create_version(
        self, model: str, source_uri: str, *, labels: Mapping[str, str] | None = None, request_id: str = ""
    ) -> registry_pb2.Version:
        request = registry_pb2.CreateVersionRequest(
            request_id=request_id or uuid.uuid4().hex, model=model, source_uri=source_uri, labels=labels or {}
        )
        path = f"/api/v1/models/{model}/versions"
        return self._client._post(path, request, registry_pb2.CreateVersionResponse).version

    def version(self, model: str, number: int) -> registry_pb2.Version:
        path = f"/api/v1/models/{model}/versions/{number}"
        return self._client._get(path, registry_pb2.GetVersionResponse).version

    def versions(self, model: str) -> Sequence[registry_pb2.Version]:
        return self._client._get(f"/api/v1/models/{model}/versions", registry_pb2.ListVersionsResponse).versions

    def set_alias(
        self, model: str, alias: str, version: int, *, reason: str = "", gate_id: str = ""
    ) -> registry_pb2.Model:
        body = {"version": version, "reason": reason, "gate_id": gate_id}
        reply = self._client._request("PUT", f"/api/v1/models/{model}/aliases/{alias}", body)
        return _parse(reply, registry_pb2.SetAliasResponse).model

    def alias_history(self, model: str) -> Sequence[registry_pb2.AliasChange]:
        path = f"/api/v1/models/{model}/aliases/history"
        return self._client._get(path, registry_pb2.ListAliasHistoryResponse).changes

    def create_gate(self, request: registry_pb2.CreateGateRequest) -> registry_pb2.Gate:
        """Decides whether the candidate may replace the champion."""
        if not request.request_id:
            request.request_id = uuid.uuid4().hex
        return self._client._post(
            f"/api/v1/models/{request.model}/gates", request, registry_pb2.CreateGateResponse
        ).gate

    def gates(self, model: str) -> Sequence[registry_pb2.Gate]:
        return self._client._get(f"/api/v1/models/{model}/gates", registry_pb2.ListGatesResponse).gates


class Releases:
    """Gradual releases."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def create(self, spec: gateway_pb2.ReleaseSpec, request_id: str = "") -> gateway_pb2.Release:
        request = gateway_pb2.CreateReleaseRequest(request_id=request_id or uuid.uuid4().hex, spec=spec)
        return self._client._post("/api/v1/releases", request, gateway_pb2.CreateReleaseResponse).release

    def get(self, release_id: str) -> gateway_pb2.Release:
        return self._client._get(f"/api/v1/releases/{release_id}", gateway_pb2.GetReleaseResponse).release

    def list(self, model: str = "") -> Sequence[gateway_pb2.Release]:
        query = {"model": model} if model else {}
        return self._client._get("/api/v1/releases", gateway_pb2.ListReleasesResponse, query).releases

    def rollback(self, release_id: str, reason: str) -> gateway_pb2.Release:
        path = f"/api/v1/releases/{release_id}/rollback"
        return self._client._post(path, {"reason": reason}, gateway_pb2.RollbackReleaseResponse).release

    def watch(self, release_id: str) -> Iterator[gateway_pb2.Release]:
        """The release at every change, until it has ended."""
        for message in self._client._watch(f"/api/v1/releases/{release_id}/watch", gateway_pb2.WatchReleaseResponse):
            yield message.release


def to_json(message: Message) -> dict[str, Any]:
    """A message as REST shows it: field names as in the protos."""
    return dict(json_format.MessageToDict(message, preserving_proto_field_name=True))


def _parse(body: Mapping[str, Any], shape: type[M]) -> M:
    # A newer platform may answer with fields that this SDK does not know yet.
    return json_format.ParseDict(dict(body), shape(), ignore_unknown_fields=True)


def _refusal(response: httpx.Response) -> ApiError:
    try:
        body = response.json()
    except ValueError:
        return ApiError(response.status_code, "UNKNOWN", f"HTTP {response.status_code}: {response.text[:300]}")
    return _error(response.status_code, body)


def _error(status: int, body: Mapping[str, Any]) -> ApiError:
    error = body.get("error") or {}
    code = error.get("code") or error.get("type") or "UNKNOWN"
    return ApiError(status, str(code), str(error.get("message", f"HTTP {status}")), error.get("violations") or ())


def _address(url: str | None, api_key: str | None) -> tuple[str, str | None]:
    url = url or os.environ.get("RATCHET_URL")
    api_key = api_key or os.environ.get("RATCHET_API_KEY")
    if url:
        return url.rstrip("/"), api_key
    home = Home.default()
    state = home.read_state()
    if state is None:
        raise Unreachable(
            f"No platform runs in {home.path}. Start one with `ratchet up`, or set RATCHET_URL and RATCHET_API_KEY."
        )
    return f"http://127.0.0.1:{state.ports['gateway-http']}", api_key or home.admin_key()
