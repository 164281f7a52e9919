"""`ratchet report`: what evaluations found, as one page with pictures."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from ratchet_cli.terminal.errors import CommandError
from ratchet_cli.terminal.following import Count, following
from ratchet_cli.terminal.output import say
from ratchet_client import Client
from ratchet_reports.document import QualityRow, Report
from ratchet_reports.errors import ReportError


def report(
    evaluations: Annotated[
        list[str], typer.Argument(help="Ids of evaluations, even if still running; name=id names one.")
    ],
    baseline: Annotated[
        str, typer.Option(help="Baseline of the comparisons; default: the first evaluation of the same problems.")
    ] = "",
    out: Annotated[Path, typer.Option(help="File of the page, HTML.")] = Path("report.html"),
    json_out: Annotated[Path | None, typer.Option("--json", help="File for its numbers, JSON.")] = None,
    quality: Annotated[
        bool, typer.Option("--quality", help="Also score the programs' quality: docs/quality.md.")
    ] = False,
    title: Annotated[str, typer.Option(help="Title of the page.")] = "Evaluation report",
) -> None:
    """Write evaluations as one HTML page: pass@k with bands, paired differences, failures, a map of problems, times."""
    from ratchet_reports import gather, page  # matplotlib: only for this command

    named = {baseline: ""} if baseline else {}
    for one in evaluations:
        name, _, id = one.rpartition("=")
        named[id] = name
    with Client() as client:
        with _counting("reading") as progress:
            made = gather.gather(client, named, baseline, title, progress)
        if quality:
            made = _with_quality(client, made)
    try:
        page.write(made, out)
        if json_out:
            json_out.parent.mkdir(parents=True, exist_ok=True)
            json_out.write_text(json.dumps(made.to_json(), indent=1) + "\n")
    except OSError as error:
        raise CommandError(f"The report cannot be written: {error}.") from error
    say(f"{out}{f', {json_out}' if json_out else ''}")


@contextmanager
def _counting(title: str) -> Iterator[Callable[[int, int], None]]:
    count = Count(title, "samples")
    with following(count) as changed:

        def progress(done: int, total: int) -> None:
            count.update(done, total)
            changed()

        yield progress


def _with_quality(client: Client, made: Report) -> Report:
    """Samples that cannot be scored here are noted."""
    from ratchet_reports import quality as work  # bandit, radon: only with --quality

    rows, notes = list[QualityRow](), list(made.notes)
    for it in made.evaluations:
        try:
            with _counting(f"scoring {it.label}") as progress:
                wanted = work.Wanted(work.READ)
                rows += work.rows(it.id, work.measure(client, client.evaluations.get(it.id), wanted, progress))
        except ReportError as error:
            notes.append(f"{it.label} has no quality: {error}")
    return replace(made, quality=rows, notes=notes)
