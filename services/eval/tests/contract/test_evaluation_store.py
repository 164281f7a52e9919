"""What every EvaluationStore promises: in memory, on SQLite and on PostgreSQL."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from eval_service.adapters.memory import MemoryEvaluationStore
from eval_service.adapters.sql import SqlEvaluationStore
from eval_service.domain.evaluation import Evaluation, PassAtK, Progress, ResolvedModel, Sample, State
from eval_service.domain.ports import EvaluationStore, SampleKey
from eval_service.domain.spec import EvaluationSpec, ProblemSetRef
from eval_service.domain.statistics import Tally
from ratchet_kit.errors import Aborted, AlreadyExists, Failure, NotFound
from ratchet_kit.idempotency import Request
from ratchet_kit.names import AliasRef, AnyModel, BareModel, Location, VersionRef
from ratchet_kit.sql import Database
from ratchet_kit.statistics import Estimate

NOW = datetime(2026, 1, 1, 12, 30, tzinfo=UTC)
LEASE = timedelta(seconds=30)
SPEC = EvaluationSpec(
    VersionRef("starter", 1),
    ProblemSetRef("basics", 10),
    samples_per_problem=2,
    k=(1, 2),
    temperature=0.7,
    seed=-(2**62),
)


@pytest.fixture(
    params=[
        "memory",
        pytest.param("sqlite", marks=pytest.mark.integration),
        pytest.param("postgresql", marks=pytest.mark.integration),
    ]
)
async def store(request: pytest.FixtureRequest) -> AsyncIterator[EvaluationStore]:
    if request.param == "memory":
        yield MemoryEvaluationStore()
        return
    url = request.getfixturevalue("sqlite_url" if request.param == "sqlite" else "postgres_url")
    async with Database.opened(url, "eval_service") as database:
        yield SqlEvaluationStore(database)


def evaluation(id: str = "eval_1") -> Evaluation:
    return Evaluation(id, SPEC, ResolvedModel("/artifacts/starter", "sha256:p"), NOW)


def sample(problem: str, index: int = 0, verdict: str = "PASSED", completion: str = "def solve(): ...") -> Sample:
    return Sample(problem, index, completion, verdict, 3, 4, "sha256:p", "what was seen")


async def add(store: EvaluationStore, id: str = "eval_1") -> Evaluation:
    return await store.create(evaluation(id), Request(f"req_{id}", "f"))


async def test_a_request_makes_one_evaluation(store: EvaluationStore) -> None:
    assert await store.find(Request("req_1", "f")) is None
    first = await store.create(evaluation(), Request("req_1", "f"))
    assert await store.create(evaluation("eval_2"), Request("req_1", "f")) == first == evaluation()
    assert await store.find(Request("req_1", "f")) == first == await store.get("eval_1")
    for again in (store.find(Request("req_1", "g")), store.create(evaluation("eval_3"), Request("req_1", "g"))):
        with pytest.raises(AlreadyExists, match="used before"):
            await again
    with pytest.raises(NotFound, match="eval_2"):
        await store.get("eval_2")


@pytest.mark.parametrize(
    "model", [AliasRef("starter", "champion"), BareModel("starter"), Location("models"), Location("s3://b/m")]
)
async def test_every_kind_of_model_is_kept(store: EvaluationStore, model: AnyModel) -> None:
    made = replace(evaluation(), spec=replace(SPEC, model=model))
    await store.create(made, Request("req_1", "f"))
    assert await store.get("eval_1") == made


async def test_a_change_is_kept_whole(store: EvaluationStore) -> None:
    await add(store)
    running = await store.change("eval_1", lambda present: present.claim("me", NOW, LEASE))
    assert await store.get("eval_1") == running
    result = [PassAtK(1, Estimate(0.25, 0.125, 0.5)), PassAtK(2, Estimate(0.5, 0.25, 0.75))]
    for change in (
        lambda present: present.load_problems("me", "sha256:d", 7),
        lambda present: present.measure("me", "sha256:p"),
        lambda present: present.succeed("me", result, NOW + LEASE),
    ):
        changed = await store.change("eval_1", change)
        assert await store.get("eval_1") == changed
    assert changed.state is State.SUCCEEDED
    with pytest.raises(NotFound):
        await store.change("eval_2", lambda present: present)


async def test_a_failure_is_kept(store: EvaluationStore) -> None:
    await add(store)
    await store.change("eval_1", lambda present: present.claim("me", NOW, LEASE))
    failure = Failure("UNAVAILABLE", "the sandbox failed 5 times")
    failed = await store.change("eval_1", lambda present: present.fail("me", failure, NOW))
    assert (await store.get("eval_1")) == failed
    assert failed.failure == failure


async def test_a_refused_change_changes_nothing(store: EvaluationStore) -> None:
    await add(store)
    claimed = await store.change("eval_1", lambda present: present.claim("me", NOW, LEASE))
    with pytest.raises(Aborted):
        await store.change("eval_1", lambda present: present.claim("another", NOW, LEASE))
    assert await store.get("eval_1") == claimed


async def test_of_many_who_claim_at_once_one_gets_it(store: EvaluationStore) -> None:
    await add(store)
    claims = (store.change("eval_1", lambda present, i=i: present.claim(f"w{i}", NOW, LEASE)) for i in range(8))
    results = await asyncio.gather(*claims, return_exceptions=True)
    assert sorted(type(result).__name__ for result in results) == ["Aborted"] * 7 + ["Evaluation"]


async def test_lists(store: EvaluationStore) -> None:
    for id in ("eval_1", "eval_2", "eval_3"):
        await add(store, id)
    await store.change("eval_2", lambda present: present.cancel(NOW))
    assert [item.id for item in await store.page(2, None)] == ["eval_3", "eval_2"]
    assert [item.id for item in await store.page(2, "eval_2")] == ["eval_1"]
    assert [item.id for item in await store.waiting(NOW)] == ["eval_1", "eval_3"]
    await store.change("eval_3", lambda present: present.claim("me", NOW, LEASE))
    assert [item.id for item in await store.waiting(NOW)] == ["eval_1"]
    assert [item.id for item in await store.waiting(NOW + LEASE)] == ["eval_1", "eval_3"]


async def test_what_is_deleted_is_gone_with_its_samples_and_its_request(store: EvaluationStore) -> None:
    for id in ("eval_1", "eval_2"):
        await add(store, id)
        await store.add_sample(id, sample("a"))
    await store.delete("eval_1")
    await store.delete("eval_1")
    with pytest.raises(NotFound):
        await store.get("eval_1")
    assert await store.find(Request("req_eval_1", "f")) is None
    assert [item.id for item in await store.page(9, None)] == ["eval_2"]
    assert await store.sample_keys("eval_2") == {SampleKey("a", 0)}
    assert (await add(store, "eval_1")).id == "eval_1"
    assert await store.sample_keys("eval_1") == frozenset()


async def test_a_sample_is_kept_as_it_was_first(store: EvaluationStore) -> None:
    await add(store)
    await store.add_sample("eval_1", sample("a"))
    await store.add_sample("eval_1", sample("a", verdict="FAILED"))
    assert await store.sample_page("eval_1", 9, None) == [sample("a")]
    assert await store.sample_keys("eval_1") == {SampleKey("a", 0)}


async def test_whatever_a_model_writes_can_be_stored(store: EvaluationStore) -> None:
    await add(store)
    for index, text in enumerate(["", "\x00 nul", "\ud800 half a pair", "日本語 🎉", "x" * 100_000]):
        await store.add_sample("eval_1", sample("a", index, completion=text))
    stored = await store.sample_page("eval_1", 9, None)
    assert len(stored) == 5
    assert (stored[3].completion, len(stored[4].completion)) == ("日本語 🎉", 100_000)


async def test_samples_are_listed_by_problem_and_index(store: EvaluationStore) -> None:
    await add(store)
    for problem, index in (("b", 0), ("a", 10), ("a", 2), ("c", 0)):
        await store.add_sample("eval_1", sample(problem, index))
    first = await store.sample_page("eval_1", 2, None)
    rest = await store.sample_page("eval_1", 9, SampleKey(first[-1].problem_id, first[-1].index))
    assert [(item.problem_id, item.index) for item in [*first, *rest]] == [("a", 2), ("a", 10), ("b", 0), ("c", 0)]


async def test_progress_and_tallies(store: EvaluationStore) -> None:
    for id in ("eval_1", "eval_2", "eval_3"):
        await add(store, id)
    for item in (sample("a", 0), sample("a", 1, "FAILED"), sample("b", 0, "TIME_LIMIT")):
        await store.add_sample("eval_1", item)
    await store.add_sample("eval_2", sample("a"))
    assert await store.progress(["eval_1", "eval_2", "eval_3"]) == {
        "eval_1": Progress(1, {"PASSED": 1, "FAILED": 1, "TIME_LIMIT": 1}),
        "eval_2": Progress(0, {"PASSED": 1}),
        "eval_3": Progress(0, {}),
    }
    assert await store.progress([]) == {}
    assert await store.tallies("eval_1") == {"a": Tally(2, 1), "b": Tally(1, 0)}
    assert await store.tallies("eval_3") == {}
