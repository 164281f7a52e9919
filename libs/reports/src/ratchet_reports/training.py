"""A training run as one HTML page, whatever its state: made of what the API says of it, so that it can be made at any
time."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

import yaml
from google.protobuf.json_format import MessageToDict
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from ratchet.trainer.v1 import trainer_pb2 as pb
from ratchet_client import Client
from ratchet_client.names import model_name, state_name, version_name
from ratchet_kit.times import duration
from ratchet_reports import page, run_files, run_words, usage_words
from ratchet_reports.drawing import COLOURS, GREEN, GREY, INK, WIDTH, axes, grid, svg
from ratchet_reports.errors import ReportError

CURVES = (
    ("kl", "KL, nats a token"),
    ("entropy", "entropy, nats a token"),
    ("response_tokens_mean", "tokens of a completion, mean"),
    ("response_clip_ratio", "completions at the limit, share"),
    ("grad_norm", "norm of the gradient"),
    ("learning_rate", "learning rate"),
    ("pair_accuracy", "pairs in the right order, share"),
    ("pair_margin", "margin of pairs"),
    ("clip_fraction", "clipped tokens, share"),
    ("tokens_per_second", "tokens a second"),
)
"""Metric -> words; those that the run has are drawn."""
OWN = {"component_": "", "weight_": "weight of ", "plugin_": "plug-in: "}
"""How metrics begin that are named by a run's own reward and plug-ins -> words before the name. They are drawn, too."""
PARTS = {
    "time_generate_s": "generation and judging",
    "time_old_logprob_s": "old log-probs",
    "time_reference_s": "reference",
    "time_values_s": "values",
    "time_advantage_s": "advantages",
    "time_update_critic_s": "update of the critic",
    "time_update_s": "update",
    "time_sync_s": "weights to the engine",
    "time_checkpoint_s": "checkpoint",
    "time_validate_s": "validation",
}
"""Metric -> what it is the seconds of. All of them but the last two are part of time_step_s."""
BESIDE = ("time_checkpoint_s", "time_validate_s")
OTHER = "all else"
MOST_SAMPLES = 8
MOST_ROWS = 200


@dataclass(frozen=True, slots=True)
class RunReport:
    title: str
    run: pb.Run
    sentence: str
    is_good: bool
    is_over: bool
    steps: Sequence[pb.Step]
    checkpoints: Sequence[pb.Checkpoint]
    facts: Mapping[str, str]
    spec: str
    """YAML."""
    config: str
    """The configuration of verl in the last attempt, YAML; empty before the first."""
    samples: Sequence[pb.TrainingSample]
    """The lowest rewards of the newest step that has samples."""
    profiles: Sequence[str]
    """Names of traces."""


def gather(client: Client, id: str) -> RunReport:
    """Raises ApiError for a run that is not there."""
    run = client.runs.get(id)
    names = [one.name for one in client.runs.files(id)]
    return RunReport(
        title=run.spec.display_name or run.id,
        run=run,
        sentence=_sentence(run),
        is_good=run.state == pb.Run.STATE_SUCCEEDED,
        is_over=run.HasField("end_time"),
        steps=list(client.runs.steps(id)),
        checkpoints=list(client.runs.checkpoints(id)),
        facts={name: value for name, value in _facts(run) if value},
        spec=yaml.safe_dump(MessageToDict(run.spec, preserving_proto_field_name=True), allow_unicode=True),
        config=_config(client, id),
        samples=_worst(client, id),
        profiles=[name for name in names if name.startswith("profile/")],
    )


def _config(client: Client, id: str) -> str:
    try:
        return run_files.config(client, id)
    except ReportError:
        return ""


def _worst(client: Client, id: str) -> Sequence[pb.TrainingSample]:
    found = list(islice(client.runs.samples(id), MOST_SAMPLES))
    return [one for one in found if one.step == found[0].step]


def _sentence(run: pb.Run) -> str:
    at = f"step {run.step} of {run.spec.steps}"
    match run.state:
        case pb.Run.STATE_SUCCEEDED:
            version = version_name(run.version)
            return f"It has done all it was to do, {at}" + (f", and made {version}." if version else ".")
        case pb.Run.STATE_FAILED:
            return f"It failed at {at}: {run.failure.message}"
        case pb.Run.STATE_CANCELLED:
            return f"It was cancelled at {at}."
    return f"It is {state_name(run)}, at {at}: {run_words.activity(run)}."


