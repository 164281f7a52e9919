"""The policy that ships with the project, as the first model of a local platform."""

from pathlib import Path

from ratchet.registry.v1 import registry_pb2
from ratchet_client import ApiError, Client
from ratchet_kit.names import CHAMPION, VersionRef
from ratchet_local.errors import PlatformError
from ratchet_local.services import models_folder

MODEL = "starter"


def folder() -> Path:
    return models_folder() / MODEL


def ensure_registered(client: Client) -> VersionRef:
    """The starter's champion; without one, the folder becomes the first version and champion.

    Raises PlatformError when the registry cannot copy the folder.
    """
    try:
        if number := client.models.get(MODEL).aliases.get(CHAMPION):
            return VersionRef(MODEL, number)
    except ApiError as error:
        if error.code != "NOT_FOUND":
            raise
    pending = client.models.create_version(MODEL, str(folder()), request_id=f"first-{MODEL}")
    version = client.models.wait_version(MODEL, pending.ref.number)
    if version.state != registry_pb2.Version.STATE_READY:
        raise PlatformError(f"The registry could not take {folder()}: {version.failure.message}")
    client.models.set_alias(MODEL, CHAMPION, version.ref.number, reason="first version")
    return VersionRef(MODEL, version.ref.number)
