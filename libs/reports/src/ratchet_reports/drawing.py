"""How the pictures of reports look, and how a figure becomes part of a page: an SVG that needs nothing else."""

import io
from html import escape

import matplotlib as mpl
from markupsafe import Markup

mpl.use("svg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

INK, GREY, GREEN = "#1f2933", "#8a94a6", "#1a7f5a"
# Okabe and Ito 2008, "Color Universal Design", without its yellow; each also has a mark and a line of its own.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000")
MARKERS = "os^DvPX"
LINES = ("-", "--", "-.", ":")
WIDTH = 8.6
"""Inches: the width of the page."""
FONT = "'DejaVu Sans'"
FONTS = {"font.family": "DejaVu Sans", "font.size": 9, "svg.fonttype": "none"}
"""Text stays text."""


def axes(width: float, height: float) -> tuple[Figure, Axes]:
    """A figure of one plot, in inches."""
    with plt.rc_context(FONTS):
        figure, plot = plt.subplots(figsize=(width, height), layout="constrained")
    plain(plot)
    return figure, plot


def grid(count: int, columns: int, height: float) -> tuple[Figure, list[Axes]]:
    """A figure of `count` plots, `height` inches each."""
    columns = min(columns, count)
    rows = -(-count // columns)
    with plt.rc_context(FONTS):
        size = (WIDTH * min(1.0, columns / 2), height * rows)
        figure, plots = plt.subplots(rows, columns, figsize=size, layout="constrained", squeeze=False)
    for plot in plots.flat[count:]:
        plot.set_visible(False)
    for plot in plots.flat[:count]:
        plain(plot)
    return figure, list(plots.flat[:count])


def plain(plot: Axes) -> None:
    """Two sides of the frame, and quiet ticks."""
    plot.spines[["top", "right"]].set_visible(False)
    plot.tick_params(colors=INK)


def svg(figure: Figure, description: str) -> Markup:
    """`description` is for who does not see it. Closes the figure."""
    out = io.StringIO()
    with plt.rc_context(FONTS):
        figure.savefig(out, format="svg", transparent=True, metadata={"Date": None})
    plt.close(figure)
    text = out.getvalue()
    # where it is missing, the one that is as wide: matplotlib has measured its texts
    text = text.replace(FONT, f"{FONT}, Verdana, sans-serif")
    label = escape(description, quote=True)
    return Markup(text[text.index("<svg") :].replace("<svg", f'<svg role="img" aria-label="{label}"', 1))
