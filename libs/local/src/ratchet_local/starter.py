"""The policy that ships with the project, as the first model of a local platform."""

from pathlib import Path

from ratchet_client import ApiError, Client
from ratchet_local.services import environments_folder

MODEL = "starter"


def folder() -> Path:
    """Beside the virtual environments, in the project's folder."""
    return environments_folder().parent / "models" / MODEL


def ensure_registered(client: Client) -> int:
    """The number of the starter's champion; when there is none, the folder becomes the first version and champion.

    Raises ApiError when the registry refuses the folder.
    """
    try:
        if number := client.models.get(MODEL).aliases.get("champion"):
            return number
    except ApiError as error:
        if error.code != "NOT_FOUND":
            raise
    version = client.models.create_version(MODEL, str(folder()), request_id=f"first-{MODEL}")
    client.models.set_alias(MODEL, "champion", version.number, reason="first version")
    return version.number
