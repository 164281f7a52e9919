"""`ratchet up`, `status`, `logs`, `down`, `demo`: the platform on this machine."""

import json
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from ratchet_client.cli.output import JsonFlag, print_json, stderr, stdout
from ratchet_client.cli.references import ensure_model
from ratchet_client.client import Client
from ratchet_client.errors import CommandError
from ratchet_client.local import control
from ratchet_client.local.layout import DEFAULT_PORT_BASE, Home, PlatformState
from ratchet_client.local.processes import memory_bytes
from ratchet_client.local.services import environments_folder

COLOURS = {"healthy": "green", "starting": "yellow", "restarting": "yellow", "stopped": "dim", "failed": "red"}

PortBase = Annotated[int, typer.Option(help="First port of the block that is used; 0 finds a free block.")]


def add_to(app: typer.Typer) -> None:
    for command in (up, status, logs, down, demo):
        app.command()(command)


def starter_folder() -> Path:
    """The policy that ships with the project."""
    return environments_folder().parent / "models" / "starter"


def bring_up(home: Home, port_base: int, timeout_s: float) -> PlatformState:
    """`control.up` with a live line, and the starter registered."""
    with stderr.status("starting the platform") as line:

        def show(state: PlatformState) -> None:
            words = [f"[{COLOURS.get(s.state, 'white')}]{s.name}[/]" for s in state.services]
            line.update("starting the platform: " + " ".join(words))

        state = control.up(home, port_base, timeout_s, show)
    with Client(f"http://127.0.0.1:{state.ports['gateway-http']}", home.admin_key()) as client:
        if starter_folder().is_dir():
            ensure_model(client, "starter", starter_folder())
    return state


def up(
    port_base: PortBase = DEFAULT_PORT_BASE,
    timeout: Annotated[float, typer.Option(help="Seconds to wait until all services are healthy.")] = 180.0,
) -> None:
    """Start all services on this machine and wait until each is healthy. A second `up` finds them running."""
    home = Home.default()
    already = control.is_running(home)
    state = bring_up(home, port_base, timeout)
    word = "is up already" if already else "is up"
    stdout.print(
        f"The platform {word}: http://127.0.0.1:{state.ports['gateway-http']} (docs at /docs)", highlight=False
    )
    stdout.print(f"API key: {home.path / 'admin.key'}   logs: ratchet logs   stop: ratchet down", highlight=False)


def status(as_json: JsonFlag = False) -> None:
    """What runs, where, since when, with how much memory."""
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
        table = Table(box=None, pad_edge=False, header_style="bold")
        for column in ("service", "state", "port", "pid", "for", "restarts", "memory", ""):
            table.add_column(column)
        for service in state.services:
            memory = memory_bytes(service.pid) if service.pid else 0
            table.add_row(
                service.name,
                f"[{COLOURS.get(service.state, 'white')}]{service.state}[/]",
                str(state.ports[service.name]),
                str(service.pid or "-"),
                f"{time.time() - service.since:.0f} s",
                str(service.restarts),
                f"{memory / 2**20:.0f} MiB",
                escape(service.detail if service.state != "healthy" or service.restarts else ""),
            )
        stdout.print(table)
    if not state.healthy:
        raise typer.Exit(1)


def logs(
    service: Annotated[
        str, typer.Argument(help="gateway, trainer, rollout, sandbox, eval, registry, redis, supervisor")
    ] = "",
    lines: Annotated[int, typer.Option("--lines", "-n", help="How many last lines.")] = 40,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on as lines come.")] = False,
) -> None:
    """The last log lines of one service, or of all."""
    home = Home.default()
    files = [home.log(service)] if service else sorted(home.logs.glob("*.log"))
    files = [file for file in files if file.exists()]
    if not files:
        known = ", ".join(sorted(file.stem for file in home.logs.glob("*.log"))) or "none yet"
        raise CommandError(f"No log of '{service}' in {home.logs}. There are: {known}", code=2)
    for file in files:
        for line in control.tail(file, lines):
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
        time.sleep(0.3)


def _print_line(file: Path, line: str, named: bool) -> None:
    typer.echo(f"{file.stem}: {line}" if named else line)


def down() -> None:
    """Stop everything that `up` started, and what a killed platform left behind."""
    home = Home.default()
    with stderr.status("stopping the platform"):
        stopped = control.down(home)
    stdout.print("The platform is down." if stopped else f"No platform runs in {home.path}.", highlight=False)


def demo(
    keep: Annotated[bool, typer.Option(help="Leave the platform up afterwards.")] = False,
    port_base: PortBase = 0,
    steps: Annotated[int, typer.Option(help="GRPO steps.", min=1)] = 60,
    seed: Annotated[int, typer.Option(help="Seed of training and evaluation.")] = 1,
) -> None:
    """The main job from end to end: train the starter, measure, gate, release, report. Fails when it is no better."""
    from ratchet_client.demo import run_demo  # matplotlib and the whole flow: only when asked for

    run_demo(Home.default(), keep=keep, port_base=port_base, steps=steps, seed=seed)
