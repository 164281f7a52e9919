"""`ratchet up`, `status`, `logs`, `down`: the platform on this machine."""

import json
import os
import shutil
import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich import filesize
from rich.text import Text

from ratchet.gateway.v1 import platform_pb2
from ratchet_cli.commands.options import PortBase, SinceOption
from ratchet_cli.commands.options import since as since_option
from ratchet_cli.terminal.errors import CommandError
from ratchet_cli.terminal.output import JsonFlag, age, print_json, print_table, say, stderr
from ratchet_cli.views.platform import bring_up, coloured
from ratchet_client import Client, address
from ratchet_client.names import state_name
from ratchet_kit.files import tail
from ratchet_kit.times import duration
from ratchet_local import control
from ratchet_local.backup import restore as restore_home
from ratchet_local.backup import save
from ratchet_local.disk import entries
from ratchet_local.home import Home
from ratchet_local.ports import DEFAULT_PORT_BASE
from ratchet_local.processes import memory_bytes

RESTART_TIMEOUT_S = 120.0


def up(
    port_base: PortBase = DEFAULT_PORT_BASE,
    timeout: Annotated[float, typer.Option(help="Seconds to wait until all services are healthy.")] = 180.0,
) -> None:
    """Start all services on this machine and wait until each is healthy. A second `up` finds them running."""
    _say_which()
    home = Home.default()
    already = control.is_running(home)
    state = bring_up(home, port_base, timeout)
    word = "is up already" if already else "is up"
    say(f"The platform {word}: http://127.0.0.1:{state.ports['gateway-http']} (console at /console/, docs at /docs)")
    if already and (changed := control.changed_since(home)):
        stderr.print(
            f"Started with other values than now: {', '.join(changed)}. They count after: ratchet down; ratchet up"
        )
    say(f"API key: {home.key_file}   logs: ratchet logs   stop: ratchet down")


def status(as_json: JsonFlag = False) -> None:
    """Show each service's state, port, age, restarts and memory; of a platform elsewhere (RATCHET_URL) its state."""
    if url := address.elsewhere():
        _status_of(url, as_json)
        return
    home = Home.default()
    state = home.read_state()
    if not control.is_running(home):
        if state is not None:
            raise CommandError(
                f"The supervisor (pid {state.pid}) died. Clean up with `ratchet down`, or `ratchet up` again."
            )
        raise CommandError(f"No platform runs in {home.path}. Start it with: ratchet up")
    if state is None:
        raise CommandError("The platform is only just starting.")
    if as_json:
        print_json(json.loads(home.state_file.read_text()))
    else:
        print_table(
            ("service", "state", "port", "pid", "for", "restarts", "memory", ""),
            [
                (
                    service.name,
                    Text(service.state, coloured(service)),
                    state.ports[service.name],
                    service.pid or "-",
                    duration(time.time() - service.since),
                    service.restarts,
                    f"{(memory_bytes(service.pid) if service.pid else 0) / 2**20:.0f} MiB",
                    service.detail if service.state != "healthy" or service.restarts else "",
                )
                for service in state.services
            ],
            breakable=("",),
        )
    if not state.healthy:
        raise typer.Exit(1)


def _status_of(url: str, as_json: bool) -> None:
    """Raises typer.Exit where a service does not serve."""
    with Client() as client:
        found = client.platform.get()
    if as_json:
        print_json(found)
    else:
        say(f"The platform at {url}:")
        print_table(
            ("service", "state", "answers in", ""),
            [
                (
                    one.name,
                    state_name(one).lower().replace("_", " "),
                    f"{one.latency.ToMilliseconds()} ms" if one.HasField("latency") else "-",
                    one.detail,
                )
                for one in found.services
            ],
            breakable=("",),
        )
    if any(one.state != platform_pb2.ServiceHealth.STATE_SERVING for one in found.services):
        raise typer.Exit(1)


def _say_which() -> None:
    """Start, logs and stop are of this machine, whatever RATCHET_URL says."""
    if url := address.elsewhere():
        stderr.print(f"This is about the platform of this machine, not the one at {url}.", markup=False)


def backup(file: Annotated[Path, typer.Argument(help="New file, such as ratchet-2026-11-28.tar.")]) -> None:
    """Save the platform of this machine in one file while it goes on: databases, artifacts, secrets."""
    _say_which()
    if elsewhere := [name for name in ("DATABASE_URL", "ARTIFACT_URL") if os.environ.get(name)]:
        stderr.print(f"Not in it is what lies at {' and '.join(elsewhere)}: save that by its own tools.")
    with stderr.status("saving") as status:
        size = save(
            Home.default(), file, lambda done: status.update(f"saving: {filesize.decimal(done)}", spinner="dots")
        )
    say(f"Saved {filesize.decimal(size)} in {file}. It holds the keys: keep it as you keep them.")


