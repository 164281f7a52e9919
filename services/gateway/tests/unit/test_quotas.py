"""What a project, a key and a model may use, and what their callers are told at the end of it."""

import asyncio
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pydantic import ValidationError

from gateway_service.adapters.ledger import GrpcLedger
from gateway_service.domain.keys.caller import ANYBODY
from gateway_service.domain.keys.costs import By, Charge, Kind, sums
from gateway_service.domain.keys.key import Scope
from gateway_service.domain.keys.quotas import Quota, Quotas
from gateway_service.settings import Settings
from ratchet.common.v1 import model_pb2, usage_pb2
from ratchet.eval.v1 import eval_pb2
from ratchet.registry.v1 import dataset_pb2, registry_pb2
from ratchet.trainer.v1 import trainer_pb2
from ratchet_kit import projects
from ratchet_kit.errors import ResourceExhausted
from ratchet_kit.names import VersionRef
from ratchet_kit.times import duration_to_proto
from ratchet_kit.usage import Prices, Usage
from ratchet_testing import ManualClock

from ..world import World

ACME = "01JD3MZ5Y1W4C8T9Q2K7V6B0XA-acme"
KEY = replace(ANYBODY, id=f"key_{ACME}", name="ci")
QUOTA = Quota(runs=2, gpu_seconds=100, cpu_seconds=1000, storage_bytes=1 << 30, cost=50)
PRICES = Prices(currency="EUR", million_prompt_tokens=1e6, million_completion_tokens=2e6)


def run(usage: Usage = Usage(), actor: str = KEY.id, model: str = "acme~coder", id: str = f"run_{ACME}") -> Charge:
    return Charge(Kind.RUN, id, actor, model, usage=usage)


def gpu(seconds: float) -> Charge:
    return run(Usage(gpu_time=timedelta(seconds=seconds)))


def stored(size: int) -> Charge:
    return Charge(Kind.STORED, "acme~coder", KEY.id, "acme~coder", size_bytes=size)


def answered(key: str, tokens: int, model: str = "starter", cost: float | None = None) -> Charge:
    return Charge.of_answers(key, VersionRef(model, 1), 1, Usage(prompt_tokens=tokens, cost=cost, currency="EUR"))


@dataclass
class Books:
    works: list[Charge] = field(default_factory=list)
    runs: list[Charge] = field(default_factory=list)
    things: list[Charge] = field(default_factory=list)
    of_answers: list[Charge] = field(default_factory=list)
    asked: list[datetime] = field(default_factory=list)

    async def entries(self, since: datetime) -> Sequence[Charge]:
        assert not projects.current(), "a key's and a model's are looked for everywhere"
        self.asked.append(since)
        return self.works

    async def waiting(self) -> Sequence[Charge]:
        return self.runs

    async def stored(self) -> Sequence[Charge]:
        return self.things

    async def answers(self, since: datetime) -> Sequence[Charge]:
        return self.of_answers


def quotas(clock: ManualClock, books: Books, prices: Prices | None = PRICES, **of: Quota) -> Quotas:
    return Quotas({name.replace("models_", "models/"): one for name, one in of.items()}, books, books, clock, prices)


COST = Usage(cost=50.2)


@pytest.mark.parametrize(
    ("rpc", "books", "said"),
    [
        ("CreateRun", Books(runs=[run(), run()]), "project acme has used its 2 runs at the same time"),
        ("ResumeRun", Books([gpu(60), gpu(40.5)]), r"project acme has used its 100 GPU-seconds of 20\d\d-\d\d: it may"),
        (
            "CreateEvaluation",
            Books([run(Usage(cpu_time=timedelta(seconds=900), sandbox_time=timedelta(seconds=100)))]),
            "project acme has used its 1,000 CPU-seconds",
        ),
        ("CreateRun", Books([run(COST)]), "project acme has used its 50 in costs of runs, evaluations and answers of"),
        ("CreateEvaluation", Books([run(COST)]), "project acme has used its 50 in costs"),
        ("CreateVersion", Books(things=[stored(1 << 29), stored(1 << 29)]), "bytes of versions and data sets: delete"),
        ("CreateDataset", Books(things=[stored(1 << 31)]), "bytes of versions and data sets: delete"),
        ("CreateDataset", Books([gpu(999)], [run()] * 9), ""),
        ("CancelRun", Books([gpu(999)], [run()] * 9), ""),
    ],
)
async def test_what_is_used_up_is_refused(clock: ManualClock, rpc: str, books: Books, said: str) -> None:
    limits = quotas(clock, books, acme=QUOTA)
    for project in ("acme", "beta", projects.DEFAULT, ""):
        is_over = project == "acme" and said
        with pytest.raises(ResourceExhausted, match=said) if is_over else nullcontext():
            async with limits.room(rpc, project, KEY):
                pass


