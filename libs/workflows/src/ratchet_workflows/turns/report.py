"""The report of a turn of the ratchet: one HTML file, no network, pictures inside. It is made of the turn's record and
of what the API says of the ids in it, so that it can be made at any time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from matplotlib.figure import Figure

from ratchet.common.v1 import statistics_pb2
from ratchet_client import ApiError, Client
from ratchet_kit.names import VersionRef
from ratchet_reports import gather as evaluations
from ratchet_reports import page, run_words, usage_words
from ratchet_reports.drawing import GREEN, GREY, INK, axes, svg
from ratchet_workflows.following import gates
from ratchet_workflows.turns.records import Record, State


@dataclass(frozen=True, slots=True)
class TurnReport:
    """The way from base to released version. Stages that the turn has not reached are empty."""

    title: str
    sentence: str
    is_good: bool
    """It ended in a released version."""
    baseline_name: str
    candidate_name: str
    comparison: statistics_pb2.Comparison | None
    samples_per_problem: int
    steps: Sequence[tuple[int, Mapping[str, float]]]
    """Step number -> metrics, under the names of ratchet.trainer.v1.Step."""
    release: Sequence[tuple[float, int, str]]
    """Seconds after the release's start, percent for the candidate, reason."""
    phases: Mapping[str, float]
    """Phase -> seconds, in order."""
    facts: Mapping[str, str]


def gather(client: Client, record: Record) -> TurnReport:
    """Raises ApiError for an id that is not there any more."""
    facts = _Facts()
    before = VersionRef(record.model, record.champion)
    after = VersionRef(record.model, record.candidate)
    found = {name: client.evaluations.get(id) for name, id in record.evaluations.items()}
    run = client.runs.get(record.run) if record.run else None
    gate = client.models.gate(record.gate) if record.gate else None
    release = client.releases.get(record.release) if record.release else None

    if run:
        facts.add("training run", f"{run.id}, {run.step} of {run.spec.steps} steps, attempt {run.attempt}")
        facts.add("reward", run_words.reward(run.spec.reward))
        facts.add("samples masked for platform faults", str(run.platform_faults))
        for notice in run.notices:
            facts.add(f"at step {notice.step}", notice.message)
    for name, evaluation in found.items():
        facts.add(f"evaluation of {name}", evaluation.id)
        facts.add(f"weights of {name}", evaluation.policy_id)
    if gate:
        facts.add("gate", f"{gate.id}: {gate.reason or gate.failure.message}")
    if release:
        facts.add("release", release.id)
    comparison = _comparison(client, record.evaluations.get(str(before)), record.evaluations.get(str(after)))
    usages = [it.usage for it in (run, *found.values()) if it]
    facts.add("cost", gates.cost(client, gate) if gate else usage_words.together(usages, 0.0))
    named = {"train": run, "gate": gate, "release": release} | {f"measure {name}": it for name, it in found.items()}
    stages = [(name, it) for name, it in named.items() if it]
    stages.sort(key=lambda stage: stage[1].create_time.ToMicroseconds())
    start = release.events[0].create_time.ToMicroseconds() if release and release.events else 0
    return TurnReport(
        title=f"{record.model}: turn {record.number} of the ratchet",
        sentence=record.sentence or "The turn has not ended.",
        is_good=record.state is State.RELEASED,
        baseline_name=str(before),
        candidate_name=str(after) if record.candidate else "",
        comparison=comparison,
        samples_per_problem=next((it.spec.samples_per_problem for it in found.values()), 0),
        steps=[(step.number, dict(step.metrics)) for step in client.runs.steps(run.id)] if run else [],
        release=[
            ((event.create_time.ToMicroseconds() - start) / 1e6, event.percent, event.reason)
            for event in (release.events if release else ())
        ],
        phases={name: _seconds(it) for name, it in stages},
        facts=facts.shown,
    )


