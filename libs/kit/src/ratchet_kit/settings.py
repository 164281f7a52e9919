"""The base of every service's settings: one frozen class, read from the environment once, by main."""

import os
import socket
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote, urlsplit

from pydantic import Field, ValidationError, ValidationInfo, field_validator
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from ratchet_kit import files
from ratchet_kit.ids import new_id

# Settings that have one plain name, and none with a service's prefix.
SHARED = {
    "redis_url": "REDIS_URL",
    "database_url": "DATABASE_URL",
    "ray_address": "RAY_ADDRESS",
    "artifact_url": "ARTIFACT_URL",
    "sources": "RATCHET_SOURCES",
    "prices": "RATCHET_PRICES",
    "tool_servers": "RATCHET_TOOL_SERVERS",
    "mlflow_tracking_uri": "MLFLOW_TRACKING_URI",
    "mlflow_tracking_username": "MLFLOW_TRACKING_USERNAME",
    "mlflow_tracking_password": "MLFLOW_TRACKING_PASSWORD",
    "mlflow_tracking_token": "MLFLOW_TRACKING_TOKEN",
    "wandb_api_key": "WANDB_API_KEY",
    "wandb_base_url": "WANDB_BASE_URL",
    "wandb_entity": "WANDB_ENTITY",
    "wandb_mode": "WANDB_MODE",
    "heartbeat_file": "RATCHET_HEARTBEAT_FILE",
    "otlp_endpoint": "OTEL_EXPORTER_OTLP_ENDPOINT",
}


PASSWORDS = {"redis_url": "REDIS_PASSWORD_FILE", "database_url": "DATABASE_PASSWORD_FILE"}
"""Files that hold the passwords for the URLs of SHARED, where these have none."""


def own_database(service: str) -> str:
    """The URL of a service's database where none is set: SQLite in the platform's folder."""
    return f"sqlite:///{files.home() / 'db' / service}.db"


class ServiceSettings(BaseSettings):
    """The settings that every service has. A service adds its own fields, and its prefix:

    class Settings(ServiceSettings):
        model_config = SettingsConfigDict(env_prefix="RATCHET_SANDBOX_")
        port: int = 8704
    """

    model_config = SettingsConfigDict(frozen=True, extra="ignore", env_ignore_empty=True, env_nested_delimiter="__")

    host: str = "127.0.0.1"
    """The address to listen on: loopback unless set."""
    port: int
    """0 takes a free one, which `serve` gives to `on_ready`."""
    metrics_port: int = 0
    """Where Prometheus reads; 0 is off."""
    heartbeat_file: Path | None = None
    """A file that is kept young while the service serves: containers look at its age, which starts no Python."""
    log_level: str = "INFO"
    redis_url: str = "redis://127.0.0.1:8707/0"
    artifact_url: str = ""
    """Folder or URL below which versions and exports are kept."""
    sources: str = ""
    """More folders and URLs (s3://bucket/prefix), separated by commas, below which callers' models and sets of problems
    may lie: see `source_roots`."""
    otlp_endpoint: str | None = None
    """An OTLP collector for gRPC, such as http://127.0.0.1:4317. None turns traces off."""
    max_message_bytes: int = 64 << 20
    """Bytes of a request over gRPC."""
    max_concurrent_calls: int = Field(default=4096, ge=1)
    """Over gRPC, watches and streams included. One more gets RESOURCE_EXHAUSTED."""
    max_held_bytes: int = Field(default=256 << 20, ge=1)
    """Bytes of all requests over gRPC that wait or are answered. One more gets RESOURCE_EXHAUSTED unless it is alone or
    small."""
    grace: timedelta = timedelta(seconds=10)
    """The time that calls and background work get to end after SIGTERM."""

    @classmethod
    def read(cls) -> Self:
        """The settings of the environment. Values that cannot be end the process with one sentence that names them."""
        prefix = cls.model_config.get("env_prefix", "")
        try:
            return cls()  # type: ignore[call-arg]
        except ValidationError as error:
            paths = [list(map(str, fault["loc"])) or [""] for fault in error.errors()]
            named = [".".join([SHARED.get(first) or prefix + first.upper(), *rest]) for first, *rest in paths]
            texts = [fault["msg"].removeprefix("Value error, ") for fault in error.errors()]
            sys.exit("; ".join(f"{name}: {text}" for name, text in zip(named, texts, strict=True)))
        except ValueError as error:
            sys.exit(str(error))

    @property
    def source_roots(self) -> list[str]:
        """For `ratchet_kit.allowed_sources`: the platform's own folders, where artifacts are kept, and `sources`."""
        own = [str(files.home() / name) for name in ("artifacts", "runs", "models", "problems")]
        return [*own, self.artifact_url, *self.sources.split(",")]

    def worker_name(self) -> str:
        """A name that no other living worker of the service has, and this one has again after a restart.

        Who listens on a port of a host is the only one that does. Where the port is a free one, the name is new.
        """
        return f"{socket.gethostname()}:{self.port}" if self.port else new_id("worker")

    # Validators, not constraints in the fields' types: a service that gives a field a default of its own keeps them.
    @field_validator("port", "metrics_port", check_fields=False)
    @classmethod
    def _is_a_port(cls, value: int) -> int:
        if not 0 <= value <= 65535:
            raise ValueError("a port is between 0 and 65535")
        return value

    @field_validator("*", mode="before")
    @classmethod
    def _seconds(cls, value: Any, info: ValidationInfo) -> Any:
        """A variable of the environment is text, in which pydantic takes a bare number for days."""
        kind = cls.model_fields[info.field_name].annotation if info.field_name else None
        if isinstance(value, str) and kind in (timedelta, timedelta | None):
            try:
                return timedelta(seconds=float(value))
            except ValueError:
                return value
        return value

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return init_settings, _OwnEnvironment(settings_cls, env_settings), _SharedEnvironment(settings_cls)


class _OwnEnvironment(PydanticBaseSettingsSource):
    """The variables with the service's prefix. Raises ValueError for one that would have no effect."""

    def __init__(self, settings_cls: type[BaseSettings], variables: PydanticBaseSettingsSource) -> None:
        super().__init__(settings_cls)
        self._variables = variables

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        return self._variables.get_field_value(field, field_name)

    def __call__(self) -> dict[str, Any]:
        prefix = self.settings_cls.model_config["env_prefix"]
        for variable in sorted(name for name in os.environ if prefix and name.upper().startswith(prefix)):
            name = variable[len(prefix) :].lower().partition("__")[0]
            if name in SHARED:
                raise ValueError(f"{variable} is not a setting: set {SHARED[name]}")
            if name not in self.settings_cls.model_fields:
                raise ValueError(f"{variable} is not a setting: unset it")
        return self._variables()


class _SharedEnvironment(PydanticBaseSettingsSource):
    """Reads the variables of SHARED for those fields that the settings class has."""

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        value = os.environ.get(SHARED.get(field_name, "")) or None
        file = os.environ.get(PASSWORDS.get(field_name, ""))
        return _with_password(value, Path(file)) if value and file else value, field_name, False

    def __call__(self) -> dict[str, Any]:
        values = {name: self.get_field_value(field, name)[0] for name, field in self.settings_cls.model_fields.items()}
        return {name: value for name, value in values.items() if value is not None}


def _with_password(url: str, file: Path) -> str:
    parts = urlsplit(url)
    if parts.password or not parts.hostname:
        return url
    user, _, place = parts.netloc.rpartition("@")
    return parts._replace(netloc=f"{user}:{quote(file.read_text().strip(), safe='')}@{place}").geturl()
