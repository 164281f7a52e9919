"""`ratchet sandbox`: what the sandbox withstands and how fast it is. It asks the sandbox itself, not the gateway."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import grpc
import typer
from rich.text import Text

from ratchet.common.v1 import verdict_pb2
from ratchet.sandbox.v1 import diagnostics_pb2 as pb
from ratchet.sandbox.v1 import diagnostics_pb2_grpc, program_pb2, program_pb2_grpc
from ratchet_cli.commands.options import TargetOption
from ratchet_cli.terminal.errors import CommandError
from ratchet_cli.terminal.following import Count, following
from ratchet_cli.terminal.output import JsonFlag, print_json, print_table, say
from ratchet_client import ApiError, Client, Unreachable, access, address
from ratchet_client.calls import to_json
from ratchet_local import control
from ratchet_local.home import Home
from ratchet_protos.access import with_token

AUDIT_TIMEOUT_S = 1800.0
BENCH_TIMEOUT_S = 600.0

app = typer.Typer(help="Sandbox: run programs, attack it, measure its speed.", no_args_is_help=True)


def local_target() -> str:
    """Where the sandbox of `ratchet up` answers. Raises PlatformError when no platform runs, CommandError where
    RATCHET_URL names another platform."""
    if url := address.elsewhere():
        raise CommandError(
            f"This command asks a sandbox itself, and {url} is a gateway: give --target host:port of a sandbox, and "
            "the token of its platform in RATCHET_SERVICE_TOKEN.",
            2,
        )
    return f"127.0.0.1:{control.running_state(Home.default()).ports['sandbox']}"


@contextmanager
def connected(target: str) -> Iterator[grpc.Channel]:
    """A channel to the sandbox at `target`, or to the local platform's. Raises ApiError or Unreachable."""
    target = target or local_target()
    with grpc.insecure_channel(target) as channel:
        try:
            yield with_token(channel, access.service_token())
        except grpc.RpcError as error:
            code, text = error.code(), error.details() or ""
            if code is grpc.StatusCode.UNAVAILABLE:
                raise Unreachable(f"No sandbox answers at {target}: {text}") from error
            raise ApiError(0, code.name, text) from error


def capabilities(target: str) -> program_pb2.GetCapabilitiesResponse:
    """Languages, runtimes and isolation of a node. Without a target, a platform elsewhere is asked by its gateway."""
    if not target and address.elsewhere():
        with Client() as client:
            return client.programs.capabilities()
    with connected(target) as channel:
        stub = program_pb2_grpc.ProgramServiceStub(channel)
        return stub.GetCapabilities(program_pb2.GetCapabilitiesRequest(), timeout=60)


@app.command()
def audit(
    names: Annotated[list[str] | None, typer.Argument(help="Attacks and honest programs; default: all.")] = None,
    mixed: Annotated[
        int | None, typer.Option(help="Programs of the mixed run; default: 300, or 0 if names are given.")
    ] = None,
    target: TargetOption = "",
    as_json: JsonFlag = False,
) -> None:
    """Attack the sandbox, have it run honest programs, and mix both. Exits 1 if one attack gets through or one honest
    program is judged wrong."""
    target = target or local_target()
    offered = capabilities(target)
    with connected(target) as channel:
        found = _audited(channel, pb.AuditRequest(attacks=names or (), mixed=mixed), quiet=as_json)
    level = program_pb2.IsolationLevel.Name(offered.level).removeprefix("ISOLATION_LEVEL_")
    attacks, honest = [one for one in found if one.kind], [one for one in found if not one.kind]
    caught, passed = sum(one.caught for one in attacks), sum(one.caught for one in honest)
    if as_json:
        print_json(
            {
                "level": level,
                "missing_layers": list(offered.missing_layers),
                "caught": caught,
                "total": len(attacks),
                "attacks": [to_json(one) for one in attacks],
                "honest": [to_json(one) for one in honest],
            }
        )
    else:
        _print_table(found)
        for reason in offered.missing_layers:
            say(reason)
        for one in honest:
            if one.detail.startswith("skipped: "):
                say(f"{one.attack} {one.detail}.")
        say(f"Level {level}: {caught} of {len(attacks)} attacks caught, {passed} of {len(honest)} honest runs right.")
    if wrong := [one.attack for one in found if not one.caught]:
        raise CommandError(f"{len(wrong)} went wrong: {', '.join(wrong)}.")


@app.command()
def bench(
    programs: Annotated[int, typer.Option(help="Programs for each line.", min=100)] = 1000,
    target: TargetOption = "",
    as_json: JsonFlag = False,
) -> None:
    """Measure the sandbox against its own fork limit: the bare fork and exit of what forks the programs."""
    found: list[pb.BenchmarkResponse] = []
    count = Count("measuring", "lines")
    with connected(target) as channel, following(count, quiet=as_json) as changed:
        stub = diagnostics_pb2_grpc.DiagnosticsServiceStub(channel)
        for one in stub.Benchmark(pb.BenchmarkRequest(programs=programs), timeout=BENCH_TIMEOUT_S):
            found.append(one)
            count.update(len(found), 0)
            changed()
    if as_json:
        print_json(found)
        return
    print_table(
        ("", "programs/s", "of the limit", "p50", "p99"),
        [
            (
                one.name,
                f"{one.programs_per_second:.0f}",
                f"{one.of_limit:.2f}",
                *(f"{it.ToTimedelta().total_seconds() * 1e3:.1f} ms" if it.nanos else "" for it in (one.p50, one.p99)),
            )
            for one in found
        ],
        right=("programs/s", "of the limit", "p50", "p99"),
    )


def _audited(channel: grpc.Channel, request: pb.AuditRequest, *, quiet: bool) -> list[pb.AuditResponse]:
    stub = diagnostics_pb2_grpc.DiagnosticsServiceStub(channel)
    found: list[pb.AuditResponse] = []
    count = Count("auditing", "programs")
    with following(count, quiet=quiet) as changed:
        for one in stub.Audit(request, timeout=AUDIT_TIMEOUT_S):
            found.append(one)
            count.update(len(found), one.total)
            changed()
    return found


def _print_table(found: list[pb.AuditResponse]) -> None:
    """Attacks by kind, those that got through first; of honest programs those alone that were judged wrong."""
    rows = []
    shown = [one for one in found if one.kind or not one.caught]
    for one in sorted(shown, key=lambda one: (one.caught, one.kind, one.attack)):
        kind = (
            pb.AttackKind.Name(one.kind).removeprefix("ATTACK_KIND_").lower().replace("_", "-")
            if one.kind
            else "honest"
        )
        verdict = verdict_pb2.Verdict.Name(one.verdict).removeprefix("VERDICT_") if one.verdict else "-"
        mark = Text("caught", "green") if one.caught else Text("GOT THROUGH" if one.kind else "WRONG", "bold red")
        rows.append(
            (
                one.attack,
                kind if one.kind else "honest",
                one.title,
                mark,
                verdict if one.caught else f"{verdict}: {one.detail}",
            )
        )
    print_table(("attack", "kind", "attempt", "", "verdict"), rows, breakable=("attempt", "verdict"))
