"""The settings of registry-service."""

from datetime import timedelta
from pathlib import Path

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from ratchet_kit.settings import ServiceSettings


class Settings(ServiceSettings):
    """Read from RATCHET_REGISTRY_*, and DATABASE_URL, REDIS_URL and ARTIFACT_URL."""

    model_config = SettingsConfigDict(env_prefix="RATCHET_REGISTRY_")

    port: int = Field(default=8706, ge=0, le=65535)
    metrics_port: int = Field(default=8716, ge=0, le=65535)
    database_url: str = f"sqlite:///{Path.home()}/.ratchet/db/registry.db"
    artifact_url: str = f"{Path.home()}/.ratchet/artifacts"
    """Folder or fsspec URL below which the artifacts of versions are kept, in `models/`."""
    eval_target: str = "127.0.0.1:8705"
    copies: int = Field(default=2, ge=1)
    """Artifacts that are copied at a time."""
    lease: timedelta = timedelta(seconds=30)
    """How long a version or a gate stays with a worker that died."""
    reconcile_interval: timedelta = timedelta(seconds=10)
    """How often what the queue has lost is put back on it."""
    upload_expiry: timedelta = timedelta(hours=6)
    """The files of a copy that did not end by then are removed."""
    sweep_interval: timedelta = timedelta(minutes=30)
