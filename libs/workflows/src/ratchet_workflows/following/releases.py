"""A release, followed to its end."""

from ratchet.gateway.v1 import release_pb2 as pb
from ratchet_client import Client
from ratchet_client.names import state_name
from ratchet_workflows.errors import WorkflowError
from ratchet_workflows.progress import SILENT, Progress


def follow(
    client: Client,
    release_id: str,
    progress: Progress = SILENT,
    *,
    to_the_end: bool = False,
) -> pb.Release:
    """The release, when it has ended or, unless `to_the_end`, its candidate is the champion, which is watched then.
    Raises the client's errors."""
    news = ReleaseNews(pb.Release(id=release_id))
    goes_on = f"Release {release_id} goes on. Follow it: ratchet releases watch {release_id}"
    with progress.following(news, goes_on) as changed:
        for news.release in client.releases.watch(release_id):
            changed()
            if news.release.state == pb.Release.STATE_WATCHING and not to_the_end:
                break
    return news.release


def raise_unless_succeeded(release: pb.Release) -> None:
    """One whose candidate is the champion has succeeded, also while it is watched. Raises WorkflowError."""
    if release.state not in (pb.Release.STATE_SUCCEEDED, pb.Release.STATE_WATCHING):
        reason = release.failure.message or (release.events[-1].reason if release.events else "")
        raise WorkflowError(f"Release {release.id} ended {state_name(release)}: {reason}")


class ReleaseNews:
    """The news of one release."""

    def __init__(self, release: pb.Release) -> None:
        self.release = release
        self._said = 0

    def news(self) -> list[str]:
        new = self.release.events[self._said :]
        self._said = len(self.release.events)
        return [f"{self.release.id}: {event.percent} % of traffic to the candidate: {event.reason}" for event in new]
