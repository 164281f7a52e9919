"""How a release is shown: its share of the traffic, and what was measured of both versions."""

from rich.console import RenderableType
from rich.table import Table

from ratchet_client.names import state_name, version_name
from ratchet_workflows.following.releases import ReleaseNews


def panel(news: ReleaseNews) -> RenderableType:
    release = news.release
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
