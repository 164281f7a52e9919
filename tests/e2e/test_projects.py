"""Two teams on one real platform: one works, the other tries everything that REST offers on what is there. Part of
`make e2e-full`; test_scoped.py of the gateway has the same walk over its RPCs in `make test`."""

import collections
import itertools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from google.protobuf import descriptor_pool, message_factory
from google.protobuf.message import Message

from ratchet.common.v1 import access_pb2, model_pb2, problem_pb2
from ratchet.eval.v1 import eval_pb2
from ratchet.sandbox.v1 import program_pb2
from ratchet.trainer.v1 import trainer_pb2
from ratchet_client import Client
from ratchet_client.calls import request_of
from ratchet_client.datasets import settled, upload
from ratchet_kit import projects
from ratchet_problems import load
from ratchet_protos.http import rules
from ratchet_testing.requests import fill, text_fields

from .conftest import Platform

pytestmark = [pytest.mark.e2e, pytest.mark.full, pytest.mark.timeout(1500)]

STARTER = Path(__file__).parents[2] / "models" / "starter"
SERVICES = (
    "gateway.v1.GatewayService",
    "gateway.v1.ReleaseService",
    "gateway.v1.ExperimentService",
    "gateway.v1.KeyService",
    "gateway.v1.PlatformService",
    "gateway.v1.TrafficService",
    "gateway.v1.WebhookService",
    "trainer.v1.TrainerService",
    "rollout.v1.RolloutService",
    "eval.v1.EvalService",
    "eval.v1.PreferenceService",
    "registry.v1.RegistryService",
    "registry.v1.DatasetService",
    "sandbox.v1.BatchService",
    "sandbox.v1.ProgramService",
)
NAMES = frozenset({"model", "models", "name", "reward", "benchmark", "problems", "problem_set", "made_of", "other_set"})


@dataclass(frozen=True)
class Team:
    secret: str
    client: Client


@pytest.fixture
def teams(platform: Platform, client: Client) -> Iterator[Mapping[str, Team]]:
    with ExitStack() as stack:
        found = {}
        for name in ("acme", "beta"):
            made = client.keys.create(name, [access_pb2.SCOPE_ADMIN], project=name, keep_traffic=True)
            found[name] = Team(made.secret, stack.enter_context(Client(client.url, made.secret, timeout_s=120)))
        yield found


def work(platform: Platform, beta: Client, operator: Client, folder: Path) -> Sequence[str]:
    """Names and ids of what a team makes."""
    operator.models.create_version("beta~coder", str(STARTER))
    assert operator.models.wait_version("beta~coder", 1).policy_id
    lines = [json.dumps(one.to_json()) + "\n" for one in load("composed/train", limit=12)]
    (folder / "train.jsonl").write_text("".join(lines))
    mine = settled(beta.datasets, upload(beta.datasets, "beta~mine", {"train": folder / "train.jsonl"}))
    assert platform.ratchet("new", "reward", "brevity", "--folder", str(folder)).returncode == 0
    beta.rewards.create("beta~brevity", (folder / "brevity.py").read_text())
    coder = model_pb2.ModelRef(version=model_pb2.VersionRef(model="beta~coder", number=1))
    problems = problem_pb2.ProblemSetRef(name="beta~mine/train", limit=2)
    measured = beta.evaluations.create(eval_pb2.EvaluationSpec(model=coder, problems=problems))
    assert beta.evaluations.wait(measured.id).state == eval_pb2.Evaluation.STATE_SUCCEEDED
    again = beta.evaluations.create(eval_pb2.EvaluationSpec(model=coder, problems=problems))
    small = trainer_pb2.Hyperparameters(batch_size=4, group_size=2, max_prompt_tokens=192, max_response_tokens=32)
    spec = trainer_pb2.RunSpec(
        base=coder,
        problems=problem_pb2.ProblemSetRef(name="beta~mine/train"),
        algorithm=trainer_pb2.ALGORITHM_GRPO,
        hyperparameters=small,
        steps=1,
        output_model="beta~coder",
    )
    spec.reward.components.add(name="beta~brevity", weight=1.0)
    run = beta.runs.wait(beta.runs.create(spec).id)
    assert run.state == trainer_pb2.Run.STATE_SUCCEEDED, run.failure.message
    assert (run.version.model, run.version.number) == ("beta~coder", 2)
    batch = beta.batches.create([program_pb2.Program(source="print(1)")])
    answered = beta.chat("beta~coder@1", "say hi")
    found = {
        "model": "beta~coder",
        "version": "beta~coder@1",
        "alias": "beta~coder:champion",
        "set": mine.name,
        "split": f"{mine.name}@{mine.number}/train",
        "reward": "beta~brevity",
        "evaluation": measured.id,
        "other evaluation": again.id,
        "run": run.id,
        "batch": batch.id,
        "key": next(iter(beta.keys.list())).id,
        "completion": answered.id,
    }
    return list(found.values())


