"""Create, watch, cancel, delete, compare."""

import asyncio
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from eval_service.domain import evaluations
from eval_service.domain.comparison import Plan
from eval_service.domain.evaluation import Evaluation, References, State
from eval_service.domain.evaluations import Evaluations
from eval_service.domain.ports import EvaluationFilter, SampleFilter
from eval_service.domain.sample import Judgement, ProblemKey, Sample, SampleKey
from eval_service.domain.score import BenchmarkScore, Count, Facts, Score
from eval_service.domain.sets import Imported, Shown
from eval_service.domain.spec import EvaluationSpec, Form, ProblemSetRef, Prompting, RewardJudge, SuiteEntry
from ratchet_environments import EnvironmentSpec
from ratchet_environments.failures import FailedTest
from ratchet_kit.errors import AlreadyExists, FailedPrecondition, InvalidArgument, NotFound
from ratchet_kit.names import VersionRef
from ratchet_problems import CallTest

from .. import conftest
from ..memory import MemoryEvaluationStore

TEMPLATE = "{% for m in messages %}{{ m.content }}{% endfor %}"
SPEC = EvaluationSpec(VersionRef("starter", 1), (SuiteEntry(ProblemSetRef("basics")),))


def sample(problem: str, verdict: str, index: int = 0) -> Sample:
    return Sample(SampleKey("basics", problem, index), "", judgement=Judgement(verdict, 0, 1))


async def succeeded(world: Any, spec: EvaluationSpec, passed: str) -> str:
    """An evaluation of problems a, b, ... with one sample each; "10" means that a passed and b did not."""
    id: str = (await world.evaluations.create(spec, "")).evaluation.id
    for problem, mark in zip("abcdefghijklmnopqrstuvwxyz", passed, strict=False):
        await world.store.add_samples(id, [sample(problem, "PASSED" if mark == "1" else "FAILED")])

    def end(present: Evaluation) -> Evaluation:
        now = world.clock.now()
        shown = present.spec.examples.digest if present.spec.examples else ""
        held = present.claim("me", now, timedelta(hours=1)).load_problems("me", [("sha256:d", "v1")], shown)
        return held.succeed("me", Score((), (BenchmarkScore("basics", len(passed), len(passed)),)), now)

    await world.store.change(id, end)
    return id


