"""`ratchet deploy` and `ratchet releases`: move traffic to a version by stages, and back when it is worse."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated

import typer

from ratchet.gateway.v1 import release_pb2
from ratchet_cli.commands.options import DetachFlag, Id, Limit
from ratchet_cli.terminal.errors import CommandError
from ratchet_cli.terminal.output import JsonFlag, SortOption, ago, print_json, print_list, say, stdout
from ratchet_cli.views import releases as view
from ratchet_cli.views.progress import Terminal
from ratchet_client import Client
from ratchet_client.names import state_name, version_name
from ratchet_kit import refs
from ratchet_kit.names import VersionRef
from ratchet_workflows.following import releases as following
from ratchet_workflows.following.gates import passed
from ratchet_workflows.notation.references import champion, version_of

STRATEGIES = ("gradual", "immediate")
UNPROVEN = {
    "hold": release_pb2.ReleaseSpec.UNPROVEN_HOLD,
    "proceed": release_pb2.ReleaseSpec.UNPROVEN_PROCEED,
}

app = typer.Typer(help="Releases.", no_args_is_help=True)


def deploy(
    model: Annotated[str, typer.Option(help="The candidate, name@version.")],
    strategy: Annotated[
        str, typer.Option(help="gradual (1, 5, 25, 50, 100 %) or immediate (100 % at once).")
    ] = "gradual",
    stage_seconds: Annotated[float, typer.Option(help="Minimum seconds of a stage.")] = 300.0,
    stage_samples: Annotated[int, typer.Option(help="Minimum requests that the candidate answers in a stage.")] = 50,
    stage_scored: Annotated[
        int, typer.Option(help="Minimum scored answers of the candidate, over all stages so far.")
    ] = 0,
    unproven: Annotated[
        str, typer.Option(help="If traffic does not show that the bounds hold: hold or proceed.")
    ] = "hold",
    watch_minutes: Annotated[float, typer.Option(help="Time for which the new champion is watched.")] = 60.0,
    baseline_percent: Annotated[
        int,
        typer.Option(
            help="Percent of traffic that stays with the present champion until the watch ends; 0: no traffic."
        ),
    ] = 5,
    gate: Annotated[str, typer.Option(help="Id of the passed gate; default: the latest of this candidate.")] = "",
    detach: DetachFlag = False,
    as_json: JsonFlag = False,
) -> None:
    """Release a version that passed its gate. Interrupting stops the watching, not the release."""
    if strategy not in STRATEGIES:
        raise CommandError(f"--strategy {strategy}: choose one of {', '.join(STRATEGIES)}.", code=2)
    if unproven not in UNPROVEN:
        raise CommandError(f"--unproven {unproven}: choose one of {', '.join(UNPROVEN)}.", code=2)
    with Client() as client:
        candidate = version_of(client, model)
        percents = (1, 5, 25, 50, 100) if strategy == "gradual" else (100,)
        spec = release_pb2.ReleaseSpec(
            candidate=refs.version_to_proto(candidate),
            gate_id=gate or passed_gate(client, candidate),
            stages=staged(percents, stage_seconds, stage_samples),
        )
        for stage in spec.stages:
            stage.min_scored = stage_scored
        spec.unproven = UNPROVEN[unproven]
        spec.watch.SetInParent()  # 0 is not the default
        spec.watch.FromTimedelta(timedelta(minutes=watch_minutes))
        spec.baseline_percent = baseline_percent
        release = client.releases.create(spec)
        if detach:
            print_json(release) if as_json else say(release.id)
            return
        release = following.follow(client, release.id, Terminal(quiet=as_json))
    if as_json:
        print_json(release)
    following.raise_unless_succeeded(release)


def staged(percents: Sequence[int], seconds: float, samples: int) -> list[release_pb2.ReleaseStage]:
    """Stages, each with a minimum of time and of requests that the candidate answers."""
    stages = [release_pb2.ReleaseStage(percent=percent, min_samples=samples) for percent in percents]
    for stage in stages:
        stage.min_duration.FromTimedelta(timedelta(seconds=seconds))
    return stages


def passed_gate(client: Client, candidate: VersionRef) -> str:
    """The latest gate that let this candidate pass against the present champion."""
    now = champion(client, candidate.model)
    for gate in client.models.gates(candidate.model):
        if passed(gate) and version_name(gate.candidate) == str(candidate) and version_name(gate.champion) == str(now):
            return gate.id
    raise CommandError(f"{candidate} has passed no gate against {now}: ratchet gate --model {candidate}")


@app.command("list")
def list_releases(
    model: Annotated[str, typer.Option(help="Only releases of this model.")] = "",
    sort: SortOption = "",
    limit: Limit = 50,
    as_json: JsonFlag = False,
) -> None:
    """List releases, newest first."""
    with Client() as client:
        print_list(
            client.releases.list(model),
            limit,
            as_json,
            {
                "id": lambda release: release.id,
                "candidate": lambda release: version_name(release.spec.candidate),
                "baseline": lambda release: version_name(release.baseline),
                "state": state_name,
                "traffic": lambda release: f"{release.percent} %",
                "created": lambda release: ago(release.create_time),
            },
            sort=sort,
        )


@app.command("show")
def show_release(id: Id, as_json: JsonFlag = False) -> None:
    """Show a release with its stages."""
    with Client() as client:
        release = client.releases.get(id)
    if as_json:
        print_json(release)
        return
    stdout.print(view.panel(following.ReleaseNews(release)))
    if release.waits_for:
        say(f"now: {release.waits_for}")
    for event in release.events:
        say(f"{event.create_time.ToDatetime():%H:%M:%S}  {event.percent:3d} %  {event.reason}")


@app.command("watch")
def watch_release(id: Id) -> None:
    """Follow a release until it ends, or until its candidate is the champion and only watched."""
    with Client() as client:
        following.raise_unless_succeeded(following.follow(client, id, Terminal()))


Reason = Annotated[str, typer.Option(help="Reason, for the history.")]


@app.command("pause")
def pause(id: Id, reason: Reason = "asked for") -> None:
    """Send all traffic to the baseline until the release is resumed."""
    with Client() as client:
        say(f"{id} {state_name(client.releases.pause(id, reason))}")


@app.command("resume")
def resume(id: Id, reason: Reason = "asked for") -> None:
    """Continue the paused stage."""
    with Client() as client:
        say(f"{id} {state_name(client.releases.resume(id, reason))}")


@app.command("promote")
def promote(id: Id, reason: Reason = "asked for") -> None:
    """Make the candidate the champion now: skips the stages that are left, and ends a watch."""
    with Client() as client:
        say(f"{id} {state_name(client.releases.promote(id, reason))}")


@app.command("rollback")
def rollback(id: Id, reason: Reason = "asked for") -> None:
    """Send all traffic back to the baseline, now."""
    with Client() as client:
        release = client.releases.rollback(id, reason)
    if release.percent:
        raise CommandError(f"Release {id} still sends {release.percent} % to the candidate.")
    say(f"{release.id} {state_name(release)}")