def request(http: httpx.Client, message: Message) -> tuple[int, str]:
    sent = request_of(message)
    reply = http.request(sent.verb, sent.path, params=sent.query, json=sent.body if sent.verb != "GET" else None)
    return reply.status_code, reply.text


def missing(thing: str) -> str:
    """The same, of what nobody has."""
    if "~" in thing:
        return re.sub("~([a-z]+)", lambda name: f"~{name[1][::-1]}", thing)
    return re.sub("(_[0-9A-Z]{25})(.)", lambda id: id[1] + ("1" if id[2] == "0" else "0"), thing)


def attempts(things: Iterable[str]) -> Iterator[tuple[str, Message, Message]]:
    """Each RPC of REST, with each thing in each field that may name one; and with what is not there."""
    pool = descriptor_pool.Default()
    for method in itertools.chain(*(pool.FindServiceByName(f"ratchet.{name}").methods for name in SERVICES)):
        kind = message_factory.GetMessageClass(method.input_type)
        texts = text_fields(method.input_type, ("request_id", "prompt"))
        fields = [path for path in texts if path[-1] in NAMES or path[-1].endswith(("id", "ids"))]
        for thing, path in itertools.product(things, fields if rules(method) else ()):
            variables = {variable for rule in rules(method)[:1] for variable in rule.variables}
            if "/" in thing and variables:
                continue  # no segment of a path
            messages = kind(), kind()
            for message, named in zip(messages, (thing, missing(thing)), strict=True):
                for field in variables | {".".join(path)}:
                    fill(message, field.split("."), named)
            yield ".".join([method.name, *path]), *messages


def test_another_team_finds_nothing(
    platform: Platform, teams: Mapping[str, Team], client: Client, tmp_path: Path
) -> None:
    things = work(platform, teams["beta"].client, client, tmp_path)
    before = {kind: len(list(listed())) for kind, listed in lists(teams["beta"].client).items()}
    headers = {"authorization": f"Bearer {teams['acme'].secret}"}
    tried = collections.Counter[int]()
    with httpx.Client(base_url=client.url, headers=headers, timeout=60) as acme:
        for name, there, not_there in attempts(things):
            found, nothing = request(acme, there), request(acme, not_there)
            for thing in things:
                nothing = nothing[0], nothing[1].replace(missing(thing), thing)
            assert found == nothing, name
            assert found[0] in (403, 404), (name, found)
            tried[found[0]] += 1
        assert tried.total() >= 1000, tried
        pages = {path: acme.get(path).text for path in LISTS}
    # By its names and ids: versions of the platform's own, which all read, have settings such as DPO's beta.
    told = {path: re.findall(r".{0,60}(?:beta~|-beta\b).{0,20}", page) for path, page in pages.items()}
    assert not any(told.values()), told
    hidden = [path for path, page in pages.items() if projects.ANOTHERS in page]
    assert hidden in ([], [AUDIT]), "where a team finds nothing, nothing is hidden"
    of_others = [one for one in json.loads(pages[AUDIT])["entries"] if projects.ANOTHERS in json.dumps(one)]
    assert of_others, "the attempts are its own"
    assert {one["code"] for one in of_others} <= {"NOT_FOUND", "PERMISSION_DENIED"}, of_others
    assert all(list(listed()) == [] for kind, listed in lists(teams["acme"].client).items() if kind not in SHARED)
    assert before == {kind: len(list(listed())) for kind, listed in lists(teams["beta"].client).items()}
    same = teams["acme"].client.keys.create("mine", request_id="taken")
    assert teams["beta"].client.keys.create("mine", request_id="taken").key.id != same.key.id


SHARED = ("models", "datasets")
"""Some of the platform's own are there."""
AUDIT = "/api/v1/audit"
LISTS = [
    f"/api/v1/{path}"
    for path in (
        "models",
        "models/-/versions",
        "datasets",
        "rewards",
        "runs",
        "evaluations",
        "preferences",
        "batches",
        "releases",
        "experiments",
        "keys",
        "audit",
        "traffic",
        "traffic/pairs",
        "traffic/problems",
        "webhooks",
        "failures",
        "platform",
    )
] + ["/v1/models"]


def lists(client: Client) -> Mapping[str, Callable[[], Iterable[object]]]:
    return {
        "models": client.models.list,
        "datasets": client.datasets.list,
        "rewards": client.rewards.list,
        "runs": client.runs.list,
        "evaluations": client.evaluations.list,
        "batches": client.batches.list,
    }