async def test_keys_and_models_have_budgets_as_projects(clock: ManualClock) -> None:
    books = Books([run(Usage(cost=30.0)), run(Usage(cost=19.0), actor="key_other")])
    budget = Quota(cost=30)
    of_key = Quotas({KEY.id: budget}, books, books, clock)
    with pytest.raises(ResourceExhausted, match=f"API key {KEY.id} has used its 30 in costs"):
        async with of_key.room("CreateRun", "acme", KEY, ["acme~coder"]):
            pass
    async with of_key.room("CreateRun", "acme", replace(KEY, id="key_other"), ["acme~coder"]):
        pass
    of_model = Quotas({"models/acme~coder": replace(budget, cost=49)}, books, books, clock)
    with pytest.raises(ResourceExhausted, match="model acme~coder has used its 49 in costs"):
        async with of_model.room("CreateEvaluation", "acme", KEY, ["acme~coder"]):
            pass
    async with of_model.room("CreateEvaluation", "acme", KEY, ["starter"]):
        pass


async def test_at_80_percent_the_log_has_one_warning(clock: ManualClock, capfd: pytest.CaptureFixture[str]) -> None:
    books = Books()
    limits = quotas(clock, books, acme=QUOTA)
    for seconds, warnings in ((79, 0), (80, 1), (81, 0)):
        books.works = [gpu(seconds)]
        async with limits.room("CreateRun", "acme", KEY):
            pass
        assert "".join(capfd.readouterr()).count("quota.nearly_used") == warnings
    assert (books.asked[0].day, books.asked[0].hour, books.asked[0].tzinfo) == (1, 0, UTC)


async def test_two_at_once_do_not_share_the_last_place(clock: ManualClock) -> None:
    books = Books(runs=[run()])
    limits = quotas(clock, books, acme=QUOTA)

    async def create() -> None:
        async with limits.room("CreateRun", "acme", KEY):
            await asyncio.sleep(0)
            books.runs.append(run())

    ended = await asyncio.gather(create(), create(), return_exceptions=True)
    assert [type(one) for one in ended] == [type(None), ResourceExhausted]


async def test_tokens_are_of_all_keys_of_a_project(clock: ManualClock) -> None:
    first, second = (replace(ANYBODY, id=f"key_01JD3MZ5Y1W4C8T9Q2K7V6B0X{last}-acme") for last in "AB")
    books = Books(of_answers=[answered(first.id, 600), answered(second.id, 390), answered("key_of_another", 5000)])
    limits = quotas(clock, books, acme=Quota(tokens=1000))
    await limits.refresh()
    limits.require(first, "starter")
    limits.spend(second, "starter", 4, 6)
    with pytest.raises(ResourceExhausted, match="project acme has used its 1,000 tokens"):
        limits.require(first, "starter")
    limits.require(ANYBODY, "starter")


async def test_a_keys_month_has_its_tokens_a_warning_before_and_a_refusal_after(
    clock: ManualClock, capfd: pytest.CaptureFixture[str]
) -> None:
    books, key = Books(of_answers=[answered(KEY.id, 500)]), replace(KEY, monthly_tokens=1000)
    limits = quotas(clock, books)
    await limits.refresh()
    limits.spend(key, "starter", 200, 99)
    assert "nearly_used" not in "".join(capfd.readouterr())
    limits.spend(key, "starter", 0, 1)
    limits.spend(key, "starter", 0, 1)
    assert "".join(capfd.readouterr()).count("quota.nearly_used") == 1
    limits.require(key, "starter")
    books.of_answers = [answered(KEY.id, 1000)]  # by another gateway
    await limits.refresh()
    with pytest.raises(ResourceExhausted, match=r"has used its 1,000 tokens of \d{4}-\d\d: it may go on next month"):
        limits.require(key, "starter")
    limits.require(replace(key, monthly_tokens=0), "starter")
    assert limits.tokens(KEY.id) == 1000
    clock.advance(timedelta(days=31))
    limits.require(key, "starter")