async def test_statistics_hold_up_no_other_call(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """They take a quarter of a second of processor time for 10,000 problems."""
    where: dict[str, threading.Thread] = {}

    def watched(name: str) -> None:
        work = getattr(evaluations, name)

        def noted(*args: Any, **options: Any) -> Any:
            where[name] = threading.current_thread()
            return work(*args, **options)

        monkeypatch.setattr(evaluations, name, noted)

    for name in ("score", "compare", "plan"):
        watched(name)
    first, second = await succeeded(world, SPEC, "10"), await succeeded(world, SPEC, "11")
    await world.evaluations.compare(first, second)
    await world.evaluations.plan(first, Plan())
    assert len(where) == 3
    assert threading.main_thread() not in where.values()


async def test_create_stores_and_queues_once(world: Any) -> None:
    first = await world.evaluations.create(SPEC, "req_1")
    assert (first.evaluation.state, first.score.problems_done) == (State.QUEUED, 0)
    assert await world.evaluations.create(SPEC, "req_1") == first
    assert world.queue.ids == [first.evaluation.id]
    with pytest.raises(AlreadyExists, match="used before"):
        await world.evaluations.create(replace(SPEC, seed=1), "req_1")


async def test_an_evaluation_that_is_only_validated_is_not_stored(world: Any) -> None:
    report = await world.evaluations.create(SPEC, "req_1", validate_only=True)
    assert (report.evaluation.id, world.queue.ids) == ("", [])
    with pytest.raises(InvalidArgument):
        await world.evaluations.create(
            replace(SPEC, suite=(SuiteEntry(ProblemSetRef("nothing")),)), "req_1", validate_only=True
        )
    assert (await world.evaluations.create(SPEC, "req_1")).evaluation.id


async def test_what_decides_no_gate_is_refused_for_one(world: Any) -> None:
    await world.evaluations.create(SPEC, "")
    said = "spec.problems has 6 independent problems: a gate needs 10 or more"
    with pytest.raises(InvalidArgument, match=said):
        await world.evaluations.create(SPEC, "", for_gate=True)
    world.problems.problems = [conftest.problem(number) for number in range(10)]
    await world.evaluations.create(SPEC, "", for_gate=True)
    world.problems.problems = [replace(conftest.problem(number), structure=f"s{number % 9}") for number in range(90)]
    for validate_only in (True, False):
        with pytest.raises(InvalidArgument, match="has 9 independent problems"):
            await world.evaluations.create(SPEC, "", validate_only=validate_only, for_gate=True)
    world.problems.ready = False  # its gate says so
    await world.evaluations.create(SPEC, "", for_gate=True)


async def test_notices_of_its_sets_are_kept(world: Any) -> None:
    world.problems.notices = ["tests expect decimals"]
    spec = replace(SPEC, suite=(*SPEC.suite, SuiteEntry(ProblemSetRef("more"))))
    for validate_only in (True, False):
        created = (await world.evaluations.create(spec, "", validate_only=validate_only)).evaluation
        assert created.notices == ("basics: tests expect decimals", "more: tests expect decimals")
    assert (await world.evaluations.get(created.id)).evaluation.notices == created.notices


async def test_create_does_not_need_the_queue(world: Any) -> None:
    world.queue.is_away = True
    created = (await world.evaluations.create(SPEC, "")).evaluation
    assert await world.store.under_way() == [created]


async def test_create_refuses_what_cannot_be_measured(world: Any) -> None:
    for spec, error in (
        (replace(SPEC, suite=(SuiteEntry(ProblemSetRef("unknown")),)), InvalidArgument),
        (replace(SPEC, model=VersionRef("nobody", 1)), NotFound),
    ):
        with pytest.raises(error):
            await world.evaluations.create(spec, "")
    assert await world.store.page(9, None) == []


async def test_watch_tells_each_change_and_ends(world: Any) -> None:
    id = (await world.evaluations.create(SPEC, "")).evaluation.id

    async def watch() -> list[tuple[State, int]]:
        reports = [report async for report in world.evaluations.watch(id)]
        return [(report.evaluation.state, report.score.problems_done) for report in reports]

    watching = asyncio.create_task(watch())
    await asyncio.sleep(0.02)
    await world.store.add_samples(id, [sample("a", "PASSED")])
    await asyncio.sleep(0.02)
    await world.evaluations.cancel(id)
    assert await asyncio.wait_for(watching, 5) == [(State.QUEUED, 0), (State.QUEUED, 1), (State.CANCELLED, 1)]
    with pytest.raises(NotFound):
        await anext(world.evaluations.watch("eval_nowhere"))


async def test_delete_takes_the_samples_along(world: Any) -> None:
    id = await succeeded(world, SPEC, "01")
    await world.evaluations.delete(id)
    for look in (world.evaluations.get(id), world.evaluations.sample_page(id, 9, ""), world.evaluations.delete(id)):
        with pytest.raises(NotFound):
            await look
    queued = (await world.evaluations.create(SPEC, "")).evaluation.id
    with pytest.raises(FailedPrecondition, match="queued: cancel it"):
        await world.evaluations.delete(queued)


async def test_compare_pairs_by_problem(world: Any) -> None:
    before = await succeeded(world, SPEC, "0000000000" + "01" * 5)
    after = await succeeded(world, SPEC, "1111111111" + "01" * 5)
    comparison = (await world.evaluations.compare(before, after)).whole
    assert (comparison.baseline.value, comparison.candidate.value, comparison.difference.value) == (0.25, 0.75, 0.5)
    assert comparison.problems == 20
    assert comparison.p_value == 2 / 2**10
    assert 0 < comparison.difference.low < 0.5 < comparison.difference.high
    back = (await world.evaluations.compare(after, before)).whole
    assert back.difference.value == -0.5


async def test_a_problem_is_shown_as_it_was_put_and_held_out_tests_are_not(world: Any) -> None:
    tests = (CallTest.of([1], 2), replace(CallTest.of([3], "secret"), held_out=True))
    world.problems.problems = [replace(world.problems.problems[0], tests=tests)]
    spec = replace(SPEC, prompting=Prompting(Form.CHAT), system="Be brief.")
    id = (await world.evaluations.create(spec, "")).evaluation.id
    shown = await world.evaluations.problem(id, "", "p00")
    assert shown == Shown("system: Be brief.\n\nuser: Solve 0.", (FailedTest("solve(1)", "2"),), 1)
    text = (await world.evaluations.create(replace(SPEC, prompting=Prompting(Form.COMPLETION)), "")).evaluation.id
    assert (await world.evaluations.problem(text, "basics", "p00")).prompt == "# Solve 0."
    for place in (("", "p99"), ("more", "p00")):
        with pytest.raises(NotFound):
            await world.evaluations.problem(id, *place)


async def test_the_record_of_an_episode_is_given_as_long_as_it_is_kept(world: Any) -> None:
    plays = replace(SPEC, environment=EnvironmentSpec("harness", command=("x",)))
    id = (await world.evaluations.create(plays, "")).evaluation.id
    kept = Sample(SampleKey("basics", "p00", 1), "", recorded=True, record=b"kept", judgement=Judgement("FAILED", 0, 1))
    await world.store.add_samples(id, [kept, replace(kept, key=SampleKey("basics", "p01", 0), record=b"")])
    assert await world.evaluations.episode(id, "", "p00", 1) == kept
    assert await world.evaluations.episode(id, "basics", "p00", 1) == kept
    with pytest.raises(FailedPrecondition, match=r"p01:0 is not kept: .*RATCHET_EVAL_KEEP_TEXTS.*evaluate again"):
        await world.evaluations.episode(id, "", "p01", 0)
    for place in (("", "p00", 0), ("more", "p00", 1), ("", "p99", 0)):
        with pytest.raises(NotFound):
            await world.evaluations.episode(id, *place)
    with pytest.raises(NotFound):
        await world.evaluations.episode("eval_no", "", "p00", 1)
    single = (await world.evaluations.create(SPEC, "")).evaluation.id
    await world.store.add_samples(single, [replace(kept, record=b"")])
    with pytest.raises(FailedPrecondition, match="no episodes"):
        await world.evaluations.episode(single, "", "p00", 1)


async def test_a_problem_of_a_set_that_changed_is_not_shown(world: Any) -> None:
    id = await succeeded(world, SPEC, "01")
    await world.store.change(id, lambda present: replace(present, spec=SPEC.with_loaded([("sha256:other", "v1")])))
    with pytest.raises(FailedPrecondition, match="basics has changed since it was measured"):
        await world.evaluations.problem(id, "", "p00")
    world.problems.ready = False
    with pytest.raises(FailedPrecondition, match="not ready here"):
        await world.evaluations.problem(id, "", "p00")


async def test_a_comparison_is_planned_from_a_finished_evaluation(world: Any) -> None:
    one = await succeeded(world, SPEC, "01" * 10)
    planned = await world.evaluations.plan(one, Plan())
    assert (planned.problems, planned.samples_per_problem) == (20, 1)
    more = await world.evaluations.plan(one, Plan(samples_per_problem=16, problems=200))
    assert (more.problems, more.samples_per_problem) == (200, 16)
    assert more.detectable_difference < planned.detectable_difference / 10
    queued = (await world.evaluations.create(SPEC, "")).evaluation.id
    with pytest.raises(FailedPrecondition, match="queued"):
        await world.evaluations.plan(queued, Plan())


async def test_only_like_is_compared_with_like(world: Any) -> None:
    one = await succeeded(world, SPEC, "01")
    world.problems.more = [replace(world.problems.problems[0], references=("an answer",))]
    for other, what in (
        (replace(SPEC, temperature=0.5), "temperature"),
        (replace(SPEC, max_tokens=9), "max_tokens"),
        (replace(SPEC, prompting=Prompting(shots=3)), "prompting"),
        (replace(SPEC, system="Be brief."), "system: none against Be brief."),
        (replace(SPEC, chat_template=TEMPLATE), "chat template: none against sha256:[0-9a-f]{64}"),
        (replace(SPEC, examples=ProblemSetRef("more", 1)), "examples: none against 1 of sha256"),
        (replace(SPEC, judge=RewardJudge("facts", 0.5)), "judge: none against facts@2, from 0.5 on"),
    ):
        with pytest.raises(FailedPrecondition, match=what):
            await world.evaluations.compare(one, await succeeded(world, other, "01"))
    queued = (await world.evaluations.create(SPEC, "")).evaluation.id
    with pytest.raises(FailedPrecondition, match="queued"):
        await world.evaluations.compare(one, queued)
    with pytest.raises(NotFound):
        await world.evaluations.compare(one, "eval_nowhere")
    smaller = await succeeded(world, SPEC, "01")
    await world.store.change(
        smaller, lambda present: replace(present, spec=present.spec.with_loaded([("sha256:another", "")]))
    )
    with pytest.raises(FailedPrecondition, match="problems"):
        await world.evaluations.compare(one, smaller)


async def test_lists_are_paged_newest_first(world: Any) -> None:
    ids = [(await world.evaluations.create(SPEC, "")).evaluation.id for _ in range(3)]
    first = await world.evaluations.page(2, "")
    second = await world.evaluations.page(2, first.next_page_token)
    assert [report.evaluation.id for report in [*first.items, *second.items]] == ids[::-1]
    one = await succeeded(world, SPEC, "0101")
    samples, token = [], ""
    while True:
        page = await world.evaluations.sample_page(one, 3, token)
        samples += page.items
        token = page.next_page_token
        if not token:
            break
    assert [sample.key.problem_id for sample in samples] == list("abcd")
    with pytest.raises(InvalidArgument, match="page_token"):
        await world.evaluations.sample_page(one, 3, first.next_page_token)


class PartlyUnreadableStore(MemoryEvaluationStore):
    """Of one evaluation, what was judged cannot be read: another version of the service has written it."""

    unreadable = ""

    async def counts(self, ids: Sequence[str]) -> Mapping[str, Sequence[Count]]:
        if self.unreadable in ids:
            raise ValueError("'UNHEARD' is not a valid FailureClass")
        return await super().counts(ids)


async def test_an_evaluation_that_cannot_be_read_hides_no_other(world: Any) -> None:
    store = PartlyUnreadableStore()
    evaluations = Evaluations(
        store,
        world.queue,
        world.problems,
        world.models,
        world.rewards,
        world.events,
        world.clock,
        world.examine_template,
    )
    ids = [(await evaluations.create(SPEC, "")).evaluation.id for _ in range(3)]
    store.unreadable = ids[1]
    page = await evaluations.page(9, "")
    assert [report.evaluation.id for report in page.items] == [ids[2], ids[0]]
    with pytest.raises(ValueError, match="UNHEARD"):
        await evaluations.get(ids[1])


async def test_a_budget_needs_prices(world: Any) -> None:
    assert (await world.evaluations.create(replace(SPEC, budget=2.5), "")).evaluation.spec.budget == 2.5
    with pytest.raises(InvalidArgument, match=r"budget must be above 0"):
        replace(SPEC, budget=0.0)
    world.evaluations._prices = None
    with pytest.raises(InvalidArgument, match=r"spec\.budget must be left out: the operator has set no prices"):
        await world.evaluations.create(replace(SPEC, budget=2.5), "")


async def test_a_chat_template_of_its_own_is_tried_before_anything_is_stored(world: Any) -> None:
    report = await world.evaluations.create(replace(SPEC, chat_template=TEMPLATE), "")
    assert (
        report.evaluation.notices[-1] == "measured in a chat template of its own; a version is served in the version's"
    )
    for template, fault in (("{{ messages", "in line 1"), ("hi", "does not write what the user says")):
        with pytest.raises(InvalidArgument, match=f"spec.chat_template must put a problem to a model: it .*{fault}"):
            await world.evaluations.create(replace(SPEC, chat_template=template), "")
    deaf = "{% for m in messages if m.role == 'user' %}{{ m.content }}{% endfor %}"
    with pytest.raises(InvalidArgument, match="writes a message of the system 0 times"):
        await world.evaluations.create(replace(SPEC, chat_template=deaf, system="Be brief."), "")
    assert len((await world.evaluations.page(9, "")).items) == 1


async def test_a_judge_is_fixed_to_a_version_of_its_reward(world: Any) -> None:
    report = await world.evaluations.create(replace(SPEC, judge=RewardJudge("facts", 0.5)), "")
    assert report.evaluation.spec.judge == RewardJudge("facts@2", 0.5, "print([2])")
    assert world.rewards.used == [("facts@2", report.evaluation.id)]
    with pytest.raises(NotFound, match="there is no reward 'fatcs'"):
        await world.evaluations.create(replace(SPEC, judge=RewardJudge("fatcs")), "")


IMPORTED = replace(SPEC, model=None, imported_samples=3, samples_per_problem=2)


async def test_samples_are_added_once(world: Any) -> None:
    id = (await world.evaluations.create(IMPORTED, "")).evaluation.id
    first = [Imported("p00", 0, "pass"), Imported("p00", 1, "def f(): ...", is_program=True)]
    await world.evaluations.add(id, first)
    await world.evaluations.add(id, [Imported("p00", 0, "another"), Imported("p01", 0, "no", benchmark="basics")])
    stored = await world.store.unjudged(id, 9, None)
    assert [(one.key.problem_id, one.key.index, one.completion, one.is_program) for one in stored] == [
        ("p00", 0, "pass", False),
        ("p00", 1, "def f(): ...", True),
        ("p01", 0, "no", False),
    ]
    with pytest.raises(FailedPrecondition, match="takes 3 samples"):
        await world.evaluations.add(id, [Imported("p02", 0, "")])


async def test_samples_that_come_again_after_the_end_are_there(world: Any) -> None:
    """The answer to the first call was lost, and they were judged meanwhile."""
    id = (await world.evaluations.create(replace(IMPORTED, imported_samples=1), "")).evaluation.id
    given = [Imported("p00", 0, "pass")]
    await world.evaluations.add(id, given)
    await world.evaluations.cancel(id)
    again = await world.evaluations.add(id, given)
    assert again.evaluation.state is State.CANCELLED
    with pytest.raises(FailedPrecondition, match="takes 1 samples"):
        await world.evaluations.add(id, [Imported("p01", 0, "pass")])
    other = (await world.evaluations.create(replace(IMPORTED, imported_samples=2), "")).evaluation.id
    await world.evaluations.cancel(other)
    with pytest.raises(FailedPrecondition, match="cannot be added to"):
        await world.evaluations.add(other, given)


async def test_one_that_awaits_samples_is_no_work_until_all_are_there(world: Any) -> None:
    """Its caller may have left: nobody else waits behind it."""
    spec = replace(IMPORTED, imported_samples=2)
    report = await world.evaluations.create(spec, "")
    id = report.evaluation.id
    assert report.waits_for == "its samples: 0 of 2 were added"
    first = await world.evaluations.add(id, [Imported("p00", 0, "pass")])
    assert (first.waits_for, world.queue.ids) == ("its samples: 1 of 2 were added", [])
    with pytest.raises(FailedPrecondition, match="waits for its samples"):
        await world.store.change(id, lambda present: present.claim("me", world.clock.now(), timedelta(hours=1)))
    for _ in range(2):
        await world.evaluations.add(id, [Imported("p00", 0, "pass"), Imported("p01", 0, "pass")])
    assert world.queue.ids == [id]


async def test_who_waits_is_told_for_what(world: Any) -> None:
    awaiting = (await world.evaluations.create(IMPORTED, "")).evaluation.id
    ids = []
    for _ in range(3):
        ids.append((await world.evaluations.create(SPEC, "")).evaluation.id)
        world.clock.advance(timedelta(seconds=1))

    async def told(id: str) -> str:
        return str((await world.evaluations.get(id)).waits_for)

    assert await told(ids[0]) == "a worker: none has taken it yet"
    assert await told(ids[2]) == "a worker: none has taken it yet; 2 more wait before it"
    await world.store.change(ids[0], lambda present: present.claim("me", world.clock.now(), timedelta(hours=1)))
    assert await told(ids[0]) == ""
    assert await told(ids[1]) == f"a worker: busy with {ids[0]} of basics"
    assert await told(ids[2]) == f"a worker: busy with {ids[0]} of basics; 1 more waits before it"
    assert await told(awaiting) == "its samples: 0 of 3 were added"
    await world.evaluations.cancel(ids[2])
    assert await told(ids[2]) == ""


async def test_watch_tells_of_references_and_of_what_it_waits_for(world: Any) -> None:
    id = (await world.evaluations.create(SPEC, "")).evaluation.id

    async def watch() -> list[tuple[bool, int]]:
        reports = [report async for report in world.evaluations.watch(id)]
        return [(bool(report.waits_for), report.evaluation.references.tried) for report in reports]

    watching = asyncio.create_task(watch())
    now = world.clock.now()
    for change in (
        lambda present: present.claim("me", now, timedelta(hours=1)),
        lambda present: present.try_references("me", References(1, 2)),
        lambda present: present.cancel(now),
    ):
        await asyncio.sleep(0.02)
        await world.store.change(id, change)
    assert await asyncio.wait_for(watching, 5) == [(True, 0), (False, 0), (False, 1), (False, 1)]


async def test_samples_of_no_problem_are_refused(world: Any) -> None:
    id = (await world.evaluations.create(IMPORTED, "")).evaluation.id
    with pytest.raises(InvalidArgument) as refused:
        await world.evaluations.add(
            id, [Imported("p00", 0, ""), Imported("", 0, "", False, "x"), Imported("p1", 2, "")]
        )
    fields = ["samples[1].benchmark", "samples[1].problem_id", "samples[2].index"]
    assert [fault.field for fault in refused.value.violations] == fields
    with pytest.raises(InvalidArgument, match="no problem 'q' of basics"):
        await world.evaluations.add(id, [Imported("p00", 0, ""), Imported("q", 0, "")])
    assert await world.store.sample_keys(id) == frozenset()
    with pytest.raises(FailedPrecondition, match="generates"):
        await world.evaluations.add((await world.evaluations.create(SPEC, "")).evaluation.id, [])


async def test_its_problems_are_known_by_their_fingerprints(world: Any) -> None:
    id = await succeeded(world, SPEC, "01")
    known = [Facts(ProblemKey("basics", name), fingerprint=name) for name in ("b", "a")]
    left_out = Facts(ProblemKey("basics", "c"), fingerprint="c", excluded="its reference fails")
    await world.store.add_problems(id, [*known, left_out])
    assert await world.evaluations.fingerprints(id) == ["a", "b"]


async def test_lists_can_be_filtered(world: Any) -> None:
    suite = (SuiteEntry(ProblemSetRef("basics")), SuiteEntry(ProblemSetRef("more")))
    both = (await world.evaluations.create(replace(SPEC, suite=suite), "")).evaluation.id
    one = await succeeded(world, SPEC, "0101")

    async def ids(only: EvaluationFilter) -> list[str]:
        return [report.evaluation.id for report in (await world.evaluations.page(9, "", only)).items]

    assert await ids(EvaluationFilter(problems="more")) == [both]
    assert await ids(EvaluationFilter(model="starter")) == [one, both]
    assert await ids(EvaluationFilter(model="start")) == []
    page = await world.evaluations.sample_page(one, 1, "", SampleFilter(verdict="PASSED"))
    rest = await world.evaluations.sample_page(one, 9, page.next_page_token, SampleFilter(verdict="PASSED"))
    assert [item.key.problem_id for item in [*page.items, *rest.items]] == ["b", "d"]
