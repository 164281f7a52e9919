"""`ratchet new harness|tools`: a program that calls the model, or serves it tools, with a task to try it on."""

import re
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from ratchet_cli.terminal.errors import CommandError
from ratchet_cli.terminal.output import say

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")
_TASK = {
    "task.toml": "task.toml",
    "instruction.md": "instruction.md",
    "environment/Dockerfile": "Dockerfile",
    "environment/numbers.txt": "numbers.txt",
    "tests/test.sh": "test.sh",
    "solution/solve.sh": "solve.sh",
}
NameArgument = Annotated[str, typer.Argument(help="Name of its folder, and of its data set: a-z, 0-9 and -.")]
FolderOption = Annotated[Path, typer.Option(help="Folder that gets it.")]


def new_harness(name: NameArgument, folder: FolderOption = Path()) -> None:
    """Write a harness of your own (a program that calls the model and works on a task), with a task to try it on."""
    _write(name, folder, "agent.py")


def new_tools(name: NameArgument, folder: FolderOption = Path()) -> None:
    """Write tools of your own (an MCP server, beside those that there are), with a task to try them on."""
    _write(name, folder, "server.py")


def _write(name: str, folder: Path, program: str) -> None:
    if not _NAME.fullmatch(name):
        raise CommandError(f"{name} is not a name: use a-z, 0-9 and -, 40 at most.", code=2)
    templates, made = files("ratchet_cli") / "templates", folder / name
    wanted = {f"files/{program}": templates / "harness" / f"{program}.txt"}
    wanted |= {f"tasks/hello/{path}": templates / "task" / f"{source}.txt" for path, source in _TASK.items()}
    try:
        made.mkdir()
        for path, source in wanted.items():
            file = made / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(source.read_text(encoding="utf-8").replace("NAME", name), encoding="utf-8")
            say(str(file))
    except FileExistsError as error:
        raise CommandError(f"{made} is there already.") from error
    except OSError as error:
        raise CommandError(f"{made} cannot be written: {error.strerror}.") from error
    tools = program == "server.py"
    command = f"--files {made}/files -- python /tmp/harness/{program}"
    of_both = f"{'--environment tools ' if tools else ''}{command}"
    say(f"Check its task: ratchet tasks verify {made}/tasks")
    say(f"Try it: ratchet episode {made}/tasks/hello --model MODEL {of_both}")
    say(f"Keep its tasks: ratchet data add --name {name} {made}/tasks")
    say(f"Measure it: ratchet evaluate --model MODEL --benchmark {name} {of_both}")
    of_run = f"{'--set environment=tools ' if tools else ''}{command}"
    say(f"Train with it: ratchet train --model MODEL --problems {name}/train {of_run}")
