"""A service as both doors call it: a key of a project reaches what is the project's, and learns of nothing else.

Whose a thing is stands in its id or name (`ratchet_kit.projects`), so this one place decides for every RPC, before
anything is looked up: what exists and is another's gets the answer of what does not exist. An RPC that is not in the
tables below is for keys of the platform's own project alone; test_scoped.py walks all of them.
"""

from collections.abc import AsyncIterator, Callable, Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from enum import Enum
from functools import cache
from typing import Any

import grpc
from google.protobuf import descriptor_pool
from google.protobuf.descriptor import FieldDescriptor, MethodDescriptor
from google.protobuf.message import Message

import ratchet_benchmarks
from gateway_service.domain.keys.caller import caller
from gateway_service.domain.keys.quotas import Quotas
from ratchet.common.v1 import priority_pb2
from ratchet_benchmarks import users
from ratchet_kit import projects
from ratchet_kit.errors import InvalidArgument, NotFound, PermissionDenied, RatchetError
from ratchet_kit.grpc_errors import rpc_errors
from ratchet_kit.names import DatasetRef
from ratchet_protos.http import Rule, rules

SHARED = frozenset(
    {
        "GetModel",
        "GetVersion",
        "ListVersions",
        "WatchVersion",
        "GetDataset",
        "WatchDataset",
        "ReadDataset",
        "ListFindings",
        "GetReward",
    }
)
"""RPCs whose path may name what is the platform's own, which all read. Elsewhere what a path names is the project's."""
OWN = {
    "CreateModel": ("name",),
    "CreateReward": ("name",),
    "CreateDataset": ("name",),
    "CreateRun": ("spec.output_model",),
    "ExportCheckpoint": ("run_id", "model"),
    "CreateRelease": ("spec.candidate.model",),
    "CreateExperiment": ("spec.variants.version.model",),
    "PlanExperiment": ("model",),
    "CreateFeedback": ("completion_id", "choice.over_id"),
} | dict.fromkeys(
    (
        "Complete",
        "StreamComplete",
        "CreateEvaluation",
        "CompareEvaluations",
        "PlanComparison",
        "CreatePair",
        "RankEvaluations",
        "CreateKey",
        "CreateWebhook",
        "CreateWorkflow",
        "CreateSchedule",
        "ListWorkflows",
        "ListSchedules",
        "CreateBatch",
        "Execute",
        "Grade",
        "ForgetTraffic",
        "ListReleases",
        "ListExperiments",
        "ListKeys",
        "ListAuditEntries",
        "ListExchanges",
        "ListPreferencePairs",
        "ListAcceptedProblems",
        "ListWebhooks",
        "ListRuns",
        "ListEvaluations",
        "ListPairs",
        "ListModels",
        "ListRewards",
        "ListDatasets",
        "ListBatches",
        "GetCosts",
        "GetFailures",
        "GetPlatform",
        "GetCatalogue",
        "GetCapabilities",
    ),
    (),
)
"""The fields that name what is to be the project's, of RPCs whose path has no variable, or not all of them. Others may
name what is shared."""
MODELS = {
    "CreateRun": ("spec.output_model",),
    "CreateEvaluation": ("spec.model.model", "spec.model.version.model", "spec.model.alias.model"),
    "CreateVersion": ("model",),
}
"""Fields that name the model whose quota must have room."""
TEXTS = {
    *("args", "arguments", "code", "completion", "content", "description", "expected", "expected_stdout", "prompt"),
    *("json_schema", "parameters", "raises", "solution", "source", "stdin", "stop", "suffix", "system", "text"),
    "chat_template",
}
"""Fields of what people, programs and models write: no reference."""
WRITTEN = TEXTS | {"request_id", "next_page_token"}
"""Fields of a reply that are no reference."""
EPISODES = frozenset(
    {
        "ratchet.eval.v1.GetEpisodeResponse.record",
        "ratchet.gateway.v1.GetTrafficEpisodeResponse.session",
        "ratchet.trainer.v1.GetTrainingSampleResponse.record",
    }
)
"""Fields of what was said in an episode, all of it the project's own."""
LABELS = TEXTS | {
    *("display_name", "key", "page_token", "reason", "request_id", "role", "routing_key", "session", "user", "value"),
    "voter",
}
"""Fields of a request that are no reference."""
PLACES = frozenset({"uri", "source_uri", "artifact_uri"})
"""Fields of folders and URLs. A project gives none, and sees none in which there is an id of another's."""
SETS = frozenset({"ratchet.common.v1.ProblemSetRef.name", "ratchet.common.v1.ProblemRef.problem_set"})
"""Fields of sets by name; a file on the platform's machine goes there as well."""


class Scoped:
    """Stands for a stub or a servicer, method by method."""

    def __init__(self, backend: object, service: str, quotas: Quotas) -> None:
        """`service`: its full name."""
        for method in descriptor_pool.Default().FindServiceByName(service).methods:
            if hasattr(backend, method.name):  # of some services the gateway answers a part
                call = getattr(backend, method.name)
                wrapped = _stream(method, call) if method.server_streaming else _unary(method, call, quotas)
                setattr(self, method.name, wrapped)


def _unary(method: MethodDescriptor, call: Callable[..., Any], quotas: Quotas) -> Callable[..., Any]:
    async def scoped(request: Message, *more: object) -> Message:
        project = admitted(method, request)
        with projects.acting(project), _errors():
            models = [one for path in MODELS.get(method.name, ()) for one in _values([request], path.split("."))]
            async with quotas.room(method.name, project, caller(), models):
                return hidden(await call(request, *more))

    return scoped


