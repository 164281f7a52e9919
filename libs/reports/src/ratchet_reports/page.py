"""The report as one HTML file: no network, no scripts, pictures inside."""

from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from ratchet_kit.statistics import Estimate
from ratchet_kit.times import duration
from ratchet_reports import heat, pictures
from ratchet_reports.document import OUTCOMES, Report
from ratchet_reports.drawing import svg


def write(report: Report, path: Path) -> None:
    """Raises OSError when it cannot be written."""
    render("report.html", path, report=report, outcome_words=OUTCOMES, duration=duration, **_pictures(report))


def render(template: str, path: Path, **values: Any) -> None:
    """Fills a template of this package. Raises OSError."""
    environment = Environment(
        loader=PackageLoader("ratchet_reports", "templates"), autoescape=True, undefined=StrictUndefined
    )
    environment.filters["estimate"] = lambda it: _estimate(it, "")
    environment.filters["signed"] = lambda it: _estimate(it, "+")
    html = environment.get_template(template).render(**values)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(html)


def _estimate(it: Estimate, sign: str) -> Markup:
    interval = Markup('<span class="interval">[{}, {}]</span>').format(f"{it.low:{sign}.3f}", f"{it.high:{sign}.3f}")
    return Markup("{} {}").format(f"{it.value:{sign}.3f}", interval)


def _pictures(report: Report) -> dict[str, Any]:
    return {
        "scores": {name: _scores(report, name) for name in report.set_names},
        "failures": {name: _failures(report, name) for name in report.set_names},
        "maps": {name: _map(report, name) for name in report.set_names},
        "spreads": {name: _spreads(report, name) for name in report.set_names},
        "key": heat.key(),
        "differences": _differences(report),
        "quality": _quality(report),
    }


def _scores(report: Report, name: str) -> Markup | None:
    rows = [(it.label, found.pass_at_k) for it, found in report.on(name) if found.pass_at_k]
    return svg(pictures.pass_at_k(rows), f"pass@k on {name}") if rows else None


def _failures(report: Report, name: str) -> Markup | None:
    rows = [(it.label, found.outcomes) for it, found in report.on(name) if found.outcomes]
    return svg(pictures.outcomes(rows), f"Outcomes of the samples on {name}") if rows else None


def _map(report: Report, name: str) -> Markup | None:
    columns = [(it.label, found.problems) for it, found in report.on(name) if found.problems]
    return heat.heat_map(columns) if columns else None


def _spreads(report: Report, name: str) -> list[Markup]:
    found = report.on(name)
    quantities = dict.fromkeys(quantity for _, one in found for quantity in one.spreads)
    return [
        svg(
            pictures.spreads(
                quantity, [(it.label, one.spreads[quantity]) for it, one in found if quantity in one.spreads]
            ),
            f"{quantity} of samples on {name}",
        )
        for quantity in quantities
    ]


def _differences(report: Report) -> Markup | None:
    sets = len({one.name for paired in report.comparisons for one in paired.sets}) > 1
    over = len({paired.baseline_id for paired in report.comparisons if paired.sets}) > 1
    rows = [
        (
            f"{report.label(paired.candidate_id)}{f', {one.name}' if sets else ''}"
            f"{f' over {report.label(paired.baseline_id)}' if over else ''}",
            one,
        )
        for paired in report.comparisons
        for one in paired.sets
    ]
    return svg(pictures.differences(rows), "Paired differences") if rows else None


def _quality(report: Report) -> dict[str, Markup]:
    several = len({row.name for row in report.quality}) > 1
    components = dict.fromkeys(component for row in report.quality for component in row.components)
    return {
        component: svg(
            pictures.quality(
                [
                    (
                        f"{report.label(row.evaluation_id)}{f', {row.name}' if several else ''}",
                        row.components[component],
                    )
                    for row in report.quality
                    if component in row.components
                ]
            ),
            component,
        )
        for component in components
    }