def _facts(run: pb.Run) -> Iterator[tuple[str, str]]:
    spec = run.spec
    yield "run", run.id
    yield "base", model_name(spec.base)
    yield "algorithm", run_words.algorithm(spec)
    yield "learned from", _learned(spec.pairs if spec.HasField("pairs") else spec.problems)
    held_out = spec.validation_pairs if spec.HasField("validation_pairs") else spec.validation_problems
    yield "validated on", _learned(held_out) or run_words.suite(spec.validate)
    yield "reward", run_words.reward(spec.reward)
    yield "prompts", run_words.form(spec.prompt_form)
    yield "system", spec.system
    yield "result", version_name(run.version)
    best = run.best_checkpoint
    yield "best checkpoint", f"step {best.step}{run_words.score(best)}, {best.uri}" if best.step else ""
    yield "its weights", best.policy_id
    yield "tokens trained on", run_words.tokens(run)
    yield "used", usage_words.used(run.usage)
    yield "waited", usage_words.waiting(run.usage)
    yield "cost", run_words.cost(run)
    yield "memory", run_words.memory(run)
    yield "attempts", str(run.attempt)
    yield "resumed", str(run.resumes or "")
    yield "samples masked for platform faults", str(run.platform_faults or "")
    yield "asked for by", run.actor
    for word, time in (("made", run.create_time), ("started", run.start_time), ("ended", run.end_time)):
        yield word, f"{time.ToDatetime(tzinfo=UTC):%Y-%m-%d %H:%M:%S} UTC" if time.seconds else ""
    for one in spec.plugins:
        yield "plug-in", run_words.plugin(one)


def _learned(problems: Any) -> str:
    limit = f", the first {problems.limit}" if problems.limit else ""
    return f"{problems.name}{limit}{f', {problems.digest}' if problems.digest else ''}" if problems.name else ""


def write(report: RunReport, path: Path) -> None:
    """Raises OSError when it cannot be written."""
    steps = report.steps
    page.render(
        "run.html",
        path,
        report=report,
        made=f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC",
        score=_score(steps),
        curves=_curves(steps),
        time=_time(steps),
        memory=_memory(steps),
        rows=_rows(steps),
        totals=_totals(steps),
        judging=_judging(steps),
        duration=duration,
        words=run_words,
    )


def _points(steps: Sequence[pb.Step], name: str) -> list[tuple[int, float]]:
    return [(step.number, step.metrics[name]) for step in steps if name in step.metrics]


def _score(steps: Sequence[pb.Step]) -> Markup | None:
    """Rewards, of a run that learns from examples its loss, and the validation with its band."""
    name = "reward_mean" if _points(steps, "reward_mean") else "loss"
    values, scores = _points(steps, name), _points(steps, "validation_score")
    if not values and not scores:
        return None
    word = name.removesuffix("_mean")
    # A loss and the score of completions have no scale in common.
    apart = name == "loss" and bool(scores) and bool(values)
    figure, plots = grid(2 if apart else 1, 2, 2.9) if apart else (None, [])
    if figure is None:
        figure, only = axes(WIDTH * 0.9, 3.0)
        plots = [only]
    if values:
        many = len(values) > 10
        plots[0].plot(*zip(*values, strict=True), color=GREEN, alpha=0.4 if many else 1, label=f"{word} of each step")
        if many:
            plots[0].plot(*zip(*_smoothed(values), strict=True), color=GREEN, linewidth=2, label="mean of 5 steps")
    if scores:
        _validation(plots[-1], steps, scores)
    for plot in plots:
        plot.set(xlabel="step")
        plot.legend(frameon=False)
        plot.grid(axis="y", color=GREY, alpha=0.25)
        plot.xaxis.set_major_locator(MaxNLocator(integer=True))
    return svg(figure, f"{word} of each step, and validation")


def _validation(plot: Axes, steps: Sequence[pb.Step], scores: Sequence[tuple[int, float]]) -> None:
    plot.plot(*zip(*scores, strict=True), color=INK, marker="o", linestyle="--", linewidth=1, label="validation")
    low, high = _points(steps, "validation_score_low"), _points(steps, "validation_score_high")
    if not low or len(low) != len(high):
        return
    numbers, lows, highs = [number for number, _ in low], [value for _, value in low], [value for _, value in high]
    plot.fill_between(numbers, lows, highs, color=INK, alpha=0.12, linewidth=0, label="95 % interval")
    plot.vlines(numbers, lows, highs, color=INK, linewidth=1)
    if base := _points(steps, "base_score"):
        plot.axhline(base[0][1], color=GREY, linestyle=":", label="base")


def _smoothed(points: Sequence[tuple[int, float]], width: int = 5) -> list[tuple[int, float]]:
    values = [value for _, value in points]
    windows = [values[max(0, place - width + 1) : place + 1] for place in range(len(values))]
    return [(number, sum(some) / len(some)) for (number, _), some in zip(points, windows, strict=True)]


