"""`ratchet new sampler|loss|advantage|algorithm|dataset|environment`, and `ratchet new reward --installed`: a plug-in
of training, as a Python package from its template."""

import sys
from keyword import iskeyword
from pathlib import Path
from typing import Annotated

import typer

from ratchet_cli.terminal.errors import CommandError
from ratchet_cli.terminal.output import say
from ratchet_local.services import environments_folder

ENTRIES = {
    "algorithm": {"algorithm": "NAME", "loss": "loss", "advantage": "advantage"},
}
"""The functions of a template by their kinds, where there is more than the one."""
USED = {
    "dataset": "--problems plugin:NAME/train",
    "environment": "--set environment=plugin:NAME",
    "reward": "--reward plugin:NAME",
    "math_reward": "--reward plugin:NAME",
}
TRAINERS = ("numpy", "ray", "tensordict", "torch", "transformers", "verl")
"""Modules that training imports."""
NameArgument = Annotated[str, typer.Argument(help="Name of the plug-in and its package: letters, digits and _.")]
FolderOption = Annotated[Path, typer.Option(help="Folder that gets the package's folder.")]


def new_sampler(name: NameArgument, folder: FolderOption = Path()) -> None:
    """Write a sampler of your own (it chooses the problems of a step), a package with a test."""
    _write("sampler", name, folder)


def new_loss(name: NameArgument, folder: FolderOption = Path()) -> None:
    """Write a loss of your own, a package with a test."""
    _write("loss", name, folder)


def new_advantage(name: NameArgument, folder: FolderOption = Path()) -> None:
    """Write an estimator of advantages of your own, a package with a test."""
    _write("advantage", name, folder)


def new_algorithm(name: NameArgument, folder: FolderOption = Path()) -> None:
    """Write an algorithm of your own (a base with its own loss, advantages and defaults), a package with a test."""
    _write("algorithm", name, folder)


def new_dataset(name: NameArgument, folder: FolderOption = Path()) -> None:
    """Write a data set of your own (a function that gives problems), a package with a test."""
    _write("dataset", name, folder)


def new_environment(name: NameArgument, folder: FolderOption = Path()) -> None:
    """Write an environment of your own (it replies to the policy's answers), a package with a test."""
    _write("environment", name, folder)


def new_installed_reward(task: str, name: str, folder: Path) -> None:
    _write("math_reward" if task == "math" else "reward", name, folder)


def _write(template: str, name: str, folder: Path) -> None:
    from importlib.resources import files

    kind = template.removeprefix("math_")
    if not (name.isidentifier() and name.isascii()) or iskeyword(name):
        raise CommandError(f"{name} is not a name for a {kind}: use letters, digits and _.", code=2)
    if name in sys.stdlib_module_names or name in TRAINERS:
        raise CommandError(f"{name} is the name of another module, which the {kind} would hide: take another.", code=2)
    package = folder / name
    templates = files("ratchet_cli") / "templates" / "plugins"
    wanted = {
        "pyproject.toml": "pyproject.toml.txt",
        f"{name}.py": f"{template}.py.txt",
        f"test_{name}.py": f"test_{template}.py.txt",
    }
    entries = "\n\n".join(
        f'[project.entry-points."ratchet.{of}"]\nNAME = "NAME:{function}"'
        for of, function in ENTRIES.get(kind, {kind: "NAME"}).items()
    )
    needs = '"math-verify[antlr4_9_3]>=0.8"' if template == "math_reward" else ""
    try:
        package.mkdir()
        for file, source in wanted.items():
            text = (templates / source).read_text(encoding="utf-8").replace("ENTRIES", entries).replace("NEEDS", needs)
            (package / file).write_text(text.replace("NAME", name).replace("KIND", kind), encoding="utf-8")
            say(str(package / file))
    except FileExistsError as error:
        raise CommandError(f"{package} is there already.") from error
    except OSError as error:
        raise CommandError(f"{package} cannot be written: {error.strerror}.") from error
    # "./": a bare name is what a package index has under it
    at = package if package.is_absolute() else f"./{package}"
    environments = _seen_from_here(environments_folder())
    python = f"{environments}/trainer/bin/python"
    say(f"Install it where the trainer runs: {environments}/tools/bin/uv pip install --python {python} pytest {at}")
    say(f"Test it there: {python} -m pytest {at}")
    used = USED.get(template, f"--set plugins={kind}:NAME").replace("NAME", name)
    say(f"Allow it: ratchet down; RATCHET_TRAINER_PLUGINS={name} ratchet up")
    say(f"Train with it: ratchet train --model starter {used}")


def _seen_from_here(folder: Path) -> Path:
    return folder.relative_to(Path.cwd()) if folder.is_relative_to(Path.cwd()) else folder
