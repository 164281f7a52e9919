"""MLflow's tracking server and model registry, spoken to over HTTP (mlflow.org, "REST API").

MLflow's own client is blocking, and tries an address that does not answer for minutes.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from itertools import islice
from typing import Any, TypeVar

import httpx

from ratchet_kit.errors import FailedPrecondition, NotFound, RatchetError, Unavailable
from ratchet_kit.names import VersionRef
from trainer_service.domain.run.run import Run, State, Step
from trainer_service.domain.work.ports import MirroredModel, MirroredVersion, Shown

T = TypeVar("T")

API = "/api/2.0/mlflow"
ARTIFACTS = "mlflow-artifacts:"
RUN_TAG = "ratchet.run"
VERSION_TAG = "ratchet.version"
# What one call of log-batch takes (mlflow.org, "Log Batch").
MOST_METRICS = 1000
MOST_PARAMS = 100
MOST_TEXT = 5000
_STATUS = {State.SUCCEEDED: "FINISHED", State.FAILED: "FAILED", State.CANCELLED: "KILLED"}


@dataclass(frozen=True, slots=True)
class Credentials:
    username: str = ""
    password: str = ""
    token: str = ""


class Mlflow:
    """The tracker "mlflow", and the mirror of the registry's models."""

    name = "mlflow"

    def __init__(
        self,
        address: str,
        credentials: Credentials = Credentials(),
        timeout: float = 30,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        """`timeout`: seconds that the server may be silent. `transport`: instead of the network, as in a test."""
        token = {"Authorization": f"Bearer {credentials.token}"} if credentials.token else {}
        self._http = httpx.AsyncClient(
            base_url=address.rstrip("/"),
            timeout=timeout,
            headers=token,
            auth=(credentials.username, credentials.password) if credentials.username else None,
            transport=transport,
        )
        self._sent: dict[str, Mapping[str, bytes]] = {}

    async def close(self) -> None:
        await self._http.aclose()

    # Runs.

    async def show(self, shown: Shown, key: str) -> str:
        run = shown.run
        known = await self._run(shown, key)
        id = str(known["run_id"])
        if not key:
            for params in _some(sorted(_params(run).items()), MOST_PARAMS):
                await self._post("runs/log-batch", run_id=id, params=_pairs(dict(params)))
        for metrics in _some(_metrics([*shown.steps, *shown.scored]), MOST_METRICS):
            await self._post("runs/log-batch", run_id=id, metrics=metrics)
        await self._upload(shown, id, str(known["artifact_uri"]))
        await self._post("runs/log-batch", run_id=id, tags=_pairs(_tags(run)))
        ended = {"end_time": _ms(run.end_time)} if run.end_time else {}
        await self._post("runs/update", run_id=id, status=_STATUS.get(run.state, "RUNNING"), **ended)
        return id

    async def _run(self, shown: Shown, key: str) -> Mapping[str, Any]:
        """The one under `key`; else one that was made and not heard of; else a new one."""
        if key:
            found: Mapping[str, Any] = (await self._get("runs/get", run_id=key))["run"]["info"]
            return found
        run = shown.run
        experiment = await self._experiment(shown.project)
        wanted = {"experiment_ids": [experiment], "filter": f"tags.`{RUN_TAG}` = '{run.id}'", "max_results": 1}
        runs = (await self._post("runs/search", **wanted)).get("runs", ())
        if not runs:
            tags = _pairs({RUN_TAG: run.id, "mlflow.runName": shown.name, "mlflow.source.name": "ratchet"})
            made = {"experiment_id": experiment, "start_time": _ms(run.start_time or run.create_time), "tags": tags}
            runs = [(await self._post("runs/create", run_name=shown.name, **made))["run"]]
        info: Mapping[str, Any] = runs[0]["info"]
        return info

    async def _experiment(self, name: str) -> str:
        try:
            reply = await self._get("experiments/get-by-name", experiment_name=name)
            return str(reply["experiment"]["experiment_id"])
        except NotFound:
            return str((await self._post("experiments/create", name=name))["experiment_id"])

    async def _upload(self, shown: Shown, id: str, place: str) -> None:
        """The files on record, and what says what the run is. Where the server keeps artifacts in a store that clients
        are to write to by themselves, there are none."""
        if not place.startswith(ARTIFACTS):
            return
        files = dict(shown.files) | _documents(shown)
        folder = httpx.URL(place).path.lstrip("/")
        had = self._sent.get(id, {})
        for name, data in files.items():
            if had.get(name) != data:
                await self._call("PUT", f"/api/2.0/mlflow-artifacts/artifacts/{folder}/{name}", content=data)
        if shown.run.state.is_final:
            self._sent.pop(id, None)
        else:
            self._sent[id] = files

    # Models.

    async def reflect(self, model: MirroredModel, versions: Sequence[MirroredVersion]) -> None:
        try:
            known = (await self._get("registered-models/get", name=model.name))["registered_model"]
        except NotFound:
            made = {"name": model.name, "description": model.description}
            known = (await self._post("registered-models/create", **made))["registered_model"]
        numbers = await self._numbers(model.name)
        for version in versions:
            if version.number not in numbers:
                numbers[version.number] = await self._register(model.name, version)
        aliases = {one["alias"]: str(one["version"]) for one in known.get("aliases", ())}
        wanted = {alias: numbers[number] for alias, number in model.aliases.items() if number in numbers}
        for alias, number in wanted.items():
            if aliases.get(alias) != number:
                await self._post("registered-models/alias", name=model.name, alias=alias, version=number)
        for alias in aliases.keys() - wanted.keys():
            where = {"name": model.name, "alias": alias}
            await self._call("DELETE", f"{API}/registered-models/alias", json=where)

    async def _numbers(self, model: str) -> dict[int, str]:
        """Number here -> number there, of the versions that are there already."""
        found: dict[int, str] = {}
        token = ""
        while True:
            where = {"filter": f"name='{model}'", "max_results": 200, **({"page_token": token} if token else {})}
            page = await self._get("model-versions/search", **where)
            for one in page.get("model_versions", ()):
                tags = {tag["key"]: tag["value"] for tag in one.get("tags", ())}
                if ref := tags.get(VERSION_TAG):
                    found[VersionRef.parse(ref).number] = str(one["version"])
            token = page.get("next_page_token", "")
            if not token:
                return found

    async def _register(self, model: str, version: MirroredVersion) -> str:
        """MLflow takes no local folder as the source of a version: one that lies in such a folder is named."""
        ref = VersionRef(model, version.number)
        tags = {
            VERSION_TAG: str(ref),
            "ratchet.policy_id": version.policy_id,
            "ratchet.artifact": version.uri,
            RUN_TAG: version.run_id,
            **{f"ratchet.{name}": f"{value:g}" for name, value in version.metrics.items()},
        }
        request = {
            "name": model,
            "source": version.uri if "://" in version.uri else f"ratchet://{model}/{version.number}",
            "tags": _pairs({key: value for key, value in tags.items() if value}),
            **({"run_id": version.key} if version.key else {}),
        }
        return str((await self._post("model-versions/create", **request))["model_version"]["version"])

    # HTTP.

    async def _get(self, path: str, **params: Any) -> Any:
        return self._answer(await self._call("GET", f"{API}/{path}", params=params))

    async def _post(self, path: str, **body: Any) -> Any:
        return self._answer(await self._call("POST", f"{API}/{path}", json=body))

    def _answer(self, reply: httpx.Response) -> Any:
        try:
            return reply.json()
        except ValueError as error:
            raise Unavailable(f"{_place(self._http)} does not answer as MLflow does") from error

    async def _call(self, method: str, path: str, **content: Any) -> httpx.Response:
        try:
            reply = await self._http.request(method, path, **content)
        except httpx.TransportError as error:
            raise Unavailable(f"MLflow at {_place(self._http)} cannot be reached: {type(error).__name__}") from error
        if reply.is_error:
            raise _refusal(reply, f"MLflow at {_place(self._http)}")
        return reply


def _refusal(reply: httpx.Response, who: str) -> RatchetError:
    try:
        text = str(reply.json()["message"])
    except (ValueError, KeyError, TypeError):
        text = reply.text
    message = f"{who} says {reply.status_code}: {text.strip().splitlines()[0][:300] if text.strip() else 'nothing'}"
    if reply.status_code == httpx.codes.NOT_FOUND:
        return NotFound(message)
    if reply.status_code >= httpx.codes.INTERNAL_SERVER_ERROR or reply.status_code == httpx.codes.TOO_MANY_REQUESTS:
        return Unavailable(message)
    return FailedPrecondition(message)


def _place(http: httpx.AsyncClient) -> str:
    """Without a user that the address may have."""
    return f"{http.base_url.host}:{http.base_url.port or ''}".rstrip(":")


def _params(run: Run) -> dict[str, str]:
    """What the run was asked to do, but for what is empty."""
    return {name: text[:MOST_TEXT] for name, value in flat(asdict(run.spec)) if (text := str(value))}


def flat(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """The leaves of dicts and lists, under names with dots; without None and what is empty."""
    if isinstance(value, dict):
        for key, one in value.items():
            yield from flat(one, f"{name}.{key}" if name else key)
    elif isinstance(value, (list, tuple)):
        for index, one in enumerate(value):
            yield from flat(one, f"{name}.{index}")
    elif value is not None and value != "":
        yield name, value


def _metrics(steps: Sequence[Step]) -> Iterator[dict[str, Any]]:
    for step in steps:
        time = _ms(step.create_time)
        for name, value in step.metrics.items():
            yield {"key": name, "value": value, "timestamp": time, "step": step.number}


def _tags(run: Run) -> dict[str, str]:
    best = run.best_checkpoint
    tags = {
        "ratchet.state": run.state.name,
        "ratchet.attempt": str(run.attempt),
        "ratchet.version": str(run.version or ""),
        "ratchet.failure": run.failure.message[:MOST_TEXT] if run.failure else "",
        "ratchet.actor": run.actor,
        "ratchet.best_step": str(best.step) if best else "",
        "ratchet.best_model": best.uri if best else "",
        "ratchet.policy_id": best.policy_id if best else "",
    }
    return {key: value for key, value in tags.items() if value}


def _documents(shown: Shown) -> dict[str, bytes]:
    run = shown.run
    checkpoints = [asdict(one) for one in shown.checkpoints]
    notices = [asdict(one) for one in run.notices]
    named = {"spec.json": asdict(run.spec), "checkpoints.json": checkpoints, "notices.json": notices}
    return {name: json.dumps(value, indent=1, default=str).encode() for name, value in named.items() if value}


def _some(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Lists of `size` items, the last of what is left."""
    left = iter(items)
    while some := list(islice(left, size)):
        yield some


def _pairs(values: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"key": key, "value": value} for key, value in values.items()]


def _ms(time: datetime) -> int:
    return int(time.timestamp() * 1000)
