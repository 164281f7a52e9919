"""The report of a study: one HTML file, no network, pictures inside."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ratchet_kit.times import duration
from ratchet_reports import page
from ratchet_reports.drawing import COLOURS, GREY, INK, LINES, MARKERS, WIDTH, axes, grid, svg
from ratchet_reports.pictures import TOGETHER, intervals, short
from ratchet_workflows.studies.curves import Band, Curve, band, smoothed
from ratchet_workflows.studies.results import Point, Result, StudyResults

Named = Sequence[tuple[str, Band]]


def write(results: StudyResults, path: Path) -> None:
    """Raises OSError when it cannot be written."""
    scored = [one for one in results.summaries if one.band]
    differing = [one for one in results.summaries if one.difference]
    single = [one for one in results.results if one.pass_at_1]
    page.render(
        "study.html",
        path,
        report=results,
        duration=duration,
        validation=_curves(results, _validation, "mean validation score"),
        reward=_curves(results, _reward, "mean reward, mean of 5 steps"),
        held_out=svg(
            intervals([(one.name, one.band) for one in scored if one.band], "pass@1, mean over seeds, 95 % interval"),
            "Held-out pass@1 of each variant",
        )
        if scored
        else svg(
            intervals(
                [(f"{one.variant}, seed {one.seed}", one.pass_at_1) for one in single if one.pass_at_1],
                "pass@1, 95 % interval over problems",
            ),
            "Held-out pass@1 of each run",
        )
        if single
        else None,
        differences=svg(
            intervals(
                [(one.name, one.difference) for one in differing if one.difference],
                f"pass@1 minus that of {results.summaries[0].name}, paired by seed, 95 % interval",
                is_difference=True,
            ),
            "Differences in pass@1",
        )
        if differing
        else None,
        trials=_trials(results.trials),
    )


def _validation(points: Sequence[Point]) -> Curve:
    return [(one.tokens, one.validation) for one in points if one.validation is not None]


def _reward(points: Sequence[Point]) -> Curve:
    return smoothed([(one.tokens, one.reward) for one in points if one.reward is not None])


def _curves(results: StudyResults, of: Callable[[Sequence[Point]], Curve], label: str) -> Markup | None:
    """Over tokens: each variant's mean over its seeds, with the band."""
    named: list[tuple[str, Band]] = []
    for summary in results.summaries:
        found = band([of(one.points) for one in results.of(summary.name) if _is_whole(one)])
        if found and len(found.x) > 1:
            named.append((short(summary.name), found))
    if not named:
        return None
    if len(named) <= TOGETHER:
        figure, plot = axes(WIDTH * 0.8, 3.4)
        for place, one in enumerate(named):
            _curve(plot, one, place)
        plot.legend(frameon=False, loc="upper left", bbox_to_anchor=(0.0, -0.16), ncols=2)
        _over_tokens([plot], named, label)
    else:
        figure, plots = grid(len(named), 3, 2.2)
        for place, (plot, one) in enumerate(zip(plots, named, strict=True)):
            _curve(plot, one, place)
            plot.set_title(one[0], fontsize=8)
        _over_tokens(plots, named, label)
    return svg(figure, f"{label} over tokens")


def _is_whole(one: Result) -> bool:
    return not one.fault and not one.stopped_early


def _curve(plot: Axes, named: tuple[str, Band], place: int) -> None:
    label, found = named
    colour, style = COLOURS[place % len(COLOURS)], LINES[place % len(LINES)]
    plot.plot(found.x, found.mean, color=colour, linestyle=style, linewidth=1.8, label=label)
    if found.low:
        plot.fill_between(found.x, found.low, found.high, color=colour, alpha=0.15, linewidth=0)


def _over_tokens(plots: Sequence[Axes], named: Named, label: str) -> None:
    means = [one for _, found in named for one in found.mean]
    lows = [min(found.low or found.mean) for _, found in named]
    highs = [max(found.high or found.mean) for _, found in named]
    ends = (min(lows), max(highs))
    if min(means) >= 0 and max(means) <= 1:  # so are all scores, whatever a band of few seeds says
        ends = (max(0.0, ends[0]), min(1.0, ends[1]))
    room = 0.05 * (ends[1] - ends[0]) or 0.05
    for place, plot in enumerate(plots):
        plot.set(xlabel="tokens trained on", ylim=(ends[0] - room, ends[1] + room), xlim=(0, None))
        plot.set_ylabel(label if len(plots) == 1 or place % 3 == 0 else "", fontsize=8 if len(plots) > 1 else None)
        plot.ticklabel_format(axis="x", style="sci", scilimits=(0, 5))
        plot.grid(axis="y", color=GREY, alpha=0.25)


def _trials(trials: Sequence[Mapping[str, Any]]) -> list[Markup]:
    """For each field that was searched: the validation over its values. Trials that ended early are hollow."""
    shown = [one for one in trials if one["validation"] is not None and one["settings"]]
    paths = dict.fromkeys(path for one in shown for path in one["settings"])
    return [svg(_scatter(path, shown), f"Validation score over {path}") for path in paths]


def _scatter(path: str, trials: Sequence[Mapping[str, Any]]) -> Figure:
    figure, plot = axes(WIDTH * 0.8, 2.6)
    values = [one["settings"][path] for one in trials]
    numbers = all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values)
    kinds: dict[str, list[Mapping[str, Any]]] = {}
    for one in trials:
        kind = "default" if one["default"] else "all steps" if one["state"] == "COMPLETE" else "ended early"
        kinds.setdefault(kind, []).append(one)
    for label, some in sorted(kinds.items()):
        colour, marker = (COLOURS[1], MARKERS[1]) if label == "default" else (COLOURS[0], MARKERS[0])
        at = [one["settings"][path] if numbers else str(one["settings"][path]) for one in some]
        scores = [one["validation"] for one in some]
        face = "none" if label == "ended early" else colour
        plot.scatter(at, scores, edgecolors=colour, facecolors=face, marker=marker, label=label)
    if numbers and min(values) > 0 and max(values) / min(values) > 8:
        plot.set_xscale("log")
    elif numbers:
        plot.locator_params(axis="x", nbins=6)
    plot.set_xlabel(path, color=INK)
    plot.set_ylabel("validation score")
    plot.legend(frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure
