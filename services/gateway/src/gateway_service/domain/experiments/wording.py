"""The sentences of an experiment's report."""

from collections.abc import Mapping, Sequence

from gateway_service.domain.experiments.experiment import ExperimentSpec, Metric
from gateway_service.domain.experiments.report import Comparison, VariantReport
from gateway_service.domain.statistics.conclusions import Standing
from gateway_service.domain.statistics.moments import Mean
from gateway_service.domain.traffic.measure import Measure
from ratchet_kit.statistics import Estimate

NAMES = {
    Measure.QUALITY: "quality",
    Measure.FEEDBACK: "feedback",
    Measure.TESTS: "share of tests passed",
    Measure.ERROR_RATE: "error rate",
    Measure.LATENCY: "latency",
    Measure.LATENCY_P95: "p95 latency",
    Measure.TOKENS: "tokens an answer",
    Measure.COST: "cost of an answer",
    Measure.LEFT: "callers who left",
}


def describe(
    variant: str,
    metric: Metric,
    standing: Standing,
    difference: Estimate | None,
    level: float,
    means: tuple[Mean, Mean] | None,
    withheld: str,
) -> str:
    """One comparison: its standing, the number, its interval and what it rests on."""
    name = metric.name or NAMES[metric.measure]
    if difference is None or means is None:
        return f"{variant}: {standing} in {name}: too few units have a value, or a few of them have most"
    unit = metric.measure.unit
    of_variant, of_first = means
    text = (
        f"{variant}: {standing} in {name}: {difference.value:+.4g}{unit} ({100 * (1 - level):.4g} % interval "
        f"{difference.low:+.4g} to {difference.high:+.4g}), "
        f"{of_variant.value:.4g}{unit} of {of_variant.units:.0f} units "
        f"against {of_first.value:.4g}{unit} of {of_first.units:.0f}"
    )
    if standing in (Standing.BETTER, Standing.WORSE) and max(abs(difference.low), abs(difference.high)) < metric.margin:
        text += f"; less than the {metric.margin:g}{unit} that would matter"
    if difference.low == difference.high:
        text += "; all values are the same, which shows nothing of those to come"
    return f"{text}; no verdict: {withheld}" if withheld else text


def no_answers(measure: Measure, means: tuple[Mean, Mean] | None) -> str:
    """Why answers are not compared."""
    what = "left by their callers before the end" if measure is Measure.LEFT else "not answered"
    if means is None:
        return f"how many of the requests were {what} is not known"
    of_variant, of_first = (f"{100 * one.value:.3g} %" for one in means)
    return (
        f"{of_variant} of its requests were {what}, {of_first} of the first variant's, so answers are to other requests"
    )


def conclusion(
    spec: ExperimentSpec,
    variants: Sequence[VariantReport],
    comparisons: Sequence[Comparison],
    broken: bool,
    waits: Sequence[str],
    withheld: Mapping[str, str],
) -> str:
    """The whole experiment: every variant in the primary metric, and the guardrails that say something."""
    if broken:
        counts = ", ".join(f"{variant.units} of {variant.name}" for variant in variants)
        return (
            f"no verdict: the numbers of {spec.unit}s ({counts}) do not fit the weights, so assignment or recording is "
            "broken, and no other number can be believed"
        )
    said = []
    for variant in spec.variants[1:]:
        of_variant = [comparison for comparison in comparisons if comparison.variant == variant.name]
        said.append(of_variant[0].sentence)
        for standing in (Standing.WORSE, Standing.BETTER):
            names = [one.name or NAMES[one.measure] for one in of_variant[1:] if one.standing is standing]
            if names:
                said.append(f"{variant.name} is {standing} in {', '.join(names)}")
        names = [one.name or NAMES[one.measure] for one in of_variant[1:] if one.measure.is_of_answers]
        if names and variant.name in withheld:
            said.append(f"{variant.name} has no verdict in {', '.join(names)}: {withheld[variant.name]}")
        undecided = [one for one in of_variant[1:] if one.standing is Standing.UNDECIDED]
        if variant.name in withheld:
            undecided = [one for one in undecided if not one.measure.is_of_answers]
        open_ones = [one.name or NAMES[one.measure] for one in undecided]
        if open_ones:
            said.append(f"Not known yet, for lack of {spec.unit}s: whether it is no worse in {', '.join(open_ones)}")
        is_better = of_variant[0].standing is Standing.BETTER and not waits
        if is_better and not any(one.standing is Standing.WORSE for one in of_variant):
            gate, deploy = f"ratchet gate --model {variant.version}", f"ratchet deploy --model {variant.version}"
            said.append(f"To release {variant.version}: {gate}; {deploy}")
    if waits:
        said.append(f"not to be concluded yet: {'; '.join(waits)}")
    return ". ".join(said)
