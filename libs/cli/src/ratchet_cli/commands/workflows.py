"""`ratchet improve`, `ratchet study` and `ratchet workflows`: work that the platform does by itself."""

from datetime import timedelta
from pathlib import Path
from typing import Annotated

import typer

from ratchet.gateway.v1 import workflow_pb2 as pb
from ratchet_cli.commands import runtimes, schedule
from ratchet_cli.commands.options import DetachFlag, Id, Limit
from ratchet_cli.terminal.errors import CommandError
from ratchet_cli.terminal.output import JsonFlag, ago, print_fields, print_json, print_list, say, when
from ratchet_cli.views import workflows as view
from ratchet_client import ApiError, Client
from ratchet_client.names import state_name
from ratchet_client.workflows import STUDY, TURN
from ratchet_kit.times import duration
from ratchet_workflows import kinds
from ratchet_workflows.errors import UsageError
from ratchet_workflows.kinds import Kind
from ratchet_workflows.notation.yaml_files import YamlFile

KINDS = {Kind.TURN: TURN, Kind.STUDY: STUDY}
CHECK_S = 600.0
"""The services look at every run and evaluation of a plan before it is stored."""
EveryOption = Annotated[
    str,
    typer.Option(
        help="Create a schedule: a period (12h, 7d), or a cron expression in UTC ('0 3 * * 1').",
        metavar="PERIOD|CRON",
    ),
]

app = typer.Typer(help="Workflows: turns and studies, and their schedules.", no_args_is_help=True)
schedules = typer.Typer(help="Schedules: they create workflows by themselves.", no_args_is_help=True)
app.add_typer(schedules, name="schedules")


def improve(
    file: Annotated[Path, typer.Option("--file", "-f", help="YAML file with the model, and how to improve it.")],
    every: EveryOption = "",
    when_feedback: Annotated[
        int, typer.Option(help="Create a schedule: a turn after each N answers with a score.", min=0)
    ] = 0,
    detach: DetachFlag = False,
    as_json: JsonFlag = False,
) -> None:
    """Train, measure, gate and release the next version of a model. The platform does it; the command watches. Exit
    code 1 where no version was released."""
    _start(Kind.TURN, file, every, when_feedback, detach, as_json)


def study(
    file: Annotated[Path, typer.Option("--file", "-f", help="YAML file with what to train, vary and measure.")],
    every: EveryOption = "",
    detach: DetachFlag = False,
    as_json: JsonFlag = False,
) -> None:
    """Train variants with several seeds, or search for a setting, and compare them on held-out problems. The platform
    does it; the command watches. Exit code 1 if a run has no score."""
    _start(Kind.STUDY, file, every, 0, detach, as_json)


def _start(kind: Kind, file: Path, every: str, when_feedback: int, detach: bool, as_json: bool) -> None:
    if every and when_feedback:
        raise CommandError("--every and --when-feedback: give one of them.", code=2)
    is_cron = len(every.split()) > 1
    period = schedule.period_of(every) if every and not is_cron else 0
    source = YamlFile(file)
    sets = kinds.sets(kind, source)
    plan = pb.WorkflowPlan(kind=KINDS[kind], name=file.name, text=source.portable())
    runtimes.ensure_for(sets)
    with Client(timeout_s=CHECK_S) as client:
        try:
            if every or when_feedback:
                made = client.schedules.create(
                    plan,
                    cron=every if is_cron else "",
                    every=timedelta(seconds=period) if period else None,
                    when_feedback=when_feedback,
                )
                say(made.id) if not as_json else print_json(made)
                return
            workflow = client.workflows.create(plan)
        except ApiError as error:
            if faults := [one["description"] for one in error.violations if one["field"] == "plan.text"]:
                raise UsageError("\n".join(faults)) from error
            raise
        if detach:
            print_json(workflow) if as_json else say(workflow.id)
        else:
            _follow(client, workflow.id, file.with_suffix(".html"), as_json)


