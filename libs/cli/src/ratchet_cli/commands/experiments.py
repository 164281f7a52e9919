"""`ratchet experiments`: versions of a model side by side on live traffic, and what can be concluded of them."""

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Annotated

import typer

from ratchet.common.v1 import generation_pb2
from ratchet.gateway.v1 import experiment_pb2 as pb
from ratchet_cli.commands.options import Id, Limit, numbers_of_user, one_of
from ratchet_cli.commands.replay_file import replay_prompts
from ratchet_cli.terminal.errors import CommandError
from ratchet_cli.terminal.output import (
    JsonFlag,
    SortOption,
    ago,
    print_fields,
    print_json,
    print_list,
    print_table,
    say,
)
from ratchet_client import Client
from ratchet_client.names import state_name, version_name
from ratchet_kit import refs
from ratchet_workflows.notation.references import version_of

MEASURES = {
    name.removeprefix("MEASURE_").lower().replace("_", "-"): value
    for name, value in pb.ExperimentMetric.Measure.items()
    if value not in (pb.ExperimentMetric.MEASURE_UNSPECIFIED, pb.ExperimentMetric.MEASURE_NAMED)
}
DIRECTIONS = {
    "more": pb.ExperimentMetric.DIRECTION_MORE_IS_BETTER,
    "less": pb.ExperimentMetric.DIRECTION_LESS_IS_BETTER,
}
UNITS = {name.removeprefix("UNIT_").lower(): value for name, value in pb.ExperimentSpec.Unit.items() if value}

app = typer.Typer(help="Experiments (A/B/n).", no_args_is_help=True)

MetricOption = Annotated[
    str, typer.Option(help=f"One of {', '.join(MEASURES)}; or more:NAME or less:NAME for a metric of feedback.")
]
PromptPrice = Annotated[float, typer.Option(help="Price of a million prompt tokens, for the metric cost.")]
CompletionPrice = Annotated[float, typer.Option(help="Price of a million answer tokens, for the metric cost.")]
UnitOption = Annotated[str, typer.Option(help=f"Unit that stays with one variant: {', '.join(UNITS)}.")]
TrafficOption = Annotated[float, typer.Option(help="Share of units that take part, in (0, 1].")]
ReasonOption = Annotated[str, typer.Option(help="Reason, for the history.")]


@app.command("plan")
def plan(
    model: Annotated[str, typer.Option(help="Model whose traffic the plan is based on.")],
    effect: Annotated[float, typer.Option(help="Difference to show, in the metric's own unit.")],
    metric: MetricOption = "quality",
    unit: UnitOption = "user",
    variants: Annotated[int, typer.Option(help="Number of variants, including the first.", min=2)] = 2,
    guardrails: Annotated[int, typer.Option(help="Number of guardrails: more of them need more units.", min=0)] = 0,
    traffic: TrafficOption = 1.0,
    alpha: Annotated[float, typer.Option(help="Probability of a false alarm.")] = 0.05,
    power: Annotated[float, typer.Option(help="Probability of showing a true effect.")] = 0.8,
    deviation: Annotated[
        float, typer.Option(help="Standard deviation of a unit's mean; default: from the last 7 days.")
    ] = 0.0,
    units_per_day: Annotated[float, typer.Option(help="Units per day; default: from the model's last 7 days.")] = 0.0,
    prompt_price: PromptPrice = 0.0,
    completion_price: CompletionPrice = 0.0,
    as_json: JsonFlag = False,
) -> None:
    """Compute the units and days that an experiment needs to show an effect."""
    request = pb.PlanExperimentRequest(
        model=model,
        primary=_metric(metric, "--metric"),
        unit=one_of(unit, UNITS, "--unit"),
        effect=effect,
        alpha=alpha,
        power=power,
        weights=[1.0] * variants,
        guardrails=guardrails,
        traffic=traffic,
        deviation=deviation or None,
        units_per_day=units_per_day or None,
        price=_price(prompt_price, completion_price),
    )
    with Client() as client:
        found = client.experiments.plan(request)
    if as_json:
        print_json(found)
        return
    print_fields(
        (
            ("deviation", f"{found.deviation:.4g}"),
            (f"{unit}s a day", f"{found.units_per_day:.4g}"),
            ("fixed horizon", f"{found.fixed_units} {unit}s, {found.fixed_days:.1f} days"),
            ("looked at any time", f"{found.sequential_units} {unit}s at most, {found.sequential_days:.1f} days"),
            ("create with", f"--fixed --min-units {-(-found.fixed_units // variants)}"),
            ("or with", f"--planned-units {found.sequential_units}"),
        )
    )


