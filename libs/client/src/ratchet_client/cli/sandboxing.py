"""`ratchet sandbox`: what the sandbox withstands and how fast it is. It asks the sandbox itself, not the gateway."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import grpc
import typer
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

from ratchet.sandbox.v1 import sandbox_pb2 as pb
from ratchet.sandbox.v1 import sandbox_pb2_grpc
from ratchet_client.cli.output import JsonFlag, print_json, stderr, stdout
from ratchet_client.client import to_json
from ratchet_client.errors import ApiError, CommandError, Unreachable
from ratchet_client.local import control
from ratchet_client.local.layout import Home

AUDIT_TIMEOUT_S = 1800.0
BENCH_TIMEOUT_S = 600.0

TargetOption = Annotated[str, typer.Option(help="host:port of a sandbox; default: the one that `ratchet up` started.")]

app = typer.Typer(help="What the sandbox withstands, and how fast it is.", no_args_is_help=True)


def add_to(parent: typer.Typer) -> None:
    parent.add_typer(app, name="sandbox")


def local_target() -> str:
    """Where the sandbox of `ratchet up` answers. Raises CommandError when no platform runs."""
    return f"127.0.0.1:{control.running_state(Home.default()).ports['sandbox']}"


@contextmanager
def connected(target: str) -> Iterator[sandbox_pb2_grpc.SandboxServiceStub]:
    """A stub of the sandbox at `target`, or of the local platform's. Raises ApiError or Unreachable."""
    target = target or local_target()
    with grpc.insecure_channel(target) as channel:
        try:
            yield sandbox_pb2_grpc.SandboxServiceStub(channel)
        except grpc.RpcError as error:
            code, text = error.code(), error.details() or ""
            if code is grpc.StatusCode.UNAVAILABLE:
                raise Unreachable(f"No sandbox answers at {target}: {text}") from error
            raise ApiError(0, code.name, text) from error


@app.command()
def audit(
    attacks: Annotated[list[str] | None, typer.Argument(help="Names of attacks; all unless given.")] = None,
    target: TargetOption = "",
    as_json: JsonFlag = False,
) -> None:
    """Attack the sandbox with the suite that ships with it. Exits 1 if one attack gets through."""
    with connected(target) as stub:
        offered = stub.GetCapabilities(pb.GetCapabilitiesRequest(), timeout=60)
        found = _attacked(stub, pb.AuditRequest(attacks=attacks or ()), quiet=as_json)
    through = [one for one in found if not one.caught]
    if as_json:
        print_json(
            {
                "level": offered.level,
                "missing_layers": list(offered.missing_layers),
                "caught": len(found) - len(through),
                "total": len(found),
                "attacks": [to_json(one) for one in found],
            }
        )
    else:
        stdout.print(_table(found))
        for reason in offered.missing_layers:
            stdout.print(f"[yellow]{escape(reason)}[/]", soft_wrap=True)
        stdout.print(f"Level {offered.level}: {len(found) - len(through)} of {len(found)} attacks caught.")
    if through:
        raise CommandError(f"{len(through)} attacks got through: {', '.join(one.attack for one in through)}.")


@app.command()
def bench(
    programs: Annotated[int, typer.Option(help="Programs for each line.", min=100)] = 1000,
    target: TargetOption = "",
    as_json: JsonFlag = False,
) -> None:
    """Measure the sandbox against its own fork limit: the bare fork and exit of what forks the programs."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("", "programs/s", "of the limit", "p50", "p99"):
        table.add_column(column, justify="left" if not column else "right")
    found = []
    with connected(target) as stub, stderr.status("measuring") as status:
        for one in stub.Benchmark(pb.BenchmarkRequest(programs=programs), timeout=BENCH_TIMEOUT_S):
            found.append(one)
            status.update(f"measured {escape(one.name)}")
            times = [
                f"{each.ToTimedelta().total_seconds() * 1e3:.1f} ms" if each.nanos else ""
                for each in (one.p50, one.p99)
            ]
            table.add_row(one.name, f"{one.programs_per_second:.0f}", f"{one.of_limit:.2f}", *times)
    if as_json:
        print_json([to_json(one) for one in found])
    else:
        stdout.print(table)


def _attacked(
    stub: sandbox_pb2_grpc.SandboxServiceStub, request: pb.AuditRequest, *, quiet: bool
) -> list[pb.AuditResponse]:
    found = []
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=stderr, transient=True, disable=quiet) as progress:
        task = progress.add_task("attacking", total=None)
        for one in stub.Audit(request, timeout=AUDIT_TIMEOUT_S):
            found.append(one)
            progress.update(task, completed=len(found), total=one.total, description=escape(one.attack))
    return found


def _table(found: list[pb.AuditResponse]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("attack", "kind", "what it tries", "", "verdict"):
        table.add_column(column, overflow="fold")
    for one in sorted(found, key=lambda one: (one.caught, one.kind, one.attack)):
        verdict = pb.Verdict.Name(one.verdict).removeprefix("VERDICT_") if one.verdict else "-"
        if not one.caught:
            verdict += f": {one.detail}"
        mark = "[green]caught[/]" if one.caught else "[bold red]GOT THROUGH[/]"
        table.add_row(escape(one.attack), one.kind, escape(one.title), mark, escape(verdict))
    return table
