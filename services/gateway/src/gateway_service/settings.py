"""The settings of the gateway, from RATCHET_GATEWAY_*."""

import os
from datetime import timedelta
from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr
from pydantic_settings import SettingsConfigDict

from ratchet_kit.settings import ServiceSettings


def _home() -> Path:
    return Path(os.environ.get("RATCHET_HOME") or Path.home() / ".ratchet")


class Settings(ServiceSettings):
    model_config = SettingsConfigDict(env_prefix="RATCHET_GATEWAY_")

    port: int = Field(default=8701, ge=0, le=65535)
    http_port: int = Field(default=8700, ge=0, le=65535)
    """For REST and OpenAI's API; 0 takes a free one, which the log shows."""
    database_url: str = Field(default_factory=lambda: f"sqlite:///{_home() / 'db' / 'gateway.db'}")

    trainer_target: str = "127.0.0.1:8702"
    rollout_target: str = "127.0.0.1:8703"
    sandbox_target: str = "127.0.0.1:8704"
    eval_target: str = "127.0.0.1:8705"
    registry_target: str = "127.0.0.1:8706"

    auth: Literal["on", "off"] = "on"
    """Off lets every caller do everything: only where no one else can reach the ports."""
    admin_key: SecretStr | None = None
    """The bootstrap administrator's key. None: the one in `admin_key_file`, made at the first start."""
    admin_key_file: Path = Field(default_factory=lambda: _home() / "admin.key")

    problems_folder: Path | None = None
    """Where users' own problem sets (*.jsonl) lie, for feedback by tests; named sets are always known."""
    load_wait: timedelta = timedelta(seconds=60)
    """How long a request waits for its version to be loaded; then 503 with Retry-After."""
    load_poll: timedelta = timedelta(seconds=0.25)
    """Between two looks at a version that is being loaded."""
    generate_timeout: timedelta = timedelta(minutes=5)
    """For one generation."""
    release_tick: timedelta = timedelta(seconds=1)
    """Between two looks at the releases, which may each move one step then."""
    watch_poll: timedelta = timedelta(seconds=1)
    """Between two looks at a release that is watched."""
    prepare_timeout: timedelta = timedelta(minutes=10)
    """How long a release's candidate may take to load."""
    drain: timedelta = timedelta(seconds=30)
    """Between the end of a release and unloading the version that lost."""
    keep_texts: timedelta = timedelta(days=1)
    """How long an answer that was not scored can still be graded."""
    keep_records: timedelta = timedelta(days=30)
    """How long the request log is kept."""
