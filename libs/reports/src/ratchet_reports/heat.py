"""The heat map of problems and evaluations: the hardest last, lighter where more samples pass. It needs no script:
each cell says in its title what it is, which browsers show."""

from collections.abc import Mapping, Sequence
from html import escape

import matplotlib as mpl
from markupsafe import Markup

from ratchet_reports.document import Solved

WIDTH, LABELS = 860, 150
"""Pixels: of the map, and of the column of labels in it."""
CELL, GAP, LINE = 7, 10, 12
"""Pixels: the width of a cell, the space between two bands, the height of a row."""
ACROSS = (WIDTH - LABELS) // CELL
MOST_TITLES = 25_000
"""Cells with titles; a larger map goes without, and the JSON has them."""
STEPS = 20

TEXT = 'font-size="10" font-family="system-ui, sans-serif" fill="#1f2933"'

Column = tuple[str, Mapping[str, Solved]]


def order(columns: Sequence[Column]) -> list[str]:
    """Every problem that was sampled, by the share of samples that pass over all evaluations; the easiest first."""
    shares: dict[str, list[float]] = {}
    for _, problems in columns:
        for id, solved in problems.items():
            shares.setdefault(id, []).append(solved.share)
    return sorted(shares, key=lambda id: -sum(shares[id]) / len(shares[id]))


def heat_map(columns: Sequence[Column]) -> Markup:
    """`columns`: label -> problem -> what was solved of it. A cell that is missing stays white."""
    ids = order(columns)
    titles = len(ids) * len(columns) <= MOST_TITLES
    parts, top = list[str](), 14
    for start in range(0, len(ids), ACROSS):
        band = ids[start : start + ACROSS]
        parts.append(f'<text x="{LABELS}" y="{top - 3}">{escape(_between(band))}</text>')
        for label, problems in columns:
            name = label if len(label) <= 24 else label[:23] + "…"
            parts.append(f'<text x="{LABELS - 6}" y="{top + LINE - 2}" text-anchor="end">{escape(name)}</text>')
            parts += [
                _cell(LABELS + CELL * place, top, id, label, problems[id], titles)
                for place, id in enumerate(band)
                if id in problems
            ]
            top += LINE
        top += GAP + 12
    body = "".join(parts)
    about = f"Heat map of {len(ids)} problems and {len(columns)} evaluations"
    return Markup(
        f'<svg role="img" aria-label="{about}" viewBox="0 0 {WIDTH} {top}" width="{WIDTH}" height="{top}"'
        f' {TEXT} xmlns="http://www.w3.org/2000/svg">{body}</svg>'
    )


def key() -> Markup:
    """The legend of the colours, as a row of cells."""
    cells = "".join(
        f'<rect x="{place * 60}" y="0" width="60" height="12" fill="{colour(place / 4)}"/>'
        f'<text x="{place * 60 + 30}" y="24" text-anchor="middle">{place * 25} %</text>'
        for place in range(5)
    )
    return Markup(
        f'<svg role="img" aria-label="Key: dark is 0 %, light is 100 % of samples passed" width="310"'
        f' height="28" {TEXT} xmlns="http://www.w3.org/2000/svg">{cells}</svg>'
    )


def colour(share: float) -> str:
    """By cividis (Nuñez et al. 2018), whose lightness grows evenly: it reads the same without colour sight."""
    red, green, blue, _ = mpl.colormaps["cividis"](round(share * STEPS) / STEPS)
    return f"#{round(red * 255):02x}{round(green * 255):02x}{round(blue * 255):02x}"


def _between(band: Sequence[str]) -> str:
    return band[0] if len(band) == 1 else f"{band[0]} … {band[-1]}"


def _cell(left: int, top: int, id: str, label: str, solved: Solved, titles: bool) -> str:
    shape = f'<rect x="{left}" y="{top}" width="{CELL - 1}" height="{LINE - 1}" fill="{colour(solved.share)}"'
    if not titles:
        return f"{shape}/>"
    title = escape(f"{id}: {solved.passes} of {solved.samples}, {label}")
    return f"{shape}><title>{title}</title></rect>"
