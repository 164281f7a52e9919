"""`ratchet improve`: from a file to a released version, or to a sentence that says what kept it."""

from pathlib import Path
from typing import Annotated

import typer

from ratchet_cli.commands import runtimes, schedule
from ratchet_cli.terminal.errors import CommandError
from ratchet_cli.terminal.output import JsonFlag, print_json
from ratchet_cli.views.progress import Terminal
from ratchet_client import Client
from ratchet_workflows.notation.yaml_files import YamlFile
from ratchet_workflows.turns import plan
from ratchet_workflows.turns.improvement import Improvement
from ratchet_workflows.turns.records import State, Turns


def improve(
    file: Annotated[Path, typer.Option("--file", "-f", help="YAML file with the model, and how to improve it.")],
    every: Annotated[
        str, typer.Option(help="Take a turn in each period (12h, 7d), until interrupted.", metavar="PERIOD")
    ] = "",
    when_feedback: Annotated[
        int, typer.Option(help="Take a turn after each N answers with a score, until interrupted.", min=0)
    ] = 0,
    new: Annotated[bool, typer.Option("--new", help="Begin another turn even if the last one has not ended.")] = False,
    folder: Annotated[
        Path | None, typer.Option(help="Folder for records, log and reports; default: FILE without .yaml, with .turns.")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Train, measure, gate and release the next version of a model. A restart continues where it stopped. Exit code 1
    where no version was released."""
    if every and when_feedback:
        raise CommandError("--every and --when-feedback: give one of them.", code=2)
    period = schedule.period_of(every) if every else 0
    source = YamlFile(file)
    wanted = plan.read(source)
    turns = Turns(folder or file.with_suffix(".turns"))
    with turns.locked(), Client() as client:
        work = Improvement(client, wanted, source, turns, Terminal(quiet=as_json), runtimes.ensure_for)
        if every:
            if new:
                raise CommandError("--new and --every: each period has a turn of its own.", code=2)
            schedule.repeat(period, lambda number: work.of_period(f"{every}-{number}"))
        elif when_feedback:
            work.by_feedback(when_feedback, new=new)
        else:
            record = work.by_hand(new=new)
            if as_json:
                print_json(record.to_json())
            if record.state is not State.RELEASED:
                raise typer.Exit(1)
