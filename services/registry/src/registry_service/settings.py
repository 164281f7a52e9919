"""What registry-service can be told."""

from datetime import timedelta
from pathlib import Path

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from ratchet_kit.settings import ServiceSettings


class Settings(ServiceSettings):
    """Read from RATCHET_REGISTRY_*, and DATABASE_URL and ARTIFACT_URL."""

    model_config = SettingsConfigDict(env_prefix="RATCHET_REGISTRY_")

    port: int = Field(default=8706, ge=0, le=65535)
    metrics_port: int = Field(default=8716, ge=0, le=65535)
    database_url: str = f"sqlite:///{Path.home()}/.ratchet/db/registry.db"
    artifact_url: str = f"{Path.home()}/.ratchet/artifacts"
    """Folder or fsspec URL below which the artifacts of versions are kept, in `models/`."""
    eval_target: str = "127.0.0.1:8705"
    default_deadline: timedelta = timedelta(minutes=10)
    """For calls that came without one: a large artifact takes minutes to copy."""
    upload_expiry: timedelta = timedelta(hours=6)
    """The files of a CreateVersion that did not end by then are removed."""
    sweep_interval: timedelta = timedelta(minutes=30)
