"""What every EvaluationStore promises: in memory, on SQLite and on PostgreSQL."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import update

from eval_service.adapters.sql import SqlEvaluationStore
from eval_service.adapters.tables import evaluations, samples
from eval_service.domain.evaluation import Evaluation, Pace, References, ResolvedModel, State
from eval_service.domain.ports import EvaluationFilter, EvaluationStore, SampleFilter, Sound
from eval_service.domain.sample import FailureClass, Judgement, ProblemKey, Sample, SampleKey
from eval_service.domain.score import BenchmarkScore, Count, EpisodeMeans, Exclusion, Facts, PassAtK, Score, Slice
from eval_service.domain.spec import EvaluationSpec, Form, ProblemSetRef, Prompting, RewardJudge, SuiteEntry
from ratchet_environments.failures import FailedTest
from ratchet_kit import projects
from ratchet_kit.errors import Aborted, AlreadyExists, Failure, NotFound
from ratchet_kit.idempotency import Request
from ratchet_kit.names import AliasRef, AnyModel, BareModel, Location, VersionRef
from ratchet_kit.sql import Database
from ratchet_kit.statistics import Estimate
from ratchet_kit.usage import Usage

from ..memory import MemoryEvaluationStore

NOW = datetime(2026, 1, 1, 12, 30, tzinfo=UTC)
LEASE = timedelta(seconds=30)
FORECAST = Usage(cpu_time=timedelta(minutes=7), completion_tokens=2**40, cost=0.25, currency="EUR")
SPEC = EvaluationSpec(
    VersionRef("starter", 1),
    (SuiteEntry(ProblemSetRef("basics", 10)), SuiteEntry(ProblemSetRef("more"), 0.4)),
    samples_per_problem=2,
    k=(1, 2),
    temperature=0.7,
    seed=-(2**62),
    prompting=Prompting(shots=3),
    exclude_unsound=True,
    system="Be brief.",
    judge=RewardJudge("facts@2", 0.5, "print([1])"),
)
PASSES = (PassAtK(1, Estimate(0.25, 0.125, 0.5)), PassAtK(2, Estimate(0.5, 0.25, 0.75)))
SCORE = Score(
    PASSES,
    (
        BenchmarkScore("basics", 3, 3, PASSES, 6, {"PASSED": 6}, {}, 1, (Slice("difficulty 1", 3, PASSES[:1]),)),
        BenchmarkScore(
            "more", 1, 2, PASSES, 2, {"FAILED": 2}, {"WRONG": 2}, exclusions=(Exclusion("p", "no"),), shared=("q",)
        ),
    ),
    EpisodeMeans(2.5, 0.5, 7.5, 3.25),
)


@pytest.fixture
def store(database_or_memory: Database | None) -> EvaluationStore:
    return SqlEvaluationStore(database_or_memory) if database_or_memory else MemoryEvaluationStore()


def evaluation(id: str = "eval_1") -> Evaluation:
    return Evaluation(id, SPEC, ResolvedModel("/artifacts/starter", "sha256:p"), NOW, actor="key_1", forecast=FORECAST)


async def test_tokens_are_summed_by_evaluation(store: EvaluationStore) -> None:
    await add(store)
    await store.add_samples("eval_1", [drawn("a"), sample("b"), drawn("b", 1)])
    assert await store.tokens(["eval_1", "eval_2"]) == {"eval_1": 21, "eval_2": 0}
    assert await store.tokens([]) == {}


def key(problem: str, index: int = 0, benchmark: str = "basics") -> SampleKey:
    return SampleKey(benchmark, problem, index)


def judgement(verdict: str) -> Judgement:
    failure = None if verdict == "PASSED" else FailureClass.WRONG
    taken, failed = timedelta(milliseconds=250), (FailedTest("f(1)", "2", "3\N{SNOWMAN}"),)
    return Judgement(verdict, 3, 4, "what was seen", False, failure, taken, failed, held_out_failed=2)


def drawn(problem: str, index: int = 0, completion: str = "def solve(): ...", benchmark: str = "basics") -> Sample:
    taken = timedelta(seconds=1.5)
    return Sample(
        key(problem, index, benchmark),
        completion,
        "sha256:p",
        request=f"r_{problem}{index}",
        tokens=7,
        truncated=True,
        generation_time=taken,
    )


def sample(problem: str, index: int = 0, verdict: str = "PASSED", benchmark: str = "basics") -> Sample:
    return drawn(problem, index, benchmark=benchmark).judged(judgement(verdict))


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


async def test_an_import_has_no_model(store: EvaluationStore) -> None:
    made = replace(
        evaluation(), spec=replace(SPEC, model=None, imported_samples=9, system=""), model=None, notices=("a",)
    ).add(4, NOW)
    await store.create(made, Request("req_1", "f"))
    assert await store.get("eval_1") == made


async def test_a_change_is_kept_whole(store: EvaluationStore) -> None:
    await add(store)
    running = await store.change("eval_1", lambda present: present.claim("me", NOW, LEASE))
    assert await store.get("eval_1") == running
    for change in (
        lambda present: present.load_problems("me", [("sha256:d", "v1"), ("sha256:e", "")]),
        lambda present: present.measure("me", "sha256:p", "sha256:s", Form.CHAT),
        lambda present: present.try_references("me", References(3, 7)),
        lambda present: present.begin("me", Pace(NOW, 3)),
        lambda present: present.use("me", Usage(timedelta(hours=3), prompt_tokens=2**40, cost=0.5, currency="EUR")),
        lambda present: present.succeed("me", SCORE, NOW + LEASE),
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
    held = await store.change("eval_3", lambda present: present.claim("me", NOW, LEASE))
    assert await store.under_way() == [await store.get("eval_1"), held]


async def test_lists_are_of_a_model_or_a_set(store: EvaluationStore) -> None:
    specs = {
        "eval_1": SPEC,
        "eval_2": replace(SPEC, model=BareModel("another"), suite=(SuiteEntry(ProblemSetRef("basics")),)),
        "eval_3": replace(SPEC, model=Location("/models/starter"), display_name="Night_1 100 %"),
    }
    for id, spec in specs.items():
        await store.create(replace(evaluation(id), spec=spec), Request(f"req_{id}", "f"))

    async def ids(after: str | None = None, **only: Any) -> list[str]:
        return [item.id for item in await store.page(9, after, EvaluationFilter(**only))]

    assert await ids(model="starter") == ["eval_1"]
    assert await ids(problems="more") == ["eval_3", "eval_1"]
    assert await ids("eval_3", problems="more") == ["eval_1"]
    assert await ids(problems="basic") == []
    assert await ids(model="another", problems="basics") == ["eval_2"]
    await store.change("eval_1", lambda present: present.cancel(NOW))
    assert await ids(state=State.CANCELLED) == ["eval_1"]
    assert await ids(state=State.QUEUED, problems="more") == ["eval_3"]
    assert await ids(after_time=NOW) == ["eval_3", "eval_2", "eval_1"]
    assert await ids(after_time=NOW + timedelta(seconds=1)) == []
    assert await ids(name="night_") == await ids(name="100 %") == ["eval_3"]
    assert await ids(name="night-") == []


async def test_what_is_deleted_is_gone_with_its_samples_and_its_request(store: EvaluationStore) -> None:
    for id in ("eval_1", "eval_2"):
        await add(store, id)
        await store.add_samples(id, [sample("a")])
        await store.add_problems(id, [Facts(ProblemKey("basics", "a"))])
    await store.delete("eval_1")
    await store.delete("eval_1")
    with pytest.raises(NotFound):
        await store.get("eval_1")
    assert await store.find(Request("req_eval_1", "f")) is None
    assert [item.id for item in await store.page(9, None)] == ["eval_2"]
    assert await store.sample_keys("eval_2") == {key("a")}
    assert (await add(store, "eval_1")).id == "eval_1"
    assert await store.sample_keys("eval_1") == frozenset()
    assert await store.problems(["eval_1"]) == {"eval_1": []}


async def test_nothing_is_added_to_what_was_deleted_meanwhile(store: EvaluationStore) -> None:
    await add(store)
    await store.delete("eval_1")
    with pytest.raises(Aborted):
        await store.add_samples("eval_1", [drawn("a")])
    with pytest.raises(Aborted):
        await store.add_problems("eval_1", [Facts(ProblemKey("basics", "a"))])
    await store.judge_samples("eval_1", [drawn("a").judged(judgement("PASSED"))])
    assert await store.sample_keys("eval_1") == frozenset()
    assert await store.problems(["eval_1"]) == {"eval_1": []}
    assert await store.counts(["eval_1"]) == {"eval_1": []}


async def test_facts_of_problems(store: EvaluationStore) -> None:
    for id in ("eval_1", "eval_2"):
        await add(store, id)
    a = Facts(ProblemKey("basics", "a"), "family", "f" * 16, ("difficulty 3", "tag graphs"))
    b, other = Facts(ProblemKey("basics", "b")), Facts(ProblemKey("more", "b"), excluded="no reference")
    await store.add_problems("eval_1", [a, b, other])
    await store.exclude("eval_1", {b.key: "its reference \x00 fails"})
    await store.exclude("eval_1", {})
    await store.add_problems("eval_1", [b])
    found = await store.problems(["eval_1", "eval_2"])
    assert found["eval_2"] == []
    by_key = {one.key: one for one in found["eval_1"]}
    assert (by_key[a.key], by_key[other.key]) == (a, other)
    assert by_key[b.key].excluded.startswith("its reference")


async def test_what_is_sound_is_remembered(store: EvaluationStore) -> None:
    found = {"a": Sound(), "b": Sound((0, 2), timedelta(seconds=1.5))}
    await store.add_sound(found)
    await store.add_sound({"b": Sound()})
    await store.add_sound({})
    assert await store.sound(["a", "b", "c"]) == found
    assert await store.sound([]) == {}


async def test_a_sample_is_drawn_once_and_judged_once(store: EvaluationStore) -> None:
    await add(store)
    await store.add_samples("eval_1", [drawn("a")])
    await store.add_samples("eval_1", [sample("a", verdict="FAILED")])
    assert await store.unjudged("eval_1", 9, None) == [drawn("a")]
    assert await store.sample_page("eval_1", 9, None) == []
    await store.judge_samples("eval_1", [sample("a"), sample("b")])
    await store.judge_samples("eval_1", [sample("a", verdict="FAILED")])
    await store.judge_samples("eval_1", [])
    assert await store.sample_page("eval_1", 9, None) == [sample("a")]
    assert await store.unjudged("eval_1", 9, None) == []
    assert await store.sample_keys("eval_1") == {key("a")}


async def test_the_last_answer_of_an_episode_is_kept(store: EvaluationStore) -> None:
    await add(store)
    await store.add_samples("eval_1", [drawn("a")])
    last = drawn("a").replied("the last word", 5, truncated=True).judged(judgement("PASSED"))
    await store.judge_samples("eval_1", [last])
    assert await store.sample_page("eval_1", 9, None) == [last]


async def test_whatever_a_model_writes_can_be_stored(store: EvaluationStore) -> None:
    await add(store)
    texts = ["", "\x00 nul", "\ud800 half a pair", "日本語 🎉", "x" * 100_000]
    await store.add_samples("eval_1", [drawn("a", index, text) for index, text in enumerate(texts)])
    seen = replace(judgement("FAILED"), detail="\x00 and \ud800")
    await store.judge_samples("eval_1", [drawn("a", index, text).judged(seen) for index, text in enumerate(texts)])
    stored = await store.sample_page("eval_1", 9, None)
    assert len(stored) == 5
    assert (stored[3].completion, len(stored[4].completion)) == ("日本語 🎉", 100_000)


async def test_samples_are_listed_by_set_problem_and_index(store: EvaluationStore) -> None:
    await add(store)
    await store.add_samples(
        "eval_1", [sample("b"), sample("a", 10), sample("a", 2, "FAILED"), sample("a", benchmark="more"), drawn("c")]
    )
    first = await store.sample_page("eval_1", 2, None)
    rest = await store.sample_page("eval_1", 9, first[-1].key)
    every = [key("a", 2), key("a", 10), key("b"), key("a", benchmark="more")]
    assert [item.key for item in [*first, *rest]] == every

    async def keys(after: SampleKey | None = None, **only: str) -> list[SampleKey]:
        return [item.key for item in await store.sample_page("eval_1", 9, after, SampleFilter(**only))]

    assert await keys(benchmark="more") == every[3:]
    assert await keys(problem_id="a") == [every[0], every[1], every[3]]
    assert await keys(verdict="PASSED") == every[1:]
    assert await keys(failure="WRONG") == every[:1]
    assert await keys(failure="TIMEOUT") == []
    assert await keys(every[1], verdict="PASSED", benchmark="basics") == [every[2]]


async def test_what_is_not_judged_is_found_in_order(store: EvaluationStore) -> None:
    await add(store)
    await store.add_samples("eval_1", [drawn("b"), drawn("a", 1), drawn("a"), sample("a", 2)])
    first = await store.unjudged("eval_1", 2, None)
    assert first == [drawn("a"), drawn("a", 1)]
    assert await store.unjudged("eval_1", 2, first[-1].key) == [drawn("b")]


async def test_what_was_drawn_is_found_by_its_request(store: EvaluationStore) -> None:
    for id in ("eval_1", "eval_2"):
        await add(store, id)
    await store.add_samples("eval_1", [drawn("a"), sample("b", 3)])
    await store.add_samples("eval_2", [replace(drawn("c"), request="")])
    found = await store.drawn([f"r_a{index}" for index in range(1200)] + ["r_b3", "r_c0"])
    assert found == {"r_a0": drawn("a"), "r_b3": sample("b", 3)}
    assert await store.drawn([]) == {}


async def test_what_another_project_drew_is_not_found(store: EvaluationStore) -> None:
    theirs = "eval_01JD3MZ5Y1W4C8T9Q2K7V6B0XN-beta"
    await add(store, theirs)
    await store.add_samples(theirs, [drawn("a")])
    for project, found in (("beta", {"r_a0"}), ("", {"r_a0"}), ("acme", set()), (projects.DEFAULT, set())):
        with projects.acting(project):
            assert set(await store.drawn(["r_a0"])) == found, project


async def test_counts(store: EvaluationStore) -> None:
    for id in ("eval_1", "eval_2", "eval_3"):
        await add(store, id)
    forged = drawn("a", 3).judged(replace(judgement("PASSED"), forgeable=True))
    await store.add_samples(
        "eval_1", [sample("a", 0), sample("a", 1), sample("a", 2, "FAILED"), forged, drawn("b"), sample("b", 1)]
    )
    await store.add_samples("eval_2", [sample("a", benchmark="more")])
    a, b = ProblemKey("basics", "a"), ProblemKey("basics", "b")
    found = await store.counts(["eval_1", "eval_2", "eval_3"])
    assert sorted(found["eval_1"], key=repr) == sorted(
        [
            Count(a, "PASSED", None, False, 2),
            Count(a, "FAILED", FailureClass.WRONG, False, 1),
            Count(a, "PASSED", None, True, 1),
            Count(b, "", None, False, 1),
            Count(b, "PASSED", None, False, 1),
        ],
        key=repr,
    )
    assert found["eval_2"] == [Count(ProblemKey("more", "a"), "PASSED", None, False, 1)]
    assert found["eval_3"] == []
    assert await store.counts([]) == {}


def played(problem: str, index: int = 0, record: bytes = b"kept\0\xff") -> Sample:
    one = replace(sample(problem, index), request="", turns=4, tool_errors=1, record=record)
    return replace(one, recorded=bool(record))


async def test_the_record_of_an_episode_is_read_with_its_sample_alone(store: EvaluationStore) -> None:
    await add(store)
    await store.add_samples("eval_1", [played("a"), played("b", record=b""), drawn("c")])
    await store.add_samples("eval_1", [played("a", record=b"another")])
    assert await store.sample("eval_1", key("a")) == played("a"), "the first one stays"
    assert await store.sample_page("eval_1", 2, None) == [replace(played("a"), record=b""), played("b", record=b"")]
    assert (await store.sample("eval_1", key("b"))).record == b""
    for id, of in (("eval_1", key("a", 1)), ("eval_1", key("c")), ("eval_2", key("a"))):
        with pytest.raises(NotFound, match="sample"):
            await store.sample(id, of)


async def test_a_record_goes_with_the_texts_and_leaves_the_verdict(store: EvaluationStore) -> None:
    await add(store)
    await store.add_samples("eval_1", [played("a")])
    await store.change("eval_1", lambda present: present.cancel(NOW))
    await store.forget_texts(NOW + timedelta(seconds=1))
    old = await store.sample("eval_1", key("a"))
    assert (old.record, old.recorded, old.turns, old.tool_errors) == (b"", False, 4, 1)
    assert old.judgement
    assert old.judgement.verdict == "PASSED"
    await store.delete("eval_1")
    with pytest.raises(NotFound):
        await store.sample("eval_1", key("a"))


async def test_means_are_over_all_samples(store: EvaluationStore) -> None:
    await add(store)
    assert await store.means("eval_1") is None
    longer = replace(played("b"), turns=1, tool_errors=0, tokens=8, generation_time=timedelta(seconds=4.5))
    await store.add_samples("eval_1", [played("a"), longer])
    assert await store.means("eval_1") == EpisodeMeans(2.5, 0.5, 7.5, 3.0)
    await add(store, "eval_2")
    await store.add_samples("eval_2", [replace(played("a"), generation_time=None)])
    assert await store.means("eval_2") == EpisodeMeans(4.0, 1.0, 7.0, 0.0)


async def test_texts_are_forgotten_once_an_evaluation_is_old(store: EvaluationStore) -> None:
    for id in ("eval_1", "eval_2", "eval_3"):
        await add(store, id)
        await store.add_samples(id, [replace(sample("a"), request=id), replace(drawn("b"), request="")])
    before = await store.counts(["eval_1"])
    for id, end in (("eval_1", NOW), ("eval_2", NOW + LEASE)):
        await store.change(id, lambda present, end=end: present.cancel(end))  # type: ignore[misc]
    assert await store.forget_texts(NOW + timedelta(seconds=1)) == 1
    assert await store.forget_texts(NOW + timedelta(seconds=1)) == 0, "they are gone"
    (old,) = await store.sample_page("eval_1", 9, None)
    assert old == replace(sample("a"), request="").without_texts()
    assert (old.completion, old.judgement and (old.judgement.verdict, old.judgement.detail)) == ("", ("PASSED", ""))
    assert old.judgement
    assert (old.judgement.failed_tests, old.judgement.held_out_failed) == ((), 2)
    assert await store.counts(["eval_1"]) == before, "scores and comparisons are as they were"
    assert set(await store.drawn(["eval_1", "eval_2", "eval_3"])) == {"eval_2", "eval_3"}, "nobody takes it over"
    for id in ("eval_2", "eval_3"):
        (young,) = await store.sample_page(id, 9, None)
        assert young.completion


async def test_what_cannot_be_read_hides_no_other_in_a_list(database: Database) -> None:
    store = SqlEvaluationStore(database)
    for id in ("eval_1", "eval_2", "eval_3"):
        await add(store, id)
    await store.add_samples("eval_1", [sample("a"), sample("b"), sample("c")])
    async with database.writing() as connection:
        await connection.execute(update(evaluations).where(evaluations.c.id == "eval_2").values(spec={"un": "heard"}))
        await connection.execute(update(samples).where(samples.c.problem_id == "a").values(failure="UNHEARD"))
    assert [item.id for item in await store.page(2, None)] == ["eval_3", "eval_1"]
    assert [item.id for item in await store.under_way()] == ["eval_1", "eval_3"]
    assert [item.key for item in await store.sample_page("eval_1", 2, None)] == [key("b"), key("c")]
