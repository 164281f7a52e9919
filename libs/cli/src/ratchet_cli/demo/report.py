"""The HTML report of a whole turn of the ratchet: one file, no network, pictures inside."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.figure import Figure

from ratchet.common.v1 import statistics_pb2
from ratchet_cli.reports.drawing import GREEN, GREY, INK, axes, svg
from ratchet_cli.reports.page import render


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
    render(
        "turn.html",
        path,
        report=report,
        curves=svg(_reward_curve(report), "Reward of each step"),
        measured=svg(_pass_at_1(report), "pass@1 before and after"),
        release=svg(_release(report), "Share of traffic over time") if report.release else None,
        time=svg(_phases(report), "Seconds of each phase"),
    )


def _reward_curve(report: TurnReport) -> Figure:
    figure, plot = axes(7.6, 3.0)
    reward = [(number, metrics["reward_mean"]) for number, metrics in report.steps if "reward_mean" in metrics]
    scores = [
        (number, metrics["validation_score"]) for number, metrics in report.steps if "validation_score" in metrics
    ]
    if reward:
        plot.plot(*zip(*reward, strict=True), color=GREEN, alpha=0.35, linewidth=1, label="reward of each step")
        plot.plot(*zip(*_smoothed(reward), strict=True), color=GREEN, linewidth=2, label="mean of 5 steps")
    if scores:
        plot.plot(*zip(*scores, strict=True), color=INK, marker="o", linestyle="--", linewidth=1, label="validation")
    plot.set(xlabel="step", ylabel="mean reward", ylim=(0, 1))
    plot.legend(frameon=False)
    return figure


def _smoothed(points: Sequence[tuple[int, float]], width: int = 5) -> list[tuple[int, float]]:
    values = [value for _, value in points]
    return [
        (number, sum(values[max(0, i - width + 1) : i + 1]) / len(values[max(0, i - width + 1) : i + 1]))
        for i, (number, _) in enumerate(points)
    ]


def _pass_at_1(report: TurnReport) -> Figure:
    figure, plot = axes(3.6, 3.0)
    for place, (name, estimate, colour) in enumerate(
        (
            (report.baseline_name, report.comparison.baseline, GREY),
            (report.candidate_name, report.comparison.candidate, GREEN),
        )
    ):
        error = [[estimate.value - estimate.low], [estimate.high - estimate.value]]
        plot.bar(place, estimate.value, yerr=error, color=colour, width=0.6, capsize=6)
        plot.text(place, estimate.high + 0.02, f"{estimate.value:.2f}", ha="center", color=INK)
        plot.set_xticks([0, 1], [report.baseline_name, report.candidate_name] if place else [name, ""])
    plot.set(ylabel="pass@1, held-out problems", ylim=(0, 1.05))
    return figure


def _release(report: TurnReport) -> Figure:
    figure, plot = axes(7.6, 2.4)
    times = [time for time, _, _ in report.release]
    percents = [percent for _, percent, _ in report.release]
    plot.step(times, percents, where="post", color=GREEN, linewidth=2)
    plot.fill_between(times, percents, step="post", color=GREEN, alpha=0.15)
    plot.set(xlabel="seconds after the release began", ylabel="% of traffic", ylim=(0, 105))
    return figure


def _phases(report: TurnReport) -> Figure:
    figure, plot = axes(7.6, 0.4 * len(report.phases) + 0.8)
    names = list(report.phases)
    plot.barh(names, list(report.phases.values()), color=GREY)
    for place, seconds in enumerate(report.phases.values()):
        plot.text(seconds, place, f" {seconds:.0f} s", va="center", color=INK)
    plot.invert_yaxis()
    plot.set(xlabel="seconds")
    return figure
