"""The settings of registry-service."""

from datetime import timedelta
from functools import partial

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from ratchet_kit import files
from ratchet_kit.settings import ServiceSettings, own_database


class Settings(ServiceSettings):
    """Read from RATCHET_REGISTRY_*, and DATABASE_URL, REDIS_URL and ARTIFACT_URL."""

    model_config = SettingsConfigDict(env_prefix="RATCHET_REGISTRY_")

    port: int = 8706
    metrics_port: int = 8716
    database_url: str = Field(default_factory=partial(own_database, "registry"))
    artifact_url: str = Field(default_factory=lambda: str(files.home() / "artifacts"))
    """Folder or fsspec URL below which the artifacts of versions are kept, in `models/`."""
    eval_target: str = "127.0.0.1:8705"
    licences: str = ""
    """SPDX identifiers of the licences that data sets may have, with commas. Empty: any, or none."""
    lease: timedelta = timedelta(seconds=30)
    """How long a version or a gate stays with a worker that died."""
