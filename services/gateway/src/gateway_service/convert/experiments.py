"""Experiments, their plans and their reports."""

from collections.abc import Mapping, Sequence
from typing import TypeVar

from gateway_service.domain.experiments.experiment import (
    Analysis,
    Direction,
    Experiment,
    ExperimentSpec,
    Metric,
    State,
    Variant,
)
from gateway_service.domain.experiments.plan import Plan, PlanRequest
from gateway_service.domain.experiments.replay import Replay, ReplayPrompt
from gateway_service.domain.experiments.report import Comparison, Report
from gateway_service.domain.statistics.conclusions import Standing
from gateway_service.domain.traffic.measure import Measure, TokenPrice
from gateway_service.domain.traffic.record import ProblemRef, Unit
from ratchet.gateway.v1 import experiment_pb2 as pb
from ratchet_kit import refs
from ratchet_kit.errors import invalid
from ratchet_kit.names import VersionRef
from ratchet_kit.statistics import estimate_to_proto
from ratchet_kit.times import duration_from_proto, duration_to_proto, timestamp_to_proto
from ratchet_policies import convert as policies

T = TypeVar("T")

_STATES = {state: pb.Experiment.State.Value(f"STATE_{state.name}") for state in State}
_UNITS_TO_PROTO = {unit: pb.ExperimentSpec.Unit.Value(f"UNIT_{unit.name}") for unit in Unit}
_ANALYSES_TO_PROTO = {analysis: pb.ExperimentSpec.Analysis.Value(f"ANALYSIS_{analysis.name}") for analysis in Analysis}
_MEASURES_TO_PROTO = {measure: pb.ExperimentMetric.Measure.Value(f"MEASURE_{measure.name}") for measure in Measure}
_DIRECTIONS_TO_PROTO: Mapping[Direction | None, pb.ExperimentMetric.Direction.ValueType] = {
    direction: pb.ExperimentMetric.Direction.Value(f"DIRECTION_{direction.name}") for direction in Direction
} | {None: pb.ExperimentMetric.DIRECTION_UNSPECIFIED}
_STANDINGS = {standing: pb.MetricComparison.Standing.Value(f"STANDING_{standing.name}") for standing in Standing}
_UNITS = {value: unit for unit, value in _UNITS_TO_PROTO.items()} | {0: Unit.USER}
_ANALYSES = {value: analysis for analysis, value in _ANALYSES_TO_PROTO.items()} | {0: Analysis.SEQUENTIAL}
_DIRECTIONS: Mapping[int, Direction | None] = {value: one for one, value in _DIRECTIONS_TO_PROTO.items()}
_MEASURES: Mapping[int, Measure] = {value: measure for measure, value in _MEASURES_TO_PROTO.items()}


def experiment_spec_from_proto(message: pb.ExperimentSpec) -> ExperimentSpec:
    """What is absent takes its default; the unit of a replay is the request. The domain checks the values;
    InvalidArgument for no variant, and for a measure or a kind of unit that is not known."""
    if not message.variants:
        raise invalid("spec.variants", "must be 2 or more")
    variants = tuple(
        Variant(
            one.name,
            VersionRef(one.version.model, one.version.number),
            one.weight if one.HasField("weight") else 1.0,
        )
        for one in message.variants
    )
    return ExperimentSpec(
        variants=variants,
        primary=_metric(message.primary, "spec.primary"),
        guardrails=tuple(_metric(one, f"spec.guardrails[{i}]") for i, one in enumerate(message.guardrails)),
        unit=Unit.REQUEST if message.HasField("replay") and not message.unit else _unit(message.unit, "spec.unit"),
        traffic=message.traffic if message.HasField("traffic") else 1.0,
        analysis=_known(_ANALYSES, message.analysis, "spec.analysis"),
        alpha=message.alpha if message.HasField("alpha") else 0.05,
        min_duration=duration_from_proto(message.min_duration),
        min_units=message.min_units,
        planned_units=message.planned_units,
        description=message.description,
        price=_price(message),
        replay=_replay(message.replay) if message.HasField("replay") else None,
        display_name=message.display_name,
    )


def replay_prompts_from_proto(message: pb.CreateExperimentRequest) -> Sequence[ReplayPrompt]:
    """Raises InvalidArgument for one that is empty."""
    return tuple(
        ReplayPrompt(
            policies.prompt_from_proto(one.prompt, f"prompts[{index}].prompt"),
            problem=ProblemRef(one.problem.problem_set, one.problem.problem_id) if one.HasField("problem") else None,
        )
        for index, one in enumerate(message.prompts)
    )


def plan_request_from_proto(message: pb.PlanExperimentRequest) -> PlanRequest:
    """As `spec_from_proto`."""
    optional = ("alpha", "power", "traffic", "deviation", "units_per_day")
    given = {field.name: value for field, value in message.ListFields() if field.name in optional}
    metric = _metric(message.primary, "primary")
    return PlanRequest(
        model=message.model,
        measure=metric.measure,
        name=metric.name,
        price=_price(message),
        effect=message.effect,
        unit=_unit(message.unit, "unit"),
        weights=tuple(message.weights) or (1.0, 1.0),
        guardrails=message.guardrails,
        **given,
    )