def _follow(client: Client, id: str, page: Path | None, as_json: bool) -> None:
    if not as_json:
        say(f"Workflow {id}: the platform does it, whatever becomes of this command.")
    workflow = view.watch(client, id, (lambda line: None) if as_json else view.line)
    if as_json:
        print_json(workflow)
    else:
        view.show_results(client, workflow)
    if page and view.record_of(workflow) and workflow.state != pb.Workflow.STATE_CANCELLED:
        try:
            view.write_report(client, workflow, page)
        except CommandError as error:  # the workflow has ended all the same
            say(str(error))
    if workflow.state != pb.Workflow.STATE_SUCCEEDED:
        raise typer.Exit(1)


@app.command("list")
def list_workflows(limit: Limit = 20, as_json: JsonFlag = False) -> None:
    """List workflows, newest first."""
    with Client() as client:
        print_list(
            client.workflows.list(),
            limit,
            as_json,
            {
                "id": lambda one: one.id,
                "kind": lambda one: _kind(one.plan),
                "plan": lambda one: one.plan.name,
                "state": lambda one: state_name(one),
                "created": lambda one: ago(one.create_time),
                "sentence": lambda one: one.sentence or "-",
            },
            breakable=("sentence",),
        )


@app.command("show")
def show_workflow(id: Id, as_json: JsonFlag = False) -> None:
    """Show a workflow: its state, and the ids of its stages."""
    with Client() as client:
        workflow = client.workflows.get(id)
        if as_json:
            print_json(workflow)
            return
        record = view.record_of(workflow)
        print_fields(
            [
                ("id", workflow.id),
                ("plan", f"{workflow.plan.name} ({_kind(workflow.plan)})"),
                ("state", state_name(workflow)),
                ("created", f"{when(workflow.create_time)} by {workflow.schedule_id or workflow.actor or '-'}"),
                *((name, str(record[name])) for name in ("run", "gate", "release") if record.get(name)),
                *((f"evaluation of {name}", one) for name, one in record.get("evaluations", {}).items()),
                *((one["name"], f"{one['run']} {one['evaluation']}") for one in record.get("cells", ())),
            ]
        )
        view.show_results(client, workflow)


@app.command("watch")
def watch_workflow(id: Id, as_json: JsonFlag = False) -> None:
    """Watch a workflow to its end. Interrupted, it goes on. Exit code 1 unless it succeeded."""
    with Client() as client:
        _follow(client, id, None, as_json)


@app.command("cancel")
def cancel_workflow(id: Id) -> None:
    """Cancel a workflow, with its runs and evaluations under way. A release goes on."""
    with Client() as client:
        client.workflows.cancel(id)
    say(f"{id} is cancelled.")


@app.command("resume")
def resume_workflow(id: Id) -> None:
    """Resume a workflow that failed or was cancelled, where it was."""
    with Client() as client:
        client.workflows.resume(id)
    say(f"{id} goes on.")


@app.command("report")
def report_workflow(
    id: Id, out: Annotated[Path, typer.Option(help="File of the page, HTML.")] = Path("report.html")
) -> None:
    """Write what a workflow found as an HTML page."""
    with Client() as client:
        view.write_report(client, client.workflows.get(id), out)


@schedules.command("list")
def list_schedules(limit: Limit = 20, as_json: JsonFlag = False) -> None:
    """List schedules, newest first."""
    with Client() as client:
        print_list(
            client.schedules.list(),
            limit,
            as_json,
            {
                "id": lambda one: one.id,
                "kind": lambda one: _kind(one.plan),
                "plan": lambda one: one.plan.name,
                "when": lambda one: _trigger(one),
                "next": lambda one: when(one.next_time),
                "last": lambda one: one.workflow_id or "-",
                "fault": lambda one: one.fault or "-",
            },
            breakable=("fault",),
        )


@schedules.command("delete")
def delete_schedule(id: Id) -> None:
    """Delete a schedule. Its workflows stay, and go on."""
    with Client() as client:
        client.schedules.delete(id)
    say(f"{id} is deleted.")


def _kind(plan: pb.WorkflowPlan) -> str:
    return pb.WorkflowKind.Name(plan.kind).removeprefix("WORKFLOW_KIND_").lower()


def _trigger(one: pb.Schedule) -> str:
    match one.WhichOneof("trigger"):
        case "cron":
            return one.cron
        case "every":
            return f"every {duration(one.every.seconds)}"
    return f"{one.when_feedback} scores"