@dataclass(frozen=True, slots=True)
class _Facts:
    shown: dict[str, str] = field(default_factory=dict)

    def add(self, name: str, value: str) -> None:
        if value:
            self.shown[name] = value


def _comparison(client: Client, before: str | None, after: str | None) -> statistics_pb2.Comparison | None:
    """None where one of them is missing, has not succeeded, or was deleted."""
    if not before or not after:
        return None
    try:
        return client.evaluations.compare(before, after)
    except ApiError:
        return None


def _seconds(it: object) -> float:
    """From when it was made to its end; 0 while it has none."""
    create, end = getattr(it, "create_time"), getattr(it, "end_time")  # noqa: B009  no common type says so
    return (end.ToMilliseconds() - create.ToMilliseconds()) / 1e3 if end.seconds else 0.0


def write(report: TurnReport, path: Path, details: str = "") -> None:
    """Writes the report as one HTML file; `details`: the page of its evaluations, beside it. Raises OSError when it
    cannot be written."""
    page.render(
        "turn.html",
        path,
        report=report,
        details=details,
        curves=svg(_reward_curve(report), "Reward of each step") if report.steps else None,
        measured=svg(_pass_at_1(report, report.comparison), "pass@1 before and after") if report.comparison else None,
        release=svg(_release(report), "Share of traffic over time") if report.release else None,
        time=svg(_phases(report), "Seconds of each phase") if report.phases else None,
    )


def write_evaluations(client: Client, record: Record, path: Path) -> None:
    """All that the evaluations found, as `ratchet report` shows it. Raises ApiError, and OSError."""
    named = {id: name for name, id in record.evaluations.items()}
    title = f"{record.model}: evaluations of turn {record.number}"
    page.write(evaluations.gather(client, named, "", title, lambda done, total: None), path)


def _reward_curve(report: TurnReport) -> Figure:
    """The score; of a run that learns from examples, its loss."""
    figure, plot = axes(7.6, 3.0)
    name = "reward_mean" if any("reward_mean" in metrics for _, metrics in report.steps) else "loss"
    values = [(number, metrics[name]) for number, metrics in report.steps if name in metrics]
    scores = [
        (number, metrics["validation_score"]) for number, metrics in report.steps if "validation_score" in metrics
    ]
    word = name.removesuffix("_mean")
    if values:
        plot.plot(*zip(*values, strict=True), color=GREEN, alpha=0.35, linewidth=1, label=f"{word} of each step")
        plot.plot(*zip(*_smoothed(values), strict=True), color=GREEN, linewidth=2, label="mean of 5 steps")
    if scores:
        plot.plot(*zip(*scores, strict=True), color=INK, marker="o", linestyle="--", linewidth=1, label="validation")
        ends = ("validation_score_low", "validation_score_high")
        known = [(number, *map(metrics.get, ends)) for number, metrics in report.steps if ends[0] in metrics]
        if known:
            plot.vlines(*zip(*known, strict=True), color=INK, linewidth=1)
    plot.set(xlabel="step", ylabel=f"mean {word}")
    if all(0 <= value <= 1 for _, value in (*values, *scores)):
        plot.set(ylim=(0, 1))
    if values or scores:
        plot.legend(frameon=False)
    return figure


def _smoothed(points: Sequence[tuple[int, float]], width: int = 5) -> list[tuple[int, float]]:
    values = [value for _, value in points]
    return [
        (number, sum(values[max(0, i - width + 1) : i + 1]) / len(values[max(0, i - width + 1) : i + 1]))
        for i, (number, _) in enumerate(points)
    ]


def _pass_at_1(report: TurnReport, comparison: statistics_pb2.Comparison) -> Figure:
    figure, plot = axes(3.6, 3.0)
    for place, (name, estimate, colour) in enumerate(
        (
            (report.baseline_name, comparison.baseline, GREY),
            (report.candidate_name, comparison.candidate, GREEN),
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
