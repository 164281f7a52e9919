"""How a version is shown, and how its copying is followed."""

from ratchet.registry.v1 import registry_pb2 as pb
from ratchet_cli.terminal.errors import CommandError
from ratchet_cli.terminal.following import Waiting, following
from ratchet_cli.terminal.output import when
from ratchet_client import Client
from ratchet_client.names import model_name, state_name, version_name


def follow_version(client: Client, version: pb.Version, *, quiet: bool = False) -> pb.Version:
    """The version when it is READY. Raises CommandError when it FAILED."""
    name = version_name(version.ref)
    with following(Waiting(f"{name}: its weights are copied and hashed"), quiet=quiet) as changed:
        changed()
        version = client.models.wait_version(version.ref.model, version.ref.number)
    if version.state != pb.Version.STATE_READY:
        raise CommandError(f"{name} could not be registered: {version.failure.message}")
    return version


def version_fields(version: pb.Version) -> list[tuple[str, object]]:
    lineage = version.lineage
    return [
        ("version", version_name(version.ref)),
        ("state", state_name(version) + (f": {version.failure.message}" if version.failure.message else "")),
        ("files", version.artifact_uri or "-"),
        ("copied from", version.source_uri or "-"),
        ("size", f"{version.size_bytes / 2**20:.1f} MiB"),
        ("weights", version.policy_id or "-"),
        ("base", model_name(lineage.base) or "-"),
        ("run", f"{lineage.run_id}, step {lineage.step}" if lineage.run_id else "-"),
        ("learned from", lineage.data_digest or "-"),
        ("system", lineage.system or "-"),
        *((key, value) for key, value in sorted(version.labels.items())),
        ("created", when(version.create_time)),
    ]