async def test_answers_are_paid_from_the_budget_of_runs_and_evaluations(clock: ManualClock) -> None:
    books = Books([run(Usage(cost=20.0), model="starter")], of_answers=[answered("key_x", 9, cost=9.0)])
    limits = quotas(clock, books, models_starter=Quota(cost=50))
    await limits.refresh()
    await limits.refresh_works()
    limits.spend(KEY, "starter", 10, 5)  # costs 20
    limits.require(KEY, "starter")
    limits.spend(KEY, "starter", 1, 0)
    with pytest.raises(ResourceExhausted, match=r"model starter has used its 50 in costs of runs, evaluations and ans"):
        limits.require(KEY, "starter")
    with pytest.raises(ResourceExhausted, match="model starter"):
        async with limits.room("CreateRun", "acme", KEY, ["starter"]):
            pass
    limits.require(KEY, "coder")


@pytest.mark.parametrize("owner", ["ac me", "Acme", "models/", "models/a b"])
def test_an_owner_that_is_none_is_refused_at_the_start(owner: str) -> None:
    with pytest.raises(ValidationError, match=r"quotas|model"):
        Settings(quotas={owner: Quota(runs=1)})
    with pytest.raises(ValidationError, match="storage_bytes is for projects and models"):
        Settings(quotas={KEY.id: Quota(storage_bytes=1)})
    Settings(quotas={one: Quota(runs=1) for one in ("acme", "default", KEY.id, "models/acme~coder")})


class Lists:
    """Of all services: one item to a page."""

    def __init__(self) -> None:
        time = usage_pb2.Usage(gpu_time=duration_to_proto(timedelta(seconds=30)), cost=1.5)
        version = model_pb2.VersionRef(model="coder", number=2)
        self.runs = [
            trainer_pb2.Run(
                id="run_1",
                state=trainer_pb2.Run.STATE_RUNNING,
                usage=time,
                actor="key_1",
                spec=trainer_pb2.RunSpec(
                    output_model="coder", display_name="night, seed 1", base=model_pb2.ModelRef(model="starter")
                ),
            ),
            trainer_pb2.Run(id="run_2", state=trainer_pb2.Run.STATE_SUCCEEDED, usage=time, version=version),
        ]
        measured = eval_pb2.EvaluationSpec(model=model_pb2.ModelRef(model="coder"))
        self.evaluations = [
            eval_pb2.Evaluation(id="eval_1", usage=time, spec=measured, version=version, actor="key_1"),
            eval_pb2.Evaluation(id="eval_2"),
        ]
        self.versions = [
            registry_pb2.Version(ref=model_pb2.VersionRef(model=model, number=1), size_bytes=size)
            for model, size in (("acme~coder", 100), ("starter", 5000))
        ]
        split = dataset_pb2.DatasetSplit(name="train", size_bytes=10, content_bytes=11)
        self.datasets = [dataset_pb2.Dataset(name=name, splits=[split]) for name in ("acme~mine", "x")]

    def _page(self, items: Sequence[Any], request: Any, reply: Any, field: str) -> Any:
        place = int(request.page_token or 0)
        getattr(reply, field).extend(items[place : place + 1])
        reply.next_page_token = str(place + 1) if place + 1 < len(items) else ""
        return reply

    async def ListRuns(self, request: Any) -> Any:
        runs = [run for run in self.runs if request.state in (0, run.state)]
        return self._page(runs, request, trainer_pb2.ListRunsResponse(), "runs")

    async def ListEvaluations(self, request: Any) -> Any:
        return self._page(self.evaluations, request, eval_pb2.ListEvaluationsResponse(), "evaluations")

    async def ListVersions(self, request: Any) -> Any:
        return self._page(self.versions, request, registry_pb2.ListVersionsResponse(), "versions")

    async def ListDatasets(self, request: Any) -> Any:
        return self._page(self.datasets, request, dataset_pb2.ListDatasetsResponse(), "datasets")


async def test_the_ledger_is_what_the_services_list(clock: ManualClock) -> None:
    lists = Lists()
    ledger = GrpcLedger(lists, lists, lists, lists)
    usage = Usage(gpu_time=timedelta(seconds=30), cost=1.5)
    assert await ledger.entries(clock.now()) == [
        Charge(Kind.RUN, "run_1", "key_1", "coder", "starter", "night", usage),
        Charge(Kind.RUN, "run_2", "", "", "coder@2", "", usage),
        Charge(Kind.EVALUATION, "eval_1", "key_1", "coder", "coder@2", "", usage),
        Charge(Kind.EVALUATION, "eval_2", "", "", "(samples)", ""),
    ]
    assert [one.id for one in await ledger.waiting()] == ["run_1"]
    assert [(one.id, one.model, one.size_bytes) for one in await ledger.stored()] == [
        ("acme~coder", "acme~coder", 100),
        ("starter", "starter", 5000),
        ("acme~mine", "", 11),
        ("x", "", 11),
    ]


