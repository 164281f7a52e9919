"""How the copying of a version is followed."""

from ratchet.registry.v1 import registry_pb2 as pb
from ratchet_cli.terminal.errors import CommandError
from ratchet_cli.terminal.following import Waiting, following
from ratchet_client import Client
from ratchet_client.names import version_name


def follow_version(client: Client, version: pb.Version, *, quiet: bool = False) -> pb.Version:
    """The version when it is READY. Raises CommandError when it FAILED."""
    name = version_name(version.ref)
    with following(Waiting(f"{name}: its weights are copied and hashed"), quiet=quiet) as changed:
        changed()
        version = client.models.wait_version(version.ref.model, version.ref.number)
    if version.state != pb.Version.STATE_READY:
        raise CommandError(f"{name} could not be registered: {version.failure.message}")
    return version
