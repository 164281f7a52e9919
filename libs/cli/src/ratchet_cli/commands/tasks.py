"""`ratchet tasks`: does a task folder hold, and which are won without being solved? They ask the sandbox itself."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from ratchet_cli.commands import task_sets
from ratchet_cli.commands.options import TargetOption, refusing
from ratchet_cli.commands.sandbox import capabilities, local_target
from ratchet_cli.commands.sources import counting
from ratchet_cli.terminal.errors import CommandError
from ratchet_cli.terminal.output import JsonFlag, print_json, print_table, say
from ratchet_environments.folders import checks
from ratchet_environments.folders.checks import Checked
from ratchet_environments.workspaces import Workspaces

app = typer.Typer(help="Task folders in Harbor's form: check and attack them.", no_args_is_help=True)

Folders = Annotated[
    list[str], typer.Argument(help="Task folders, folders that hold some, or data sets of some: name@number.")
]


@app.command()
def verify(folders: Folders, target: TargetOption = "", as_json: JsonFlag = False) -> None:
    """Check that each task's solution passes and that doing nothing fails. Exits 1 if one does not hold."""
    _check(checks.verify, "verifying", folders, target, as_json=as_json)


@app.command()
def audit(folders: Folders, target: TargetOption = "", as_json: JsonFlag = False) -> None:
    """Attack the judge of each task as an agent could, without solving it. Exits 1 if one attack wins or a task does
    not hold."""
    _check(checks.audit, "auditing", folders, target, as_json=as_json)


def _check(
    do: Callable[[Workspaces, Path], Awaitable[Checked]], doing: str, folders: list[str], target: str, *, as_json: bool
) -> None:
    with refusing(), task_sets.local(folders) as paths:
        target = target or local_target()
        capabilities(target)  # that there is one
        checked = asyncio.run(_checked(do, doing, list(paths), target, quiet=as_json))
        kept = task_sets.report([(paths[one.path].split, one) for one in checked])
        found = [replace(one, path=Path(paths[one.path].shown)) for one in checked]
    if as_json:
        print_json({"tasks": [_to_json(one) for one in found]})
    else:
        _print(found)
        for ref in kept:
            say(f"The verdicts are kept: ratchet data findings {ref}")
    if wrong := [one for one in found if not one.holds]:
        raise CommandError(
            f"{len(wrong)} of {len(found)} do not hold: {', '.join(str(one.path) for one in wrong[:10])}."
        )


async def _checked(
    do: Callable[[Workspaces, Path], Awaitable[Checked]], doing: str, paths: list[Path], target: str, *, quiet: bool
) -> list[Checked]:
    with counting(doing, quiet=quiet, of="tasks") as tell:
        return await checks.check_all(do, Workspaces(target), paths, tell)


def _print(found: list[Checked]) -> None:
    rows = []
    for one in sorted(found, key=lambda one: one.holds):
        mark = Text("holds", "green") if one.holds else Text("DOES NOT HOLD" if one.fault else "WON", "bold red")
        said = one.fault or "; ".join(f"{win.attack.name} ({win.attack.title}): {win.reward:g}" for win in one.wins)
        rows.append((str(one.path), one.judge, mark, one.attempts or "", said))
    print_table(("task", "judge", "", "attacks", "won by, or why"), rows, breakable=("won by, or why",))
    if shared := sum(one.forgeable for one in found):
        say(f"{shared} forgeable: their tests share the program's process, and they are no reward unless asked for.")
    held, attacks = sum(one.holds for one in found), sum(one.attempts for one in found)
    tried = f"; {sum(len(one.wins) for one in found)} of {attacks} attacks won" if attacks else ""
    say(f"{held} of {len(found)} tasks hold{tried}.")


def _to_json(one: Checked) -> dict[str, Any]:
    wins = [{"attack": win.attack.name, "title": win.attack.title, "reward": win.reward} for win in one.wins]
    return {**asdict(one), "path": str(one.path), "wins": wins, "holds": one.holds}
