"""The expected usage of an evaluation, from earlier ones."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from eval_service.domain.evaluation import Evaluation
from eval_service.domain.score import BenchmarkScore, Score
from eval_service.domain.spec import EvaluationSpec, Form, ProblemSetRef, Prompting, SuiteEntry
from ratchet_kit import projects
from ratchet_kit.names import Location, VersionRef
from ratchet_kit.usage import Usage

SPEC = EvaluationSpec(VersionRef("starter", 1), (SuiteEntry(ProblemSetRef("basics")),), samples_per_problem=2)
USED = Usage(timedelta(hours=1), timedelta(minutes=9), timedelta(seconds=12), 600, 240, timedelta(minutes=3), cost=9.0)


async def ended(world: Any, spec: EvaluationSpec = SPEC, usage: Usage = USED, samples: int = 12) -> None:
    """One that has succeeded; each of its samples has 20 tokens."""
    id = (await world.evaluations.create(spec, "")).evaluation.id

    async def tokens(ids: Sequence[str]) -> dict[str, int]:
        return dict.fromkeys(ids, 20 * samples)

    world.store.tokens = tokens

    def end(present: Evaluation) -> Evaluation:
        now = world.clock.now()
        held = present.claim("me", now, timedelta(hours=1)).measure("me", "sha256:" + "ab" * 32, "", Form.CHAT)
        score = Score((), (BenchmarkScore("basics", 6, 6, samples=samples),))
        return replace(held.succeed("me", score, now), usage=usage)

    await world.store.change(id, end)


async def forecast(world: Any, spec: EvaluationSpec = SPEC, budget: float | None = None) -> Evaluation:
    report = await world.evaluations.create(replace(spec, budget=budget), "", validate_only=True)
    evaluation: Evaluation = report.evaluation
    return evaluation


async def test_there_is_none_before_one_like_it_has_succeeded(world: Any) -> None:
    await world.evaluations.create(SPEC, "")  # it has not ended
    assert (await forecast(world)).forecast is None
    await ended(world)
    assert (await forecast(world)).forecast is not None


async def test_it_is_what_a_sample_took_for_all_of_its_samples_at_the_prices_of_now(world: Any) -> None:
    await ended(world)
    wanted = (await forecast(world, replace(SPEC, model=VersionRef("starter", 7), samples_per_problem=4))).forecast
    # Twice as many samples: 24 s in the sandbox, at 36 EUR an hour.
    assert wanted == replace(USED.times(2), cost=pytest.approx(0.24), currency="EUR")
    stored = (await world.evaluations.create(SPEC, "")).evaluation
    assert (await world.store.get(stored.id)).forecast == stored.forecast


@pytest.mark.parametrize(
    "other",
    [
        replace(SPEC, model=VersionRef("another", 1)),
        replace(SPEC, max_tokens=64),
        replace(SPEC, suite=(*SPEC.suite, SuiteEntry(ProblemSetRef("more")))),
        replace(SPEC, suite=(SuiteEntry(ProblemSetRef("more")),)),
        replace(SPEC, prompting=Prompting(Form.COMPLETION)),
        replace(SPEC, system="Be brief."),
        replace(SPEC, model=Location("/weights")),
    ],
)
async def test_an_evaluation_made_otherwise_says_nothing_of_it(world: Any, other: EvaluationSpec) -> None:
    await ended(world)
    assert (await forecast(world, other)).forecast is None


async def test_weights_by_their_path_are_their_own_measure(world: Any) -> None:
    spec = replace(SPEC, model=Location("/weights"))
    await ended(world, spec)
    assert (await forecast(world, spec)).forecast
    assert (await forecast(world, replace(spec, model=Location("/others")))).forecast is None


async def test_one_that_drew_only_a_part_of_its_samples_is_no_measure(world: Any) -> None:
    await ended(world, usage=replace(USED, completion_tokens=239))
    assert (await forecast(world)).forecast is None


async def test_a_set_that_must_be_prepared_first_has_none(world: Any) -> None:
    await ended(world)
    world.problems.ready = False
    assert (await forecast(world)).forecast is None


async def test_another_projects_evaluations_are_no_measure(world: Any) -> None:
    with projects.acting("acme"):
        await ended(world)
        assert (await forecast(world)).forecast
    with projects.acting("others"):
        assert (await forecast(world)).forecast is None


async def test_a_budget_that_is_too_small_is_noticed(world: Any) -> None:
    await ended(world)
    assert (await forecast(world, budget=0.2)).notices == ()
    [said] = (await forecast(world, budget=0.1)).notices
    assert said == "its budget of 0.1 EUR is expected to end it after 83% of its samples"
