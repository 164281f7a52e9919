"""From sums over units to the report of an experiment."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from gateway_service.domain.experiments.experiment import Analysis, Experiment, ExperimentSpec, Metric
from gateway_service.domain.experiments.report import Comparison, MetricValue, Report, VariantReport
from gateway_service.domain.experiments.wording import conclusion, describe, no_answers
from gateway_service.domain.statistics import horizons, sequences
from gateway_service.domain.statistics.conclusions import Standing, holm_levels, standing
from gateway_service.domain.statistics.imbalance import ALARM, sample_ratio
from gateway_service.domain.statistics.moments import (
    MIN_UNITS,
    Mean,
    Moments,
    Products,
    adjusted,
    of_one_spread,
    paired,
)
from gateway_service.domain.traffic.measure import Quantity
from gateway_service.domain.traffic.record import Unit
from gateway_service.domain.traffic.sample import UnitCount
from ratchet_kit.statistics import Estimate

TUNED_FOR = 2_000
"""Units of two variants at which their sequences are narrowest, where none are planned and no minimum is named."""
DOUBT = 0.5
"""The p-value of a sequence below which two shares are not taken for the same: at one look in 25 where they are. Lower
ones find a difference after the answers that are missing have made one."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """Records of an experiment, by variant."""

    counts: Mapping[str, UnitCount]
    moments: Mapping[Metric, Mapping[str, Moments]]
    quantiles: Mapping[Metric, Mapping[str, Mean]]
    shared: Mapping[Metric, Mapping[str, Products]]
    """Products of each variant and the first one, if both answer the same units: in a replay."""


def analyse(experiment: Experiment, evidence: Evidence, now: datetime) -> Report:
    """The report of a started experiment."""
    spec = experiment.spec
    counts = [evidence.counts.get(variant.name, UnitCount(0, 0)) for variant in spec.variants]
    ratio = sample_ratio([count.units for count in counts], [variant.weight for variant in spec.variants])
    waits = _waits(experiment, _units(spec, evidence), now)
    may_decide = ratio >= ALARM and (spec.analysis is Analysis.SEQUENTIAL or not waits)
    pairs = [pair for metric in spec.metrics for pair in _pairs(spec, metric, evidence)]
    levels = holm_levels([_finding(experiment, pair, spec.alpha).p_value for pair in pairs], spec.alpha)
    family = dict(zip(pairs, levels, strict=True))
    withheld = _withheld(experiment, evidence, family)
    comparisons = tuple(_comparison(experiment, pair, level, may_decide, withheld) for pair, level in family.items())
    variants = tuple(
        VariantReport(
            variant.name,
            count.units,
            count.requests,
            tuple(_value(metric, variant.name, evidence) for metric in spec.metrics),
        )
        for variant, count in zip(spec.variants, counts, strict=True)
    )
    said = conclusion(spec, variants, comparisons, ratio < ALARM, waits, withheld)
    if any(one.requests < experiment.prompts for one in variants):
        answered = ", ".join(f"{one.requests} by {one.name}" for one in variants)
        said += f". Of {experiment.prompts} prompts are answered: {answered}"
    return Report(now, variants, comparisons, ratio, not waits, said)


def with_later(report: Report, units: Mapping[str, UnitCount], unit: Unit) -> Report:
    """The report of a FIXED analysis at its horizon, with the units that came afterwards, which are not counted."""
    variants = tuple(
        replace(one, later_units=units[one.name].units - one.units if one.name in units else 0)
        for one in report.variants
    )
    later = sum(one.later_units for one in variants)
    said = f"{report.conclusion}. {later} {unit}s came after the horizon and are not counted" if later else ""
    return replace(report, variants=variants, conclusion=said or report.conclusion)


def _units(spec: ExperimentSpec, evidence: Evidence) -> list[int]:
    """Units that count towards its minimum, by variant."""
    if counted(spec) is None:
        return [evidence.counts[one.name].units if one.name in evidence.counts else 0 for one in spec.variants]
    moments = evidence.moments[spec.primary]
    return [moments[one.name].units if one.name in moments else 0 for one in spec.variants]


def counted(spec: ExperimentSpec) -> Quantity | None:
    """The quantity of which units must have a value to count for its minimum; None where all count. The horizon of a
    test by feedback is one of feedback, which comes later. Offline, units without a value will never have one."""
    is_by_values = spec.analysis is Analysis.FIXED and spec.replay is None and spec.primary.measure.is_of_feedback
    return spec.quantity(spec.primary) if is_by_values else None


def _waits(experiment: Experiment, units: Sequence[int], now: datetime) -> list[str]:
    """The time and units still missing to its minimum, in words."""
    spec, found = experiment.spec, []
    if experiment.start_time is None or now - experiment.start_time < spec.min_duration:
        found.append(f"it is to last {_span(spec.min_duration.total_seconds())} at least")
    if min(units) < spec.min_units:
        are = "are in its smallest variant" if counted(spec) is None else "of its smallest variant have a value"
        found.append(f"{min(units)} of at least {spec.min_units} {spec.unit}s {are}")
    if experiment.fixed and experiment.fixed.horizon_time and now < experiment.fixed.horizon_time:
        found.append("its horizon was later")
    return found


def _span(seconds: float) -> str:
    return f"{seconds / 86400:g} days" if seconds >= 86400 else f"{seconds:g} s"


def _value(metric: Metric, variant: str, evidence: Evidence) -> MetricValue:
    measure, name = metric.measure, metric.name
    if metric in evidence.quantiles:
        found = evidence.quantiles[metric].get(variant)
        return MetricValue(measure, found.value, int(found.units)) if found else MetricValue(measure, None, 0)
    moments = evidence.moments.get(metric, {}).get(variant)
    if moments is None or not moments.x:
        return MetricValue(measure, None, 0, name)
    return MetricValue(measure, moments.y / moments.x, moments.units, name)


@dataclass(frozen=True, slots=True)
class _Pair:
    """A variant and the first one, in one metric; None where too few units are known."""

    variant: str
    metric: Metric
    means: tuple[Mean, Mean] | None
    gap: Mean | None = None
    """Difference over the same units in both."""


def _mixture(experiment: Experiment, variant: str) -> float:
    """With which the sequences of a variant are narrowest at the first of Holm's levels, once it and the first one have
    the units that were planned. It is known before the first look."""
    spec = experiment.spec
    weights = {one.name: one.weight for one in spec.variants}
    share = (weights[variant] + weights[spec.variants[0].name]) / sum(weights.values())
    tuned = experiment.prompts or spec.planned_units * share or spec.min_units * len(spec.variants) or TUNED_FOR
    return sequences.mixture(tuned, spec.alpha / spec.comparisons)


def _withheld(experiment: Experiment, evidence: Evidence, family: Mapping[_Pair, float]) -> Mapping[str, str]:
    """Why a variant's answers are not compared, by the variants of which they are not: where its share of requests
    without an answer is another than the first variant's, the answers are to other requests. A sequence doubts at
    DOUBT; a test at its level in the family, since at alpha one in twenty had no verdict in vain."""
    spec, found = experiment.spec, dict[str, str]()
    if not any(metric.measure.is_of_answers for metric in spec.metrics):
        return found
    for metric in spec.unanswered:
        for pair in _pairs(spec, metric, evidence):
            finding = _finding(experiment, pair, spec.alpha)
            is_unknown = pair.means is None and metric in spec.metrics
            is_sequence = spec.analysis is Analysis.SEQUENTIAL
            level = DOUBT if is_sequence else family.get(pair, spec.alpha / spec.comparisons)
            if is_unknown or finding.p_value <= level:
                found.setdefault(pair.variant, no_answers(metric.measure, pair.means))
    return found


def _pairs(spec: ExperimentSpec, metric: Metric, evidence: Evidence) -> list[_Pair]:
    names = [variant.name for variant in spec.variants]
    if metric in evidence.quantiles:
        quantiles = evidence.quantiles[metric]
        known = {name: quantiles[name] for name in names if name in quantiles and quantiles[name].units >= MIN_UNITS}
    else:
        moments = evidence.moments.get(metric, {})
        enough = [name for name in names if name in moments and moments[name].effective_units >= MIN_UNITS]
        means = of_one_spread(adjusted([moments[name] for name in enough], bounded=metric.measure.is_bounded))
        known = dict(zip(enough, means, strict=True))
    first, others = names[0], names[1:]
    found = []
    for name in others:
        both = (known[name], known[first]) if name in known and first in known else None
        gap = None
        if both and metric in evidence.shared:
            gap = _gap(metric, name, first, evidence)
            both = both if gap else None
        found.append(_Pair(name, metric, both, gap))
    return found


def _gap(metric: Metric, variant: str, first: str, evidence: Evidence) -> Mean | None:
    """Unit by unit; None where too few are in both."""
    shared = evidence.shared[metric].get(variant, Products())
    if shared.units < MIN_UNITS:
        return None
    moments = evidence.moments[metric]
    return paired(moments[variant], moments[first], shared, bounded=metric.measure.is_bounded)


def _finding(experiment: Experiment, pair: _Pair, level: float) -> horizons.Finding:
    if pair.means is None:
        return horizons.Finding(Estimate(0.0, float("-inf"), float("inf")), 1.0)
    of_variant, of_first = pair.means
    if experiment.spec.analysis is Analysis.SEQUENTIAL:
        gap, r = pair.gap or of_variant - of_first, _mixture(experiment, pair.variant)
        return horizons.Finding(sequences.interval(gap, level, r), sequences.p_value(gap, r))
    if pair.gap is not None:
        return horizons.paired(pair.gap, level)
    return horizons.welch(of_variant, of_first, level)


def _comparison(
    experiment: Experiment, pair: _Pair, level: float, may_decide: bool, withheld: Mapping[str, str]
) -> Comparison:
    finding, metric = _finding(experiment, pair, level), pair.metric
    reason = withheld.get(pair.variant, "") if metric.measure.is_of_answers else ""
    gap = finding.difference
    known = gap.high - gap.low != float("inf")
    gain = gap if metric.more_is_better else Estimate(-gap.value, -gap.high, -gap.low)
    decided = standing(gain, metric.margin) if may_decide and known and not reason else Standing.UNDECIDED
    difference = gap if known else None
    sentence = describe(pair.variant, metric, decided, difference, level, pair.means, reason)
    return Comparison(pair.variant, metric.measure, difference, level, finding.p_value, decided, sentence, metric.name)
