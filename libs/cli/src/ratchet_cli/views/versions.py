"""How a version is followed while the registry copies and hashes it."""

import time

from rich.console import RenderableType
from rich.text import Text

from ratchet.registry.v1 import registry_pb2 as pb
from ratchet_cli.terminal.errors import CommandError
from ratchet_cli.terminal.following import duration, following
from ratchet_cli.views.names import version_name
from ratchet_client import Client


def follow_version(client: Client, version: pb.Version, *, quiet: bool = False) -> pb.Version:
    """The version when it is READY. Raises CommandError when it FAILED."""
    name = version_name(version.ref)
    with following(VersionView(name), quiet=quiet) as changed:
        changed()
        version = client.models.wait_version(version.ref.model, version.ref.number)
    if version.state != pb.Version.STATE_READY:
        raise CommandError(f"{name} could not be registered: {version.failure.message}")
    return version


class VersionView:
    """A View of one version."""

    def __init__(self, name: str) -> None:
        self._sentence = f"{name}: its weights are copied and hashed"
        self._start = time.monotonic()

    def panel(self) -> RenderableType:
        return Text(f"{self._sentence}, {duration(time.monotonic() - self._start)}")

    def news(self) -> list[str]:
        return [self._sentence]