CHARGES = [
    Charge(Kind.RUN, "run_1", "key_1", "starter", "starter@2", "", Usage(cost=2.0, cpu_time=timedelta(seconds=100))),
    Charge(Kind.RUN, "run_2", "key_2", "", "", "night", Usage(cost=0.5, cpu_time=timedelta(seconds=10))),
    Charge(Kind.RUN, "run_3", "key_2", "", "", "night", Usage(cost=1.0, cpu_time=timedelta(seconds=10))),
    Charge(Kind.EVALUATION, "eval_1", "key_1", "starter", "starter@2", "", Usage(cost=0.25)),
    Charge.of_answers("key_3", VersionRef("starter", 2), 7, Usage(prompt_tokens=70, cost=0.125)),
]


@pytest.mark.parametrize(
    ("by", "named"),
    [
        (By.KEY, {"key_1": (1, 1, 0, 2.25), "key_2": (2, 0, 0, 1.5), "key_3": (0, 0, 7, 0.125)}),
        (By.VERSION, {"starter@2": (1, 1, 7, 2.375), "-": (2, 0, 0, 1.5)}),
        (By.STUDY, {"night": (2, 0, 0, 1.5), "-": (1, 1, 7, 2.375)}),
        (
            By.WORK,
            {
                "run_1": (1, 0, 0, 2.0),
                "run_2": (1, 0, 0, 0.5),
                "run_3": (1, 0, 0, 1.0),
                "eval_1": (0, 1, 0, 0.25),
                "answers of starter@2": (0, 0, 7, 0.125),
            },
        ),
    ],
)
def test_each_has_an_account_and_the_dearest_comes_first(by: By, named: dict[str, tuple[int, int, int, float]]) -> None:
    found = sums(CHARGES, by)
    assert {one.name: (one.runs, one.evaluations, one.answers, one.usage.cost) for one in found.accounts} == named
    costs = [one.usage.cost or 0.0 for one in found.accounts]
    assert costs == sorted(costs, reverse=True)
    whole = found.whole
    assert (whole.runs, whole.evaluations, whole.answers, whole.usage.cost) == (3, 1, 7, 3.875)
    assert whole.usage.cpu_time == timedelta(seconds=120)


def test_without_prices_the_processors_decide() -> None:
    found = sums((run(Usage(cpu_time=timedelta(seconds=cpu)), id=f"run_{cpu}") for cpu in (1, 3, 2)), By.WORK)
    assert [one.name for one in found.accounts] == ["run_3", "run_2", "run_1"]
    assert found.whole.usage.cost is None


async def test_a_run_beyond_the_quota_is_refused_over_rest(world: World) -> None:
    world.settings = world.settings.model_copy(update={"quotas": {"acme": QUOTA, "models/beta~coder": QUOTA}})
    beta = run(model="beta~coder", id="run_01JD3MZ5Y1W4C8T9Q2K7V6B0XA-beta")
    world.ledger = Books(runs=[run(), run(), beta, beta])
    await world.start()
    for project, said in (("acme", "project acme has used"), ("beta", "model beta~coder has used")):
        made = await world.gateway.keys.create("", project, [Scope.TRAIN], project=project)
        async with world.http() as http:
            http.headers["authorization"] = f"Bearer {made.secret}"
            reply = await http.post("/api/v1/runs", json={"spec": {"output_model": f"{project}~coder"}})
        assert (reply.status_code, reply.json()["error"]["code"]) == (429, "RESOURCE_EXHAUSTED")
        assert said in reply.json()["error"]["message"]


async def test_answers_have_a_cost_and_end_with_the_budget_of_their_model(world: World) -> None:
    prices = Prices(currency="EUR", million_prompt_tokens=1e6, million_completion_tokens=1e6)
    limits = {"models/starter": Quota(cost=0.001)}
    world.settings = world.settings.model_copy(update={"quotas": limits, "prices": prices})
    world.completions.prices = prices
    await world.start()
    key = await world.key()
    answer = await world.ask()
    with pytest.raises(ResourceExhausted, match=r"model starter has used its 0\.001 in costs"):
        await world.ask()
    await world.gateway.recorder.flush()
    async with world.http() as http:
        found = (await http.get("/api/v1/costs", params={"by": "BY_KEY"})).json()
    tokens = answer.generation.prompt_tokens + answer.completion_tokens
    [account] = found["accounts"]
    assert (account["name"], account["answers"], account["usage"]["cost"]) == (key.id, "1", tokens)
    assert found["total"]["usage"]["currency"] == "EUR"
    await world.start()
    with pytest.raises(ResourceExhausted, match="model starter"):
        await world.ask()
