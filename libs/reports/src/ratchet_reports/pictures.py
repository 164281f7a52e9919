"""The pictures of a report. None of them needs colour: what differs also differs by place, mark, hatch or word."""

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, NullFormatter, NullLocator, ScalarFormatter, StrMethodFormatter

from ratchet_kit.statistics import Estimate
from ratchet_reports.document import OUTCOMES, PairedSet, Spread
from ratchet_reports.drawing import COLOURS, GREY, INK, LINES, MARKERS, WIDTH, axes, grid

TOGETHER = 4
"""So many curves with bands are still told apart in one plot."""
LABEL = 48
"""Characters of a label that are shown."""
HATCHES = {
    "PASSED": ("#1a7f5a", ""),
    "WRONG": ("#e69f00", "//"),
    "CRASH": ("#d55e00", "xx"),
    "TIMEOUT": ("#56b4e9", ".."),
    "MEMORY": ("#0072b2", "\\\\"),
    "NO_CODE": ("#ffffff", "++"),
    "TAMPERED": ("#000000", ""),
    "PLATFORM": ("#cc79a7", "oo"),
}

Row = tuple[str, Mapping[int, Estimate]]


def pass_at_k(rows: Sequence[Row]) -> Figure:
    """Label -> k -> estimate: a line with its band over k; where there is one k only, a dot with its interval."""
    rows = [(short(label), found) for label, found in rows if found]
    if all(len(found) == 1 for _, found in rows):
        return _dots(rows)
    if len(rows) <= TOGETHER:
        figure, plot = axes(WIDTH * 0.8, 3.2)
        for place, row in enumerate(rows):
            _curve(plot, row, place)
        plot.legend(frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
        _over_k(plot, rows)
        return figure
    figure, plots = grid(len(rows), 4, 2.0)
    for place, (plot, row) in enumerate(zip(plots, rows, strict=True)):
        _curve(plot, row, place)
        plot.set_title(row[0], fontsize=8)
        _over_k(plot, rows)
    return figure


def _curve(plot: Axes, row: Row, place: int) -> None:
    label, found = row
    k = sorted(found)
    colour = COLOURS[place % len(COLOURS)]
    style = LINES[place % len(LINES)]
    marker = MARKERS[place % len(MARKERS)]
    plot.plot(k, [found[one].value for one in k], color=colour, linestyle=style, marker=marker, label=label)
    plot.fill_between(k, [found[one].low for one in k], [found[one].high for one in k], color=colour, alpha=0.15)


def _over_k(plot: Axes, rows: Sequence[Row]) -> None:
    ticks = sorted({k for _, found in rows for k in found})
    plot.set_xscale("log")
    plot.set_xticks(ticks, [str(k) for k in ticks])
    plot.xaxis.set_minor_locator(NullLocator())
    plot.set(xlabel="k", ylabel="pass@k", ylim=(0, 1.02))
    plot.grid(axis="y", color=GREY, alpha=0.25)


def _dots(rows: Sequence[Row]) -> Figure:
    figure, plot = axes(WIDTH, 0.34 * len(rows) + 0.75)
    for place, (_, found) in enumerate(rows):
        ((_, estimate),) = found.items()
        _interval(plot, place, estimate, COLOURS[0], MARKERS[0], "{:.3f}  [{:.3f}, {:.3f}]")
    k = next(iter(rows[0][1])) if rows else 1
    _rows(plot, [label for label, _ in rows], f"pass@{k}, with its 95 % interval")
    plot.set_xlim(0, 1)
    return figure


def differences(rows: Sequence[tuple[str, PairedSet]]) -> Figure:
    """Candidate minus baseline in pass@1; filled where the interval leaves out 0."""
    figure, plot = axes(WIDTH, 0.34 * len(rows) + 0.75)
    plot.axvline(0, color=INK, linewidth=1, linestyle="--")
    for place, (_, paired) in enumerate(rows):
        found = paired.difference
        marker = ">" if found.low > 0 else "<" if found.high < 0 else "o"
        colour = COLOURS[2] if found.low > 0 else COLOURS[1] if found.high < 0 else GREY
        _interval(plot, place, found, colour, marker, "{:+.3f}  [{:+.3f}, {:+.3f}]")
    _rows(plot, [short(label) for label, _ in rows], "pass@1 minus the baseline's, paired by problem")
    farthest = max(max(abs(p.difference.low), abs(p.difference.high)) for _, p in rows)
    plot.set_xlim(-1.08 * farthest or -1, 1.08 * farthest or 1)
    return figure


def _interval(plot: Axes, place: int, found: Estimate, colour: str, marker: str, form: str) -> None:
    error = [[max(0.0, found.value - found.low)], [max(0.0, found.high - found.value)]]
    plot.errorbar(found.value, place, xerr=error, fmt=marker, color=colour, capsize=4, markersize=6, clip_on=False)
    text = form.format(found.value, found.low, found.high)
    plot.annotate(
        text, (1.025, place), xycoords=("axes fraction", "data"), va="center", color=INK, annotation_clip=False
    )


def _rows(plot: Axes, names: Sequence[str], below: str) -> None:
    plot.set_yticks(range(len(names)), names)
    plot.set_ylim(len(names) - 0.4, -0.6)
    plot.set_xlabel(below)
    plot.grid(axis="x", color=GREY, alpha=0.25)


def outcomes(rows: Sequence[tuple[str, Mapping[str, int]]]) -> Figure:
    """Label -> outcome -> samples: bars of what became of the samples, each part with a hatch and its share."""
    figure, plot = axes(WIDTH, 0.36 * len(rows) + 1.15)
    seen = [name for name in OUTCOMES if any(counts.get(name) for _, counts in rows)]
    starts = [0.0] * len(rows)
    for name in seen:
        colour, hatch = HATCHES[name]
        shares = [counts.get(name, 0) / max(1, sum(counts.values())) for _, counts in rows]
        places = range(len(rows))
        plot.barh(
            places, shares, left=starts, color=colour, hatch=hatch, edgecolor=INK, linewidth=0.5, label=OUTCOMES[name]
        )
        for place, share in enumerate(shares):
            if share >= 0.05:
                middle = starts[place] + share / 2
                box = {"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none", "alpha": 0.9}
                plot.text(
                    middle, place, f"{100 * share:.0f} %", ha="center", va="center", fontsize=8, color=INK, bbox=box
                )
            starts[place] += share
    _rows(plot, [short(label) for label, _ in rows], "share of samples")
    plot.set_xlim(0, 1)
    plot.legend(frameon=False, ncols=min(5, len(seen)), loc="lower center", bbox_to_anchor=(0.5, 1.0))
    return figure


def bars(rows: Sequence[tuple[str, int]], below: str) -> Figure:
    """A bar for each count, with its number."""
    figure, plot = axes(WIDTH, 0.28 * len(rows) + 0.75)
    plot.barh(range(len(rows)), [count for _, count in rows], color=COLOURS[0], height=0.6)
    for place, (_, count) in enumerate(rows):
        at = ("axes fraction", "data")
        plot.annotate(f"{count:,}", (1.025, place), xycoords=at, va="center", color=INK, annotation_clip=False)
    plot.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
    plot.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    plot.set_xlim(left=0)
    _rows(plot, [short(label) for label, _ in rows], below)
    return figure


def spreads(quantity: str, rows: Sequence[tuple[str, Spread]], of: str = " of a sample") -> Figure:
    """The middle half of samples as a box, nine in ten as a line, the median as a stroke. `of`: the end of the
    quantity's name."""
    figure, plot = axes(WIDTH, 0.34 * len(rows) + 0.75)
    for place, (_, found) in enumerate(rows):
        plot.hlines(place, found.p5, found.p95, color=COLOURS[0], linewidth=1.2)
        plot.barh(
            place, found.p75 - found.p25, left=found.p25, height=0.5, color="white", edgecolor=COLOURS[0], zorder=2
        )
        plot.vlines(found.median, place - 0.25, place + 0.25, color=COLOURS[1], linewidth=2.5, zorder=3)
        text = f"median {found.median:.3g}"
        plot.annotate(
            text, (1.025, place), xycoords=("axes fraction", "data"), va="center", color=INK, annotation_clip=False
        )
    lowest, highest = min(found.p5 for _, found in rows), max(found.p95 for _, found in rows)
    if lowest > 0 and highest / lowest > 30:
        plot.set_xscale("log")
        plot.xaxis.set_major_formatter(ScalarFormatter())
        plot.xaxis.set_minor_formatter(NullFormatter())
    else:
        plot.set_xlim(left=0)
    _rows(plot, [short(label) for label, _ in rows], f"{quantity}{of}: median, middle half, nine in ten")
    return figure


def quality(rows: Sequence[tuple[str, Estimate]]) -> Figure:
    """Mean score of each evaluation in one component, 0 to 1."""
    return intervals(rows, "mean score, with its 95 % interval")


def intervals(rows: Sequence[tuple[str, Estimate]], below: str, *, is_difference: bool = False) -> Figure:
    """An estimate a row, with its interval."""
    figure, plot = axes(WIDTH, 0.34 * len(rows) + 0.75)
    if is_difference:
        plot.axvline(0, color=INK, linewidth=1, linestyle="--")
    form = "{:+.3f}  [{:+.3f}, {:+.3f}]" if is_difference else "{:.3f}  [{:.3f}, {:.3f}]"
    for place, (_, found) in enumerate(rows):
        _interval(plot, place, found, COLOURS[0], MARKERS[0], form)
    _rows(plot, [short(label) for label, _ in rows], below)
    if not is_difference:
        plot.set_xlim(0, 1)
    return figure


def short(label: str) -> str:
    return label if len(label) <= LABEL else label[: LABEL - 1] + "…"
