"""`ratchet study`: several seeds as one run, ablations, and searches, from a file."""

from pathlib import Path
from typing import Annotated

import typer

from ratchet_cli.commands import runtimes
from ratchet_cli.terminal.output import JsonFlag, print_json, print_table, say
from ratchet_cli.views.progress import Terminal
from ratchet_client import Client
from ratchet_kit.times import duration
from ratchet_workflows.notation.yaml_files import YamlFile
from ratchet_workflows.studies.plan import Plan
from ratchet_workflows.studies.records import StudyFolder
from ratchet_workflows.studies.results import Reach, StudyResults, Summary
from ratchet_workflows.studies.study import Study, signed


def study(
    file: Annotated[Path, typer.Option("--file", "-f", help="YAML file with what to train, vary and measure.")],
    new: Annotated[bool, typer.Option("--new", help="Begin anew even if the study was begun before.")] = False,
    folder: Annotated[
        Path | None, typer.Option(help="Folder for log, results and report; default: FILE without .yaml, with .study.")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Train variants with several seeds, or search for a setting, and compare them on held-out problems. A restart
    continues where it stopped. Exit code 1 if a run has no score."""
    source = YamlFile(file)
    plan = Plan(source)
    kept = StudyFolder(folder or file.with_suffix(".study"))
    if plan.search:
        from ratchet_workflows.studies import (
            search as search,  # raises CommandError without Optuna, before anything begins
        )
    with kept.locked(), Client() as client:
        found = Study(client, plan, source, kept, Terminal(quiet=as_json), runtimes.ensure_for).finish(new=new)
    if as_json:
        print_json(found.to_json())
    else:
        show(found, kept)
    if any(one.fault for one in found.results):
        raise typer.Exit(1)


def show(found: StudyResults, kept: StudyFolder) -> None:
    print_table(
        ("", "runs", "pass@1", f"minus {found.summaries[0].name}", "tokens", "steps", "time", "memory"),
        [_row(one) for one in found.summaries],
        right=("runs", "tokens", "steps", "time", "memory"),
    )
    if found.reaches:
        first = found.reaches.variants[0].name
        say(f"Tokens to a validation score of {found.reaches.score:.3f}, with which {first} ends:")
        print_table(("", "runs", "tokens", f"minus {first}"), [_reach(one) for one in found.reaches.variants])
    for one in found.results:
        if one.fault:
            say(f"{one.variant}, seed {one.seed}: {one.fault}")
    for note in found.notes:
        say(note)
    if found.verdict:
        say(found.verdict)
    say(f"Report: {kept.page}   as JSON: {kept.results}")


def _row(one: Summary) -> tuple[object, ...]:
    scored = "-" if one.pass_at_1 is None else f"{one.pass_at_1:.3f}"
    return (
        one.name,
        one.runs if one.runs == one.wanted else f"{one.runs} of {one.wanted}",
        f"{scored} [{one.band.low:.3f}, {one.band.high:.3f}]" if one.band else scored,
        signed(one.difference) if one.difference else "",
        f"{one.tokens:,.0f}",
        f"{one.steps:.1f}",
        duration(one.seconds),
        f"{one.memory_bytes / 2**30:.2f} GiB",
    )


def _reach(one: Reach) -> tuple[object, ...]:
    mean = "-" if one.mean is None else f"{one.mean:,.0f}"
    band = f" [{one.band.low:,.0f}, {one.band.high:,.0f}]" if one.band else ""
    of = one.difference
    difference = f"{of.value:+,.0f} [{of.low:+,.0f}, {of.high:+,.0f}]" if of else ""
    return one.name, f"{one.reached} of {len(one.tokens)}", mean + band, difference