def _curves(steps: Sequence[pb.Step]) -> Markup | None:
    drawn = [(words, points) for name, words in (*_own(steps), *CURVES) if (points := _points(steps, name))]
    if not drawn:
        return None
    figure, plots = grid(len(drawn), 3, 1.9)
    for plot, (words, points) in zip(plots, drawn, strict=True):
        plot.plot(*zip(*points, strict=True), color=COLOURS[0], marker="." if len(points) < 20 else "")
        plot.set_title(words, fontsize=8)
        plot.set_xlabel("step", fontsize=8)
        plot.xaxis.set_major_locator(MaxNLocator(integer=True))
    return svg(figure, "Metrics of each step")


def _own(steps: Sequence[pb.Step]) -> Iterator[tuple[str, str]]:
    """Metric -> words, of components of the reward and of what plug-ins measure."""
    for name in sorted({name for step in steps for name in step.metrics}):
        for begin, words in OWN.items():
            if name.startswith(begin):
                yield name, words + name.removeprefix(begin)


def parts(step: pb.Step) -> dict[str, float]:
    """Where the seconds of a step went, in order; what no part has is `OTHER`."""
    found = {words: step.metrics[name] for name, words in PARTS.items() if name in step.metrics}
    inside = sum(step.metrics.get(name, 0.0) for name in PARTS if name not in BESIDE)
    rest = step.metrics.get("time_step_s", 0.0) - inside
    # verl's step has its checkpoint and its validation in it where they come before the step's end
    rest -= min(rest, sum(step.metrics.get(name, 0.0) for name in BESIDE))
    return found | ({OTHER: rest} if rest > 0.005 else {})


def _time(steps: Sequence[pb.Step]) -> Markup | None:
    if not any(map(parts, steps)):
        return None
    figure, plot = axes(WIDTH * 0.9, 2.8)
    names = dict.fromkeys(name for step in steps for name in parts(step))
    numbers = [step.number for step in steps]
    lower = [0.0] * len(steps)
    for place, name in enumerate(names):
        values = [parts(step).get(name, 0.0) for step in steps]
        colour = GREY if name == OTHER else COLOURS[place % len(COLOURS)]
        plot.bar(numbers, values, bottom=lower, width=0.85, color=colour, label=name)
        lower = [one + two for one, two in zip(lower, values, strict=True)]
    plot.set(xlabel="step", ylabel="seconds")
    plot.xaxis.set_major_locator(MaxNLocator(integer=True))
    plot.legend(frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=8)
    return svg(figure, "Where the seconds of each step went")


def _memory(steps: Sequence[pb.Step]) -> Markup | None:
    points = [(number, value / 2**30) for number, value in _points(steps, "memory_bytes_max")]
    if not points:
        return None
    figure, plot = axes(WIDTH * 0.9, 2.0)
    plot.plot(*zip(*points, strict=True), color=COLOURS[1], marker="." if len(points) < 20 else "")
    plot.set(xlabel="step", ylabel="GiB, largest rank", ylim=(0, None))
    plot.xaxis.set_major_locator(MaxNLocator(integer=True))
    return svg(figure, "Memory at the peak of each step")


def _totals(steps: Sequence[pb.Step]) -> Sequence[tuple[str, float, float]]:
    """Part, its seconds over all steps, its share of them."""
    sums: dict[str, float] = {}
    for step in steps:
        for name, seconds in parts(step).items():
            sums[name] = sums.get(name, 0.0) + seconds
    whole = sum(sums.values())
    return [(name, seconds, seconds / whole) for name, seconds in sums.items()] if whole else []


def _judging(steps: Sequence[pb.Step]) -> str:
    """A sentence; empty where nothing was judged, or by a job of before it was measured."""
    generate, judge = (_points(steps, f"prompt_{name}_s_mean") for name in ("generate", "judge"))
    if not generate or not judge:
        return ""
    one, two = (sum(value for _, value in some) / len(some) for some in (generate, judge))
    return (
        f"A prompt waited {one:.2f} s for its completions and {two:.2f} s for their verdicts and rewards, on average."
    )


def _rows(steps: Sequence[pb.Step]) -> Sequence[Mapping[str, str]]:
    """The last steps, with what people look at first."""
    names = ("reward_mean", "loss", "validation_score", "kl", "entropy", "time_step_s", "tokens")
    shown = [name for name in names if _points(steps, name)]
    return [
        {
            "step": str(step.number),
            **{name: f"{step.metrics[name]:.4g}" if name in step.metrics else "" for name in shown},
            "GiB": f"{step.metrics['memory_bytes_max'] / 2**30:.2f}" if "memory_bytes_max" in step.metrics else "",
            "attempt": str(step.attempt),
        }
        for step in steps[-MOST_ROWS:]
    ]
