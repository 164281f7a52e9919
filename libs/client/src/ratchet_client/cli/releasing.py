"""`ratchet deploy`: move traffic to a version step by step, and back by itself when it is worse."""

from datetime import timedelta
from typing import Annotated

import typer
from rich.live import Live
from rich.table import Table

from ratchet.gateway.v1 import gateway_pb2
from ratchet_client.cli.output import JsonFlag, print_json, state_name, stderr, stdout
from ratchet_client.cli.references import ModelVersion, champion, version_of
from ratchet_client.client import Client
from ratchet_client.errors import CommandError

STRATEGIES = ("gradual", "immediate")


def add_to(app: typer.Typer) -> None:
    app.command()(deploy)


def deploy(
    model: Annotated[str, typer.Option(help="The candidate, name@version.")],
    strategy: Annotated[
        str, typer.Option(help="gradual (1, 5, 25, 50, 100 %) or immediate (100 % at once).")
    ] = "gradual",
    stage_seconds: Annotated[float, typer.Option(help="A stage lasts at least so long.")] = 300.0,
    stage_samples: Annotated[int, typer.Option(help="... and until the candidate answered so many requests.")] = 50,
    gate: Annotated[str, typer.Option(help="Id of the passed gate; default: the latest of this candidate.")] = "",
    detach: Annotated[bool, typer.Option("--detach", "-d", help="Print the release's id and return.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Release a version that passed its gate. Interrupting stops the watching, not the release."""
    if strategy not in STRATEGIES:
        raise CommandError(f"--strategy {strategy}: choose one of {', '.join(STRATEGIES)}.", code=2)
    with Client() as client:
        candidate = version_of(client, model)
        percents = (1, 5, 25, 50, 100) if strategy == "gradual" else (100,)
        spec = release_spec(candidate, gate or passed_gate(client, candidate), percents, stage_seconds, stage_samples)
        release = client.releases.create(spec)
        if detach:
            print_json(release) if as_json else stdout.print(release.id, highlight=False)
            return
        release = follow(client, release.id, quiet=as_json)
    if as_json:
        print_json(release)
    raise_unless_succeeded(release)


def release_spec(
    candidate: ModelVersion, gate_id: str, percents: tuple[int, ...], seconds: float, samples: int
) -> gateway_pb2.ReleaseSpec:
    spec = gateway_pb2.ReleaseSpec(model=candidate.model, candidate=candidate.number, gate_id=gate_id)
    for percent in percents:
        stage = spec.stages.add(percent=percent, min_samples=samples)
        stage.min_duration.FromTimedelta(timedelta(seconds=seconds))
    return spec


def passed_gate(client: Client, candidate: ModelVersion) -> str:
    """The latest gate that let this candidate pass against the present champion."""
    now = champion(client, candidate.model)
    for gate in client.models.gates(candidate.model):
        if gate.passed and gate.candidate_version == candidate.number and gate.champion_version == now:
            return gate.id
    raise CommandError(
        f"{candidate} has passed no gate against {candidate.model}@{now}: ratchet gate --model {candidate}"
    )


def follow(client: Client, release_id: str, *, quiet: bool = False) -> gateway_pb2.Release:
    """Shows a release until it has ended, and returns it as it ended."""
    release = gateway_pb2.Release(id=release_id)
    with Live(console=stderr, refresh_per_second=4, auto_refresh=not quiet) as live:
        for release in client.releases.watch(release_id):
            if not quiet:
                live.update(panel(release))
    return release


def panel(release: gateway_pb2.Release) -> Table:
    table = Table.grid(padding=(0, 2))
    filled = round(release.percent / 5)
    table.add_row("release", f"{release.id}  {state_name(release)}")
    table.add_row("traffic", f"[green]{'█' * filled}[/][dim]{'░' * (20 - filled)}[/]  {release.percent} % to candidate")
    for name, number, stats in (
        ("baseline", release.baseline, release.baseline_stats),
        ("candidate", release.spec.candidate, release.candidate_stats),
    ):
        scored = f", score {stats.mean_score:.2f} over {stats.scored}" if stats.scored else ""
        table.add_row(
            f"{name} {release.spec.model}@{number}",
            f"{stats.requests} requests, {stats.errors} errors, p95 {stats.latency_p95_s:.2f} s{scored}",
        )
    if release.events:
        table.add_row("", release.events[-1].reason)
    return table


def raise_unless_succeeded(release: gateway_pb2.Release) -> None:
    if release.state != gateway_pb2.Release.STATE_SUCCEEDED:
        reason = release.error or (release.events[-1].reason if release.events else "")
        raise CommandError(f"Release {release.id} ended {state_name(release)}: {reason}")