@app.command("create")
def create(
    variant: Annotated[
        list[str], typer.Option(help="name=model@version, or name=model@version*weight; the first is the control.")
    ],
    metric: Annotated[str, typer.Option(help="The primary metric, or metric:margin. Names: see `plan`.")] = ("quality"),
    guardrail: Annotated[list[str] | None, typer.Option(help="More metrics, or metric:margin.")] = None,
    unit: Annotated[
        str,
        typer.Option(help=f"Unit that stays with one variant: {', '.join(UNITS)}. Default: user; offline: request."),
    ] = "",
    traffic: TrafficOption = 1.0,
    alpha: Annotated[float, typer.Option(help="Probability of any false alarm.")] = 0.05,
    fixed: Annotated[
        bool, typer.Option("--fixed", help="Decide in one look, at --min-units, instead of at any time.")
    ] = False,
    min_days: Annotated[float, typer.Option(help="Minimum days before it is concluded.")] = 0.0,
    min_units: Annotated[int, typer.Option(help="Minimum units of each variant before it is concluded.")] = 0,
    planned_units: Annotated[
        int, typer.Option(help="Units of all variants, from `plan`: intervals are narrowest there.")
    ] = 0,
    prompt_price: PromptPrice = 0.0,
    completion_price: CompletionPrice = 0.0,
    prompts: Annotated[
        Path | None,
        typer.Option(help="Offline: JSONL file of prompts that every variant answers; no live traffic."),
    ] = None,
    latest: Annotated[
        int, typer.Option(help="Offline: number of latest prompts to take from kept traffic.", min=0)
    ] = 0,
    max_tokens: Annotated[int, typer.Option(help="Offline: maximum number of tokens of an answer.", min=0)] = 0,
    temperature: Annotated[float | None, typer.Option(help="Offline: 0 is greedy.")] = None,
    name: Annotated[str, typer.Option(help="Name, for people.")] = "",
    description: Annotated[str, typer.Option(help="Purpose, for people.")] = "",
    start: Annotated[bool, typer.Option("--start", help="Start it at once.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Create an experiment. A margin is the smallest difference that is worth waiting for."""
    given = replay_prompts(prompts) if prompts else []
    with Client() as client:
        with numbers_of_user():
            spec = pb.ExperimentSpec(
                variants=[_variant(client, text) for text in variant],
                primary=_metric(metric, "--metric"),
                guardrails=[_metric(text, "--guardrail") for text in guardrail or ()],
                unit=one_of(unit, UNITS, "--unit") if unit else pb.ExperimentSpec.UNIT_UNSPECIFIED,
                traffic=traffic,
                analysis=pb.ExperimentSpec.ANALYSIS_FIXED if fixed else pb.ExperimentSpec.ANALYSIS_SEQUENTIAL,
                alpha=alpha,
                min_units=min_units,
                planned_units=planned_units,
                display_name=name,
                description=description,
                price=_price(prompt_price, completion_price),
            )
            spec.min_duration.FromTimedelta(timedelta(days=min_days))
            if prompts or latest:
                sampling = generation_pb2.SamplingParams(temperature=temperature, max_tokens=max_tokens or None)
                spec.replay.CopyFrom(pb.ExperimentReplay(sampling=sampling, latest=latest))
        experiment = client.experiments.create(spec, prompts=given)
        if start:
            experiment = client.experiments.start(experiment.id)
    print_json(experiment) if as_json else say(experiment.id)


@app.command("list")
def list_experiments(
    model: Annotated[str, typer.Option(help="Only experiments of this model.")] = "",
    name: Annotated[str, typer.Option(help="Only experiments whose name contains this.")] = "",
    sort: SortOption = "",
    limit: Limit = 50,
    as_json: JsonFlag = False,
) -> None:
    """List experiments, newest first."""
    with Client() as client:
        print_list(
            client.experiments.list(model, name),
            limit,
            as_json,
            {
                "id": lambda one: one.id,
                "name": lambda one: one.spec.display_name or "-",
                "variants": lambda one: ", ".join(f"{v.name}={version_name(v.version)}" for v in one.spec.variants),
                "metric": lambda one: _name(one.spec.primary),
                "state": state_name,
                "created": lambda one: ago(one.create_time),
            },
            clipped=("name", "variants"),
            sort=sort,
        )


@app.command("show")
def show(id: Id, as_json: JsonFlag = False) -> None:
    """Show an experiment's present results, or those of its conclusion."""
    with Client() as client:
        _print(client.experiments.get(id), as_json)


@app.command("start")
def start(id: Id) -> None:
    """Start it, or continue it after a pause: variants get their traffic."""
    with Client() as client:
        _say_state(client.experiments.start(id))


@app.command("pause")
def pause(id: Id, reason: ReasonOption = "") -> None:
    """Pause it: the champion answers all requests until it is started again."""
    with Client() as client:
        _say_state(client.experiments.pause(id, reason))


@app.command("stop")
def stop(id: Id, reason: ReasonOption = "") -> None:
    """End it without a conclusion."""
    with Client() as client:
        _say_state(client.experiments.stop(id, reason))


@app.command("conclude")
def conclude(
    id: Id,
    reason: ReasonOption = "",
    early: Annotated[bool, typer.Option("--early", help="Conclude even before its minimum of time and units.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Conclude it and keep its present results."""
    with Client() as client:
        _print(client.experiments.conclude(id, reason, early), as_json)


@app.command("delete")
def delete(id: Id) -> None:
    """Delete a draft, or an experiment that has ended."""
    with Client() as client:
        client.experiments.delete(id)
    say(f"{id} is deleted.")


def _print(experiment: pb.Experiment, as_json: bool) -> None:
    if as_json:
        print_json(experiment)
        return
    _say_state(experiment)
    for text in (experiment.spec.display_name, experiment.spec.description):
        if text:
            say(text)
    if experiment.prompts:
        say(f"{experiment.prompts} prompts, which every variant answers")
    report = experiment.report
    if not report.variants:
        return
    rows = [[one.name, one.units, one.requests, *_values(one.values)] for one in report.variants]
    print_table(["variant", "units", "requests", *map(_name, report.variants[0].values)], rows)
    for comparison in report.comparisons:
        say(comparison.sentence)
    say(f"In all: {report.conclusion}")


def _values(values: Sequence[pb.MetricValue]) -> list[str]:
    return [f"{value.value:.4g}" if value.HasField("value") else "-" for value in values]


def _say_state(experiment: pb.Experiment) -> None:
    say(f"{experiment.id} {state_name(experiment)}")


def _name(metric: pb.ExperimentMetric | pb.MetricValue) -> str:
    return metric.name or next((name for name, value in MEASURES.items() if value == metric.measure), "-")


def _variant(client: Client, text: str) -> pb.ExperimentVariant:
    """The variant of "treatment=starter@2*0.5". Raises CommandError for another form."""
    name, separator, rest = text.partition("=")
    model, _, weight = rest.partition("*")
    if not separator:
        raise CommandError(f"--variant {text}: write name=model@version, such as treatment=starter@2.", code=2)
    version = refs.version_to_proto(version_of(client, model))
    return pb.ExperimentVariant(name=name, version=version, weight=_number(weight or "1", "--variant", text))


def _metric(text: str, option: str) -> pb.ExperimentMetric:
    """The metric of "quality", "quality:0.02" or "more:accepted_chars:5". Raises CommandError for another form."""
    first, _, rest = text.partition(":")
    name, _, digits = rest.partition(":")
    margin = _number(digits if first in DIRECTIONS else rest, option, text)
    if first in DIRECTIONS:
        named = pb.ExperimentMetric.MEASURE_NAMED
        return pb.ExperimentMetric(measure=named, name=name, direction=DIRECTIONS[first], margin=margin)
    return pb.ExperimentMetric(measure=one_of(first, MEASURES, option), margin=margin)


def _price(prompt: float, completion: float) -> pb.TokenPrice | None:
    if not (prompt or completion):
        return None
    return pb.TokenPrice(prompt_per_million=prompt, completion_per_million=completion)


def _number(digits: str, option: str, text: str) -> float:
    """0 for no digits."""
    try:
        return float(digits or 0)
    except ValueError as error:
        raise CommandError(f"{option} {text}: '{digits}' is not a number.", code=2) from error