def plan_to_proto(plan: Plan) -> pb.PlanExperimentResponse:
    return pb.PlanExperimentResponse(
        deviation=plan.deviation,
        units_per_day=plan.units_per_day,
        fixed_units=plan.fixed_units,
        fixed_days=plan.fixed_days,
        sequential_units=plan.sequential_units,
        sequential_days=plan.sequential_days,
    )


def experiment_to_proto(experiment: Experiment) -> pb.Experiment:
    return pb.Experiment(
        id=experiment.id,
        spec=_spec_to_proto(experiment.spec),
        state=_STATES[experiment.state],
        events=[
            pb.ExperimentEvent(
                create_time=timestamp_to_proto(event.create_time),
                state=_STATES[event.state],
                reason=event.reason,
                actor=event.actor,
            )
            for event in experiment.events
        ],
        create_time=timestamp_to_proto(experiment.create_time),
        start_time=timestamp_to_proto(experiment.start_time) if experiment.start_time else None,
        end_time=timestamp_to_proto(experiment.end_time) if experiment.end_time else None,
        actor=experiment.actor,
        report=_report_to_proto(experiment.report) if experiment.report else None,
        past=[_report_to_proto(report) for report in experiment.past],
        prompts=experiment.prompts,
    )


def _spec_to_proto(spec: ExperimentSpec) -> pb.ExperimentSpec:
    return pb.ExperimentSpec(
        variants=[
            pb.ExperimentVariant(name=one.name, version=refs.version_to_proto(one.version), weight=one.weight)
            for one in spec.variants
        ],
        primary=_metric_to_proto(spec.primary),
        guardrails=[_metric_to_proto(metric) for metric in spec.guardrails],
        unit=_UNITS_TO_PROTO[spec.unit],
        traffic=spec.traffic,
        analysis=_ANALYSES_TO_PROTO[spec.analysis],
        alpha=spec.alpha,
        min_duration=duration_to_proto(spec.min_duration),
        min_units=spec.min_units,
        planned_units=spec.planned_units,
        description=spec.description,
        price=pb.TokenPrice(prompt_per_million=spec.price.prompt, completion_per_million=spec.price.completion)
        if spec.price
        else None,
        replay=_replay_to_proto(spec.replay) if spec.replay else None,
        display_name=spec.display_name,
    )


def _report_to_proto(report: Report) -> pb.ExperimentReport:
    return pb.ExperimentReport(
        create_time=timestamp_to_proto(report.create_time),
        variants=[
            pb.VariantReport(
                name=variant.name,
                units=variant.units,
                requests=variant.requests,
                values=[
                    pb.MetricValue(
                        measure=_MEASURES_TO_PROTO[one.measure], value=one.value, units=one.units, name=one.name
                    )
                    for one in variant.values
                ],
                later_units=variant.later_units,
            )
            for variant in report.variants
        ],
        comparisons=[_comparison_to_proto(comparison) for comparison in report.comparisons],
        sample_ratio_p_value=report.sample_ratio_p_value,
        mature=report.mature,
        conclusion=report.conclusion,
        horizon_time=timestamp_to_proto(report.horizon_time) if report.horizon_time else None,
    )


def _comparison_to_proto(comparison: Comparison) -> pb.MetricComparison:
    return pb.MetricComparison(
        variant=comparison.variant,
        measure=_MEASURES_TO_PROTO[comparison.measure],
        difference=estimate_to_proto(comparison.difference) if comparison.difference else None,
        level=comparison.level,
        p_value=comparison.p_value,
        standing=_STANDINGS[comparison.standing],
        sentence=comparison.sentence,
        name=comparison.name,
    )


def _metric(message: pb.ExperimentMetric, field: str) -> Metric:
    return Metric(
        _known(_MEASURES, message.measure, f"{field}.measure"),
        message.margin,
        message.name,
        _known(_DIRECTIONS, message.direction, f"{field}.direction"),
    )


def _metric_to_proto(metric: Metric) -> pb.ExperimentMetric:
    return pb.ExperimentMetric(
        measure=_MEASURES_TO_PROTO[metric.measure],
        margin=metric.margin,
        name=metric.name,
        direction=_DIRECTIONS_TO_PROTO[metric.direction],
    )


def _price(message: pb.ExperimentSpec | pb.PlanExperimentRequest) -> TokenPrice | None:
    if not message.HasField("price"):
        return None
    return TokenPrice(message.price.prompt_per_million, message.price.completion_per_million)


def _unit(value: int, field: str) -> Unit:
    return _known(_UNITS, value, field)


def _known(choices: Mapping[int, T], value: int, field: str) -> T:
    if value not in choices:
        raise invalid(field, f"must be one of {', '.join(str(choice) for choice in choices.values())}")
    return choices[value]


def _replay(message: pb.ExperimentReplay) -> Replay:
    return Replay(policies.sampling_from_proto(message.sampling), message.latest, message.key_id)


def _replay_to_proto(replay: Replay) -> pb.ExperimentReplay:
    sampling = policies.sampling_to_proto(replay.sampling)
    return pb.ExperimentReplay(sampling=sampling, latest=replay.latest, key_id=replay.key_id)