def _stream(method: MethodDescriptor, call: Callable[..., Any]) -> Callable[..., Any]:
    async def scoped(request: Message, *more: object) -> AsyncIterator[Message]:
        admitted(method, request)
        replies = call(request, *more)
        try:
            with _errors():
                async for reply in replies:
                    yield hidden(reply)
        finally:
            if isinstance(replies, grpc.aio.Call):
                replies.cancel()
            else:
                await replies.aclose()

    return scoped


def admitted(method: MethodDescriptor, request: Message) -> str:
    """The project that the caller acts for: its key's, or that of what an administrator of the platform names.

    Raises NotFound for what is another's, PermissionDenied for what is shared and would be changed, and for an RPC that
    is not for projects.
    """
    project, found = caller().view, rules(method)
    texts = list(_texts(request, LABELS))
    if not project:
        is_read = found and found[0].verb == "GET"
        named = {projects.project_of(text) for _, text in texts} - {""}
        return "" if is_read else named.pop() if len(named) == 1 else projects.DEFAULT
    for _, text in texts:
        if not projects.seen_by(text, project):
            raise NotFound(f"{text[:200]} does not exist")
    if project != projects.DEFAULT:
        _check_own(method, found[0] if found else None, request, project)
        if _is_urgent(request):
            raise PermissionDenied("high priority, which takes the place of other projects' work, is the operator's")
        for field, text in texts:
            if field.name in PLACES or (field.full_name in SETS and _is_file(text)):
                rule = "a project names models and data sets; folders, files and URLs are the operator's"
                raise PermissionDenied(f"{text[:200]}: {rule}")
    return project


def _check_own(method: MethodDescriptor, rule: Rule | None, request: Message, project: str) -> None:
    paths = rule.variables if rule else ()
    if not paths and method.name not in OWN:
        raise PermissionDenied(f"{method.name} is not for keys of a project")
    for path in OWN.get(method.name, () if method.name in SHARED else paths[:1]):
        for text in _values([request], path.split(".")):
            if not text or projects.owned_by(text, project):
                continue
            if path.endswith("id"):
                raise NotFound(f"{text[:200]} does not exist")
            raise PermissionDenied(f"{text[:200]} is not of project {project}, whose names begin with {project}~")


def _is_file(name: str) -> bool:
    """True for what a service would look for on its disk: the name of no data set, benchmark or set of our own."""
    if users.is_path(name) or name.startswith((".", "~", "/")):
        return True
    if name.partition("/")[0].partition("@")[0] in ratchet_benchmarks.BENCHMARKS:
        return False
    try:
        DatasetRef.parse(name)
    except InvalidArgument:
        return "/" in name
    return False


def _is_urgent(message: Message) -> bool:
    fields = message.ListFields()
    if any(field.name == "priority" and value == priority_pb2.PRIORITY_HIGH for field, value in fields):
        return True
    return any(_is_urgent(value) for _, value in fields if isinstance(value, Message))


@contextmanager
def _errors() -> Iterator[None]:
    """As `rpc_errors`; what the sentence names of another project's is masked, as in a reply."""
    try:
        with rpc_errors():
            yield
    except RatchetError as error:
        if project := caller().view:
            error.message = projects.without_others(error.message, project)
            error.args = (error.message,)
            if isinstance(error, InvalidArgument):
                error.violations = tuple(
                    replace(one, description=projects.without_others(one.description, project))
                    for one in error.violations
                )
        raise


def hidden(reply: Message) -> Message:
    """The reply, without references to what the caller does not see: a run that waits names the one before it, say."""
    if project := caller().view:
        _hide(reply, project)
    return reply


def _values(messages: Sequence[Any], names: Sequence[str]) -> Sequence[str]:
    """Texts of a field, at the end of a path through messages and lists of them."""
    for name in names:
        found = [getattr(message, name) for message in messages]
        messages = [one for value in found for one in ([value] if isinstance(value, str | Message) else value)]
    return messages


def _texts(message: Message, without: Container[str]) -> Iterator[tuple[FieldDescriptor, str]]:
    """Each text in a message, with its field."""
    for field, value in message.ListFields():
        if field.name not in without:
            for one in _each(field, value):
                if isinstance(one, Message):
                    yield from _texts(one, without)
                elif isinstance(one, str):
                    yield field, one


def _each(field: FieldDescriptor, value: Any) -> Iterable[Any]:
    if _kind(field) is _Kind.MAP:
        return [*value.keys(), *value.values()]
    return value if field.is_repeated else [value]


class _Kind(Enum):
    MAP, MESSAGE, TEXT, OTHER = range(4)


@cache
def _kind(field: FieldDescriptor) -> _Kind:
    if field.message_type:
        return _Kind.MAP if field.message_type.GetOptions().map_entry else _Kind.MESSAGE
    return _Kind.TEXT if field.type == field.TYPE_STRING else _Kind.OTHER


def _hide(message: Message, project: str) -> None:
    for field, value in message.ListFields():
        kind = _kind(field)
        if kind is _Kind.OTHER or field.name in WRITTEN or field.full_name in EPISODES:
            continue
        if kind is _Kind.MAP:
            for key in list(value):
                if isinstance(value[key], Message):
                    _hide(value[key], project)
                elif isinstance(value[key], str):
                    value[key] = projects.without_others(value[key], project)
        elif kind is _Kind.MESSAGE:
            for one in value if field.is_repeated else [value]:
                _hide(one, project)
        elif field.is_repeated:
            value[:] = [projects.without_others(one, project) for one in value]
        elif not projects.seen_by(value, project):
            setattr(message, field.name, "" if field.name in PLACES else projects.without_others(value, project))
