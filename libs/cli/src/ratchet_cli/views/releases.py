"""How a release is followed: its share of the traffic, and what was measured of both versions."""

from collections.abc import Callable

from rich.console import RenderableType
from rich.table import Table

from ratchet.gateway.v1 import release_pb2 as pb
from ratchet_cli.terminal.errors import CommandError
from ratchet_cli.terminal.following import following
from ratchet_client import Client
from ratchet_client.names import state_name, version_name


def follow(
    client: Client,
    release_id: str,
    *,
    quiet: bool = False,
    to_the_end: bool = False,
    log: Callable[[str], None] | None = None,
) -> pb.Release:
    """Shows a release until it has ended or, unless `to_the_end`, its candidate is the champion, which is watched then,
    and returns it as it is. Interrupted, it says how to go on."""
    view = ReleaseView(pb.Release(id=release_id))
    goes_on = f"Release {release_id} goes on. Follow it: ratchet releases watch {release_id}"
    with following(view, quiet=quiet, goes_on=goes_on, log=log) as changed:
        for view.release in client.releases.watch(release_id):
            changed()
            if view.release.state == pb.Release.STATE_WATCHING and not to_the_end:
                break
    return view.release


def raise_unless_succeeded(release: pb.Release) -> None:
    """One whose candidate is the champion has succeeded, also while it is watched."""
    if release.state not in (pb.Release.STATE_SUCCEEDED, pb.Release.STATE_WATCHING):
        reason = release.failure.message or (release.events[-1].reason if release.events else "")
        raise CommandError(f"Release {release.id} ended {state_name(release)}: {reason}")


class ReleaseView:
    """A View of one release."""

    def __init__(self, release: pb.Release) -> None:
        self.release = release
        self._said = 0

    def panel(self) -> RenderableType:
        release = self.release
        table = Table.grid(padding=(0, 2))
        table.add_column(no_wrap=True)
        filled = round(release.percent / 5)
        table.add_row("release", f"{release.id}  {state_name(release)}")
        bar = f"[green]{'█' * filled}[/][dim]{'░' * (20 - filled)}[/]"
        table.add_row("traffic", f"{bar}  {release.percent} % to candidate")
        for name, version, stats in (
            ("baseline", release.baseline, release.baseline_stats),
            ("candidate", release.spec.candidate, release.candidate_stats),
        ):
            latency = stats.latency_p95.ToTimedelta().total_seconds()
            scored = f", score {stats.mean_score:.2f} over {stats.scored}" if stats.scored else ""
            table.add_row(
                f"{name} {version_name(version)}",
                f"{stats.requests} requests, {stats.errors} errors, {stats.left} left, p95 {latency:.2f} s{scored}",
            )
        if release.waits_for:
            table.add_row("waits for", release.waits_for)
        if release.events:
            table.add_row("", release.events[-1].reason)
        return table

    def news(self) -> list[str]:
        new = self.release.events[self._said :]
        self._said = len(self.release.events)
        return [f"{self.release.id}: {event.percent} % of traffic to the candidate: {event.reason}" for event in new]
