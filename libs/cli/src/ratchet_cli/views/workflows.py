"""How a workflow is watched, and what is shown when it has ended."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from google.protobuf import json_format

from ratchet.gateway.v1 import workflow_pb2 as pb
from ratchet_cli.terminal.errors import CommandError
from ratchet_cli.terminal.output import print_heading, print_table, say, stderr
from ratchet_client import ApiError, Client, Unreachable
from ratchet_client.workflows import STUDY
from ratchet_kit.times import duration
from ratchet_workflows.progress import STAGE
from ratchet_workflows.studies.results import Reach, StudyResults, Summary
from ratchet_workflows.studies.study import signed
from ratchet_workflows.turns.records import Record

RETRY_S = 2.0
PATIENCE_S = 300.0
"""How long the platform may be away while a workflow is watched."""


def line(text: str) -> None:
    """A stage as a heading."""
    if text.startswith(STAGE):
        print_heading(text.removeprefix(STAGE))
    else:
        say(text)


def watch(client: Client, id: str, say_line: Callable[[str], None]) -> pb.Workflow:
    """The workflow with its record, when it has ended; `say_line` gets its lines. Interrupted, it goes on: CommandError
    says so, and so does Unreachable, once the platform is away for long."""
    goes_on = f"Workflow {id} goes on. Watch it: ratchet workflows watch {id}"
    seen, answered, is_over = 0, time.monotonic(), False
    try:
        while not is_over:
            try:
                for change in client.workflows.watch(id, seen):
                    for new in change.lines:
                        say_line(new.text)
                        seen = new.number
                    answered = time.monotonic()
                is_over = True
            except Unreachable as error:
                if time.monotonic() - answered > PATIENCE_S:
                    raise Unreachable(f"{error} {goes_on}") from error
                time.sleep(RETRY_S)
        return client.workflows.get(id)
    except KeyboardInterrupt:
        raise CommandError(goes_on, 130) from None


def record_of(workflow: pb.Workflow) -> dict[str, Any]:
    return json_format.MessageToDict(workflow.record)


def show_results(client: Client, workflow: pb.Workflow) -> None:
    """The tables of a study; of a turn its sentence says all."""
    if workflow.plan.kind == STUDY and "summaries" in record_of(workflow).get("results", {}):
        _show_study(study_of(client, workflow))
    say(workflow.sentence)


def study_of(client: Client, workflow: pb.Workflow) -> StudyResults:
    """Raises CommandError before it has any."""
    results = record_of(workflow).get("results")
    if not results:
        raise CommandError(f"Workflow {workflow.id} has no results yet: ratchet workflows watch {workflow.id}")
    return StudyResults.of_json(results, lambda run: list(client.runs.steps(run)))


def write_report(client: Client, workflow: pb.Workflow, page: Path) -> None:
    """One page; of a turn that measured something another one with all samples beside it. Raises CommandError."""
    try:
        if workflow.plan.kind == STUDY:
            from ratchet_workflows.studies import report as studies  # matplotlib: only here

            studies.write(study_of(client, workflow), page)
        else:
            from ratchet_workflows.turns import report as turns

            record = Record.of_json(record_of(workflow))
            details = page.with_name(f"{page.stem}-evaluations.html")
            if record.evaluations:
                turns.write_evaluations(client, record, details)
            turns.write(turns.gather(client, record), page, details.name if record.evaluations else "")
    except (ApiError, OSError, ImportError) as error:
        raise CommandError(f"The report cannot be made: {error}") from error
    stderr.print(f"Report: {page}", markup=False, soft_wrap=True)


def _show_study(found: StudyResults) -> None:
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
