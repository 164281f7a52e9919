"""Requests without an answer: their share is compared in every experiment, and where it differs the answers are not."""

from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest

from gateway_service.domain.experiments.analysis import Evidence, analyse
from gateway_service.domain.experiments.experiment import Analysis, Experiment, ExperimentSpec, Metric, Variant
from gateway_service.domain.experiments.report import Comparison, Report
from gateway_service.domain.statistics.conclusions import Standing
from gateway_service.domain.traffic.measure import Measure
from gateway_service.domain.traffic.record import Arm, CompletionRecord
from ratchet_kit.names import VersionRef

from .. import doubles
from ..world import World

CONTROL, TREATMENT = Variant("control", VersionRef("starter", 1)), Variant("treatment", VersionRef("starter", 2))
LATENCY, TOKENS = Metric(Measure.LATENCY), Metric(Measure.TOKENS)
SPEC = ExperimentSpec((CONTROL, TREATMENT), LATENCY, (Metric(Measure.LATENCY_P95), TOKENS))


async def shown(world: World, spec: ExperimentSpec, users: int, hangs: float, fails: float = 0.0) -> Report:
    """Callers of the treatment whose answers take more than 3 s wait for 5 s in vain, and leave; others get 0.5 to 4 s.
    `hangs`: how many of all requests do so besides; `fails`: how many end with an error instead."""
    made = await world.gateway.experiments.create("", spec)
    experiment = await world.gateway.experiments.start(made.id)
    random, records = np.random.default_rng(0), []
    for user in range(users):
        for _ in range(5):
            of_treatment, latency = user % 2 == 1, random.uniform(0.5, 4.0)
            slow = of_treatment and hangs > 0 and (latency > 3 or random.random() < hangs)
            record = CompletionRecord(
                id=f"cmpl_{len(records):010}",
                start_time=world.clock.now(),
                version=(TREATMENT if of_treatment else CONTROL).version,
                arm=Arm.NONE,
                latency=timedelta(seconds=5.0 if slow else latency),
                completion_tokens=int(10 * latency),
                experiment_id=experiment.id,
                variant="treatment" if of_treatment else "control",
                unit=f"user {user}",
                left=slow,
                error="died" if of_treatment and latency > 4 - 3.5 * fails else "",
            )
            records.append(record)
    await world.completions.append(records)
    report = (await world.gateway.experiments.get(experiment.id)).report
    assert report is not None
    return report


def of(report: Report, measure: Measure) -> Comparison:
    return next(one for one in report.comparisons if one.measure is measure)


@pytest.mark.parametrize("analysis", Analysis)
async def test_a_version_that_does_not_answer_is_not_quick(world: World, analysis: Analysis) -> None:
    """The review's exp_left.py: "better in latency", "better in p95 latency", error rate +0."""
    spec = replace(SPEC, analysis=analysis, min_units=500)
    report = await shown(world, spec, users=1200, hangs=0.4)
    assert of(report, Measure.LEFT).standing is Standing.WORSE
    for measure in (Measure.LATENCY, Measure.LATENCY_P95, Measure.TOKENS):
        found = of(report, measure)
        assert found.standing is Standing.UNDECIDED
        assert "no verdict: 5" in found.sentence
        assert "left by their callers before the end, 0 % of the first variant's" in found.sentence
    assert "no verdict" in report.conclusion
    assert "treatment is worse in callers who left" in report.conclusion


async def test_nor_is_one_that_fails_where_it_would_take_long(world: World) -> None:
    report = await shown(world, SPEC, users=1200, hangs=0.0, fails=0.3)
    assert of(report, Measure.LEFT).standing is Standing.UNDECIDED
    assert of(report, Measure.LATENCY).standing is Standing.UNDECIDED
    assert "% of its requests were not answered, 0 % of the first variant's" in of(report, Measure.LATENCY).sentence


async def test_where_all_wait_answers_are_compared(world: World) -> None:
    report = await shown(world, replace(SPEC, primary=replace(LATENCY, margin=0.5)), users=1200, hangs=0.0)
    assert of(report, Measure.LATENCY).standing is Standing.NO_DIFFERENCE
    assert "no verdict" not in report.conclusion


async def test_who_left_may_be_what_matters(world: World) -> None:
    spec = replace(SPEC, primary=Metric(Measure.LEFT, 0.02), guardrails=(LATENCY,))
    report = await shown(world, spec, users=1200, hangs=0.1)
    assert [one.measure for one in report.comparisons] == [Measure.LEFT, Measure.LATENCY]
    assert "treatment has no verdict in latency: " in report.conclusion


def test_where_it_is_not_known_who_left_nothing_is_said_of_answers() -> None:
    experiment = Experiment("exp_1", SPEC, doubles.EPOCH).start(doubles.EPOCH)
    report = analyse(experiment, Evidence({}, {}, {}, {}), doubles.EPOCH)
    assert "too few units" in report.conclusion
