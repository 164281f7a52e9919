"""`ratchet sandbox runtime`: the Python environments that programs in the sandbox may import from."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

import ratchet_benchmarks
from ratchet_cli.commands.options import TargetOption
from ratchet_cli.commands.sandbox import capabilities
from ratchet_cli.terminal.errors import CommandError
from ratchet_cli.terminal.output import JsonFlag, print_json, print_table, say, stderr
from ratchet_kit.errors import NotFound
from ratchet_local import control
from ratchet_local.home import Home
from ratchet_local.runtimes import build
from ratchet_local.services import environments_folder

RESTART_TIMEOUT_S = 180.0
PREFIX = "sandbox-"  # by it the sandbox knows them among the environments
UNFINISHED = ".unfinished"  # in an environment that is being built: no sandbox offers it
_NAME = re.compile(r"[a-z][a-z0-9-]{0,30}")

FolderOption = Annotated[
    Path | None, typer.Option(help="Folder to build it in; default: beside the sandbox's own environment.")
]

app = typer.Typer(help="Python environments that programs may import from.", no_args_is_help=True)


@app.command("list")
def list_runtimes(target: TargetOption = "", as_json: JsonFlag = False) -> None:
    """List a sandbox's Python environments and other languages, with their versions."""
    found = capabilities(target)
    if as_json:
        print_json(list(found.runtimes))
        return
    rows = []
    for runtime in found.runtimes:
        packages = ", ".join(f"{name} {version}" for name, version in sorted(runtime.packages.items()))
        rows.append((runtime.name, runtime.language, runtime.version, packages))
    print_table(("name", "language", "version", "packages"), rows, breakable=("packages",))
    for language, remedy in sorted(found.missing_languages.items()):
        say(f"No {language} here: {remedy}.")


@app.command()
def add(
    name: Annotated[str, typer.Argument(help="Its name in programs: lower case, digits, hyphens.")],
    lockfile: Annotated[Path, typer.Argument(help="requirements.txt with every package pinned.")],
    folder: FolderOption = None,
) -> None:
    """Build a runtime from a lock file. Restart the sandbox to use it."""
    if not _NAME.fullmatch(name) or name == "python":
        raise CommandError(f"{name!r} can't name a runtime: take lower case letters, digits and hyphens.", 2)
    if not lockfile.is_file():
        raise CommandError(f"There is no lock file {lockfile}.", 2)
    home = folder or environments_folder()
    path = home / f"{PREFIX}{name}"
    if path.exists():
        raise CommandError(f"{path} is there already. To build it anew, remove it first.")
    home.mkdir(parents=True, exist_ok=True)
    try:
        make, fill = _commands(path, lockfile, _uv(home))
        _run(make)
        (path / UNFINISHED).touch()
        _run(fill)
        (path / UNFINISHED).unlink()
    except BaseException:
        shutil.rmtree(path, ignore_errors=True)
        raise
    say(f"Runtime {name} is built. The sandbox offers it from its next start on: ratchet down, ratchet up.")


def ensure_for(benchmarks: Iterable[str]) -> None:
    """Builds what the programs of these benchmarks import from, where this machine's platform has not got it yet.

    A platform elsewhere (RATCHET_URL) is left to its operator: its evaluations say what they lack. Raises CommandError,
    also for data that are not here, and PlatformError.
    """
    needs = {name: runtime for name in benchmarks if (runtime := ratchet_benchmarks.runtime_of(name))}
    if not needs or os.environ.get("RATCHET_URL") or not (lacking := set(needs.values()) - offered()):
        return
    for name in needs:
        try:
            ratchet_benchmarks.require(name)
        except NotFound as error:
            raise CommandError(f"{error.message}.") from error
    for runtime in sorted(lacking):
        stderr.print(f"building the runtime {runtime}, once: that takes minutes", markup=False)
        build(runtime)
    control.restart(Home.default(), "sandbox", RESTART_TIMEOUT_S)
    if left := ", ".join(sorted(lacking - offered())):
        raise CommandError(f"The sandbox does not offer {left}: RATCHET_SANDBOX_RUNTIMES_DIR names another folder.")


def offered(target: str = "") -> set[str]:
    """The runtimes of a sandbox; without `target`, of this machine's platform."""
    return {runtime.name for runtime in capabilities(target).runtimes}


def _uv(home: Path) -> str | None:
    own = home / "tools" / "bin" / "uv"
    return str(own) if own.is_file() else shutil.which("uv")


def _commands(path: Path, lockfile: Path, uv: str | None) -> list[list[str]]:
    """Bytecode is written now: the sandbox cannot write it."""
    interpreter = os.path.realpath(sys.executable)
    python = str(path / "bin" / "python")
    if uv:
        return [
            [uv, "venv", "--quiet", "--python", interpreter, str(path)],
            [uv, "pip", "sync", "--quiet", "--compile-bytecode", "--python", python, str(lockfile)],
        ]
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--compile"]
    return [[interpreter, "-m", "venv", str(path)], [*pip, "-r", str(lockfile)]]


def _run(command: list[str]) -> None:
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        stderr.print(done.stderr.strip()[-2000:], markup=False, soft_wrap=True)
        raise CommandError("The packages of the lock file can't be installed (above): nothing was built.")
