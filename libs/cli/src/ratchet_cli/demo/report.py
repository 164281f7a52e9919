"""The HTML report of a whole turn of the ratchet: one file, no network, pictures inside."""

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

mpl.use("svg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ratchet.common.v1 import statistics_pb2

BASELINE, CANDIDATE, INK = "#8a94a6", "#1a7f5a", "#1f2933"


@dataclass(frozen=True, slots=True)
class TurnReport:
    """What happened from base to released version."""

    title: str
    baseline_name: str
    candidate_name: str
    comparison: statistics_pb2.Comparison
    samples_per_problem: int
    steps: Sequence[tuple[int, Mapping[str, float]]]
    """Step number -> metrics, under the names of ratchet.trainer.v1.Step."""
    release: Sequence[tuple[float, int, str]]
    """Seconds after the release's start, percent for the candidate, reason."""
    phases: Mapping[str, float]
    """Phase -> seconds, in order."""
    facts: Mapping[str, str]


def write(report: TurnReport, path: Path) -> None:
    """Writes the report as one HTML file. Raises OSError when it cannot be written."""
    environment = Environment(
        loader=PackageLoader("ratchet_cli.demo", "templates"), autoescape=True, undefined=StrictUndefined
    )
    html = environment.get_template("report.html").render(
        report=report,
        curves=Markup(_svg(_reward_curve(report))),
        measured=Markup(_svg(_pass_at_1(report))),
        release=Markup(_svg(_release(report))) if report.release else None,
        time=Markup(_svg(_phases(report))),
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(html)


def _svg(figure: Figure) -> str:
    out = io.StringIO()
    figure.savefig(out, format="svg", transparent=True)
    plt.close(figure)
    text = out.getvalue()
    return text[text.index("<svg") :]


def _axes(width: float, height: float) -> tuple[Figure, Axes]:
    figure, axes = plt.subplots(figsize=(width, height), layout="constrained")
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(colors=INK)
    return figure, axes


def _reward_curve(report: TurnReport) -> Figure:
    figure, axes = _axes(7.6, 3.0)
    reward = [(number, metrics["reward_mean"]) for number, metrics in report.steps if "reward_mean" in metrics]
    scores = [
        (number, metrics["validation_score"]) for number, metrics in report.steps if "validation_score" in metrics
    ]
    if reward:
        axes.plot(*zip(*reward, strict=True), color=CANDIDATE, alpha=0.35, linewidth=1, label="reward of each step")
        axes.plot(*zip(*_smoothed(reward), strict=True), color=CANDIDATE, linewidth=2, label="mean of 5 steps")
    if scores:
        axes.plot(*zip(*scores, strict=True), color=INK, marker="o", linestyle="--", linewidth=1, label="validation")
    axes.set(xlabel="step", ylabel="mean reward", ylim=(0, 1))
    axes.legend(frameon=False)
    return figure


def _smoothed(points: Sequence[tuple[int, float]], width: int = 5) -> list[tuple[int, float]]:
    values = [value for _, value in points]
    return [
        (number, sum(values[max(0, i - width + 1) : i + 1]) / len(values[max(0, i - width + 1) : i + 1]))
        for i, (number, _) in enumerate(points)
    ]


def _pass_at_1(report: TurnReport) -> Figure:
    figure, axes = _axes(3.6, 3.0)
    for place, (name, estimate, colour) in enumerate(
        (
            (report.baseline_name, report.comparison.baseline, BASELINE),
            (report.candidate_name, report.comparison.candidate, CANDIDATE),
        )
    ):
        error = [[estimate.value - estimate.low], [estimate.high - estimate.value]]
        axes.bar(place, estimate.value, yerr=error, color=colour, width=0.6, capsize=6)
        axes.text(place, estimate.high + 0.02, f"{estimate.value:.2f}", ha="center", color=INK)
        axes.set_xticks([0, 1], [report.baseline_name, report.candidate_name] if place else [name, ""])
    axes.set(ylabel="pass@1, held-out problems", ylim=(0, 1.05))
    return figure


def _release(report: TurnReport) -> Figure:
    figure, axes = _axes(7.6, 2.4)
    times = [time for time, _, _ in report.release]
    percents = [percent for _, percent, _ in report.release]
    axes.step(times, percents, where="post", color=CANDIDATE, linewidth=2)
    axes.fill_between(times, percents, step="post", color=CANDIDATE, alpha=0.15)
    axes.set(xlabel="seconds after the release began", ylabel="% of traffic", ylim=(0, 105))
    return figure


def _phases(report: TurnReport) -> Figure:
    figure, axes = _axes(7.6, 0.4 * len(report.phases) + 0.8)
    names = list(report.phases)
    axes.barh(names, list(report.phases.values()), color=BASELINE)
    for place, seconds in enumerate(report.phases.values()):
        axes.text(seconds, place, f" {seconds:.0f} s", va="center", color=INK)
    axes.invert_yaxis()
    axes.set(xlabel="seconds")
    return figure
