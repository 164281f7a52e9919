"""Imported samples are judged as drawn ones are; what cannot be measured ends an evaluation or is left out."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from eval_service.domain.evaluation import Evaluation, References
from eval_service.domain.sets import Imported
from eval_service.domain.spec import EvaluationSpec
from ratchet_kit.errors import (
    FailedPrecondition,
    InvalidArgument,
)
from ratchet_problems import CheckTest

from .test_measurer import SPEC, claimed

IMPORTED = replace(SPEC, model=None, samples_per_problem=2, imported_samples=12, k=(1, 2))


async def imported(world: Any, texts: list[str], spec: EvaluationSpec = IMPORTED) -> Evaluation:
    """`texts` of each problem."""
    samples = [Imported(f"p0{number}", index, text) for number in range(6) for index, text in enumerate(texts)]
    return await claimed(world, spec, samples)


async def test_imported_samples_are_judged_as_programs(world: Any) -> None:
    evaluation = await imported(world, ["pass", "fail"])
    found = await world.measurer.run(evaluation, "me")
    assert [item.estimate.value for item in found.pass_at_k] == [0.75, 1.0], "the even problems pass whatever comes"
    assert sorted(world.environment.judged)[0] == "Solve 0.\nfail", "the benchmark's own evaluator joins them"
    assert world.host.opened == {}
    report = await world.evaluations.get(evaluation.id)
    assert (report.samples_total, report.score.problems_done) == (12, 6)


async def test_samples_of_no_problem_end_it_where_they_could_not_be_refused(world: Any) -> None:
    world.problems.ready = False
    evaluation = await claimed(world, replace(IMPORTED, imported_samples=1), [Imported("q", 0, "pass")])
    with pytest.raises(InvalidArgument, match="no problem 'q' of basics"):
        await world.measurer.run(evaluation, "me")


async def test_a_problem_without_samples_is_left_out(world: Any) -> None:
    samples = [Imported("p01", index, "pass") for index in (0, 1)]
    evaluation = await claimed(world, replace(IMPORTED, imported_samples=2), samples)
    [found] = (await world.measurer.run(evaluation, "me")).benchmarks
    assert (found.problems_total, len(found.exclusions)) == (1, 5)
    assert found.exclusions[0].reason == "no sample of it was added"


async def test_a_problem_whose_tests_can_judge_no_sample_ends_it_or_is_left_out(world: Any) -> None:
    world.environment.can_judge_nothing = {"p03"}
    with pytest.raises(
        FailedPrecondition, match=r"1 problems cannot be passed here .*p03: uses nothing of the program"
    ):
        await world.measurer.run(await imported(world, ["pass", "fail"]), "me")
    evaluation = await imported(world, ["pass", "fail"], replace(IMPORTED, exclude_unsound=True))
    found = await world.measurer.run(evaluation, "me")
    assert [(one.problem_id, one.reason) for one in found.benchmarks[0].exclusions] == [
        ("p03", "uses nothing of the program")
    ]
    assert (found.benchmarks[0].problems_total, found.verdicts) == (5, {"PASSED": 8, "FAILED": 2})


async def test_pass_at_k_of_too_few_samples_is_an_error(world: Any) -> None:
    samples = [Imported("p01", 0, "pass"), Imported("p01", 1, "pass"), Imported("p02", 0, "pass")]
    evaluation = await claimed(world, replace(IMPORTED, imported_samples=3), samples)
    with pytest.raises(FailedPrecondition, match="pass@2 needs 2 samples of each problem; 1 of basics have fewer: p02"):
        await world.measurer.run(evaluation, "me")


# References


def with_references(world: Any, *texts: str) -> None:
    """The odd problems pass only by a program that says so."""
    problems = zip(world.problems.problems, texts, strict=True)
    world.problems.problems = [replace(problem, references=(text,)) for problem, text in problems]


async def test_a_problem_whose_reference_fails_here_ends_it_or_is_left_out(world: Any) -> None:
    with_references(world, "pass", "pass", "pass", "fails", "pass", "pass")
    with pytest.raises(
        FailedPrecondition,
        match=r"1 problems cannot be passed here .*p03: tests\[0\]: its reference does not pass: FAILED",
    ):
        await world.measurer.run(await claimed(world), "me")
    assert world.host.completions == []
    [found] = (await world.measurer.run(await claimed(world, replace(SPEC, exclude_unsound=True)), "me")).benchmarks
    assert [one.problem_id for one in found.exclusions] == ["p03"]
    assert (found.problems_total, found.samples, len(world.host.completions)) == (5, 10, 10)


async def test_references_that_passed_are_not_tried_again(world: Any) -> None:
    with_references(world, *["pass"] * 6)
    for _ in range(2):
        await world.measurer.run(await claimed(world), "me")
    assert world.environment.judged.count("pass") == 6


async def test_references_are_counted_and_kept_as_they_pass(world: Any) -> None:
    with_references(world, *["pass"] * 5, "pass too late")
    world.environment.hangs = {"pass too late"}
    evaluation = await claimed(world)
    measuring = asyncio.create_task(world.measurer.run(evaluation, "me"))
    try:
        async with asyncio.timeout(30):
            while (await world.evaluations.get(evaluation.id)).evaluation.references != References(5, 6):
                await asyncio.sleep(0.01)
    finally:
        measuring.cancel()
        await asyncio.gather(measuring, return_exceptions=True)
    world.environment.hangs = set()
    await world.measurer.run(evaluation, "me")
    assert (await world.evaluations.get(evaluation.id)).evaluation.references == References(6, 6)
    assert [world.environment.judged.count(text) for text in ("pass", "pass too late")] == [5, 1]


@pytest.mark.parametrize("is_imported", [True, False])
async def test_what_takes_long_is_judged_first(world: Any, is_imported: bool) -> None:
    with_references(world, *["pass"] * 6)
    world.environment.cpu_times = {
        "p03": timedelta(seconds=9),
        "p05": timedelta(seconds=2),
        "p01": timedelta(seconds=0.5),
    }
    if is_imported:
        await world.measurer.run(await imported(world, ["pass 0", "pass 1"]), "me")
    else:
        await world.measurer.run(await claimed(world), "me")
    judged = [answer for answer in world.environment.judged if answer != "pass"]
    assert {answer.split(".")[0] for answer in judged[:4]} == {"Solve 3", "Solve 5"}
    assert len(judged) == 12


async def test_of_imported_samples_only_what_none_solved_is_left_out(world: Any) -> None:
    with_references(world, *["the reference may pass"] * 5, "fails")
    evaluation = await imported(world, ["no", "no"], replace(IMPORTED, exclude_unsound=True))
    [found] = (await world.measurer.run(evaluation, "me")).benchmarks
    assert [one.problem_id for one in found.exclusions] == ["p05"]
    with_references(world, *["fails"] * 6)
    evaluation = await imported(world, ["pass", "no"], replace(IMPORTED, exclude_unsound=True))
    [found] = (await world.measurer.run(evaluation, "me")).benchmarks
    assert found.exclusions == (), "a sample of each shows that it can be passed"


@pytest.mark.parametrize("is_imported", [True, False])
async def test_a_problem_is_judged_in_the_kind_that_its_reference_needs(world: Any, is_imported: bool) -> None:
    apart, beside = CheckTest("assert f() == 1"), CheckTest("assert f().pop() == 1")
    world.environment.must_share = {beside.code}
    world.problems.problems = [
        replace(one, tests=(test,), references=("pass",))
        for one, test in zip(world.problems.problems, [apart, beside] * 3, strict=True)
    ]
    spec = IMPORTED if is_imported else SPEC
    for _ in range(2):  # once tried, and once from what is stored
        evaluation = await (imported(world, ["pass", "pass"], spec) if is_imported else claimed(world, spec))
        [found] = (await world.measurer.run(evaluation, "me")).benchmarks
        assert found.shared == ("p01", "p03", "p05")
        samples = await world.store.sample_page(evaluation.id, 99, None)
        assert {one.key.problem_id for one in samples if one.judgement.forgeable} == set(found.shared)
        assert {one.name for one in found.slices} == ({"strict grading", "shared grading"})


async def test_a_prompt_without_room_names_its_problem_and_can_be_left_out(world: Any) -> None:
    world.host.room = 0
    with pytest.raises(FailedPrecondition, match=r"cannot be passed here \(exclude_unsound .*: \S+: too long"):
        await world.measurer.run(await claimed(world), "me")
    assert world.host.completions == []
    with pytest.raises(FailedPrecondition, match="no problem that can be measured"):  # all are left out
        await world.measurer.run(await claimed(world, replace(SPEC, exclude_unsound=True)), "me")