def restore(file: Annotated[Path, typer.Argument(help="File that `ratchet backup` wrote.")]) -> None:
    """Make the folder of a platform again from a backup. It must be empty, or not there. Then: ratchet up."""
    _say_which()
    home = Home.default()
    if not file.is_file():
        raise CommandError(f"{file} is not there.")
    restore_home(home, file)
    say(f"{home.path} is as it was saved. Start it with: ratchet up")


def disk(as_json: JsonFlag = False) -> None:
    """Show the disk that the platform of this machine takes, and what makes it smaller."""
    _say_which()
    home = Home.default()
    found = entries(home)
    if not found:
        raise CommandError(f"No platform was started in {home.path}.")
    free = shutil.disk_usage(home.path).free
    if as_json:
        print_json({"folder": str(home.path), "free_bytes": free, "entries": [asdict(entry) for entry in found]})
        return
    rows = [(entry.name, filesize.decimal(entry.size), f"{entry.files:,}", entry.kind) for entry in found]
    print_table(("entry", "size", "files", "holds"), rows, clipped=("holds",), right=("size", "files"))
    whole = filesize.decimal(sum(entry.size for entry in found))
    say(f"{whole} in {home.path}; {filesize.decimal(free)} are free there.")


def failures(since: SinceOption = "", as_json: JsonFlag = False) -> None:
    """List what failed lately, newest first: runs, evaluations, releases, versions. Default: in the last 7 days."""
    with Client() as client:
        found = client.platform.failures(since_option(since))
    if as_json:
        print_json(found)
        return
    names = {
        value: name.removeprefix("RESOURCE_").lower() for name, value in platform_pb2.FailedResource.Resource.items()
    }
    rows = [(names[one.resource], one.id, one.name, age(one.end_time), one.message) for one in found.failures]
    if rows:
        print_table(("", "id", "name", "age", "reason"), rows, clipped=("name", "reason"))
    elif not found.missing:
        say("Nothing failed.")
    for name in found.missing:
        stderr.print(f"The {name} service does not answer: its failures are not listed.", markup=False)


def logs(
    service: Annotated[
        str, typer.Argument(help="gateway, trainer, rollout, sandbox, eval, registry, redis, supervisor")
    ] = "",
    lines: Annotated[int, typer.Option("--lines", "-n", help="Number of last lines.")] = 40,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Keep printing new lines.")] = False,
) -> None:
    """Print the last log lines of one service, or of all."""
    _say_which()
    home = Home.default()
    files = [home.log(service)] if service else sorted(home.logs.glob("*.log"))
    files = [file for file in files if file.exists()]
    if not files:
        known = ", ".join(sorted(file.stem for file in home.logs.glob("*.log"))) or "none yet"
        raise CommandError(f"No log of '{service}' in {home.logs}. There are: {known}", code=2)
    for file in files:
        for line in tail(file, lines):
            _print_line(file, line, len(files) > 1)
    if not follow:
        return
    handles = [(file, file.open(errors="replace")) for file in files]
    for _, handle in handles:
        handle.seek(0, 2)
    while True:
        for file, handle in handles:
            for line in handle:
                _print_line(file, line.rstrip("\n"), len(files) > 1)
            if handle.tell() > file.stat().st_size:  # it was cut
                handle.seek(0)
        time.sleep(0.3)


def _print_line(file: Path, line: str, named: bool) -> None:
    typer.echo(f"{file.stem}: {line}" if named else line)


def restart(
    service: Annotated[str, typer.Argument(help="gateway, trainer, rollout, sandbox, eval, registry")],
) -> None:
    """Start one service again, with its code as it is now, while the others go on. It ends in order: its work is
    finished, or taken up again. Settings are those that `ratchet up` found."""
    _say_which()
    home = Home.default()
    names = [one.name for one in control.running_state(home).services]
    if service not in names:
        raise CommandError(f"There is no service '{service}' here. There are: {', '.join(sorted(names))}", code=2)
    control.restart(home, service, RESTART_TIMEOUT_S)
    say(f"{service} is healthy again.")


def down() -> None:
    """Stop everything that `up` started, and what a killed platform left behind."""
    _say_which()
    home = Home.default()
    with stderr.status("stopping the platform"):
        stopped = control.down(home)
    say("The platform is down." if stopped else f"No platform runs in {home.path}.")
