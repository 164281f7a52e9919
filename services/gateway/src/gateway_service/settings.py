"""The settings of the gateway, from RATCHET_GATEWAY_*."""

from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, SecretStr, field_validator, model_validator
from pydantic_settings import SettingsConfigDict

from gateway_service.domain.keys import quotas
from gateway_service.domain.keys.identities import Oidc
from gateway_service.domain.keys.key import MIN_SECRET
from gateway_service.domain.keys.quotas import Quota
from gateway_service.domain.keys.usage import KeyLimits
from ratchet_kit import files
from ratchet_kit.errors import InvalidArgument
from ratchet_kit.http_server import Certificate
from ratchet_kit.settings import ServiceSettings, own_database
from ratchet_kit.usage import PriceTable
from ratchet_policies.hedging import Hedging


class Settings(ServiceSettings):
    model_config = SettingsConfigDict(env_prefix="RATCHET_GATEWAY_", hide_input_in_errors=True)

    port: int = 8701
    http_port: int = Field(default=8700, ge=0, le=65535)
    """For REST and OpenAI's API; 0 takes a free one, which the log shows."""
    workers: int = Field(default=1, ge=1)
    """Processes that answer on these ports, each as one gateway of several does. One to a core at most."""
    database_url: str = Field(default_factory=partial(own_database, "gateway"))

    trainer_target: str = "127.0.0.1:8702"
    rollout_target: str = "127.0.0.1:8703"
    """A rollout node, or several, separated by commas. One that answers suffices: it knows the others."""
    sandbox_target: str = "127.0.0.1:8704"
    eval_target: str = "127.0.0.1:8705"
    registry_target: str = "127.0.0.1:8706"

    auth: Literal["on", "off"] = "on"
    """Off lets every caller do everything: only where no one else can reach the ports."""
    admin_key: SecretStr | None = None
    """The bootstrap administrator's key. None: the one in `admin_key_file`, made at the first start."""
    admin_key_file: Path = Field(default_factory=lambda: files.home() / "admin.key")

    max_message_bytes: int = Field(default=4 << 20, ge=1)
    """Bytes of a gRPC request."""
    key_limits: KeyLimits = KeyLimits()
    """Limits of each API key at this gateway. One by one: RATCHET_GATEWAY_KEY_LIMITS__TOKENS_PER_MINUTE=100000."""

    oidc: Oidc | None = None
    """Tokens of this identity provider are taken beside keys: {"issuer": "https://id.example.com", "audience":
    "ratchet", "grants": {"ml-leads": "admin", "acme": "train@acme"}}. With "console", people sign in there by it."""
    quotas: dict[str, Quota] = Field(default_factory=dict)
    """By project ("default": the platform's own), id of a key, or model: {"acme": {"runs": 2, "tokens": 5000000},
    "models/starter": {"cost": 50}}."""
    prices: PriceTable = None
    """RATCHET_PRICES: prices of what is used. None: answers have no cost."""

    tls_cert_file: Path | None = None
    """With `tls_key_file`, in PEM: HTTP is HTTPS."""
    tls_key_file: Path | None = None

    problems_folder: Path | None = None
    """Where users' own problem sets (*.jsonl) lie, for feedback by tests; named sets are always known."""
    load_wait: timedelta = timedelta(seconds=60)
    """How long a request waits for its version to be loaded; then 503 with Retry-After."""
    replicas: int = Field(default=2, ge=1)
    """Engines of a version that is in use, each on a rollout node of its own; fewer where fewer nodes have room."""
    hedge_after: timedelta | None = Field(default=None, gt=timedelta(0))
    """After so long without a first byte (of what is not streamed: without the answer) a second engine of the version
    is asked, too, and the slower one is cancelled. None: never."""
    cache_answers: int = Field(default=0, ge=0)
    """How many answers are kept, and given again to a key that asks the same of the same weights, at temperature 0 or
    with the same seed. 0: none."""
    replay_concurrency: int = Field(default=4, ge=1)
    """Answers that this gateway makes at the same time for offline experiments."""
    prepare_timeout: timedelta = timedelta(minutes=10)
    """How long a release's candidate may take to load."""
    keep_texts: timedelta = timedelta(days=1)
    """How long an answer that was not scored can still be graded."""
    keep_records: timedelta = timedelta(days=30)
    """How long the request log is kept."""
    keep_traffic: timedelta = Field(default=timedelta(days=90), gt=timedelta(0))
    """How long the prompts, answers and feedback of keys that consent are kept."""
    webhook_urls: str = ""
    """The URLs below which webhooks may lie, separated by commas: https://hooks.example.com. Without one there are no
    webhooks."""
    keep_deliveries: timedelta = Field(default=timedelta(days=30), gt=timedelta(0))
    """How long what was sent to webhooks, or given up, is kept to be looked at."""
    redact: tuple[str, ...] = ("emails", "secrets")
    """Redactions of these before they are written, in this order: "emails", "secrets", or an operator's own
    function of a text, "package.module:function"."""

    @property
    def certificate(self) -> Certificate | None:
        if self.tls_cert_file and self.tls_key_file:
            return Certificate(self.tls_cert_file, self.tls_key_file)
        return None

    @property
    def hedging(self) -> Hedging | None:
        return Hedging(self.hedge_after) if self.hedge_after else None

    @model_validator(mode="after")
    def _has_ports(self) -> Self:
        if self.workers > 1 and not (self.port and self.http_port):
            raise ValueError("several workers take ports that are set, not free ones")
        return self

    @model_validator(mode="after")
    def _has_both(self) -> Self:
        if bool(self.tls_cert_file) != bool(self.tls_key_file):
            raise ValueError("TLS needs RATCHET_GATEWAY_TLS_CERT_FILE and RATCHET_GATEWAY_TLS_KEY_FILE")
        return self

    @field_validator("quotas")
    @classmethod
    def _has_owners(cls, value: dict[str, Quota]) -> dict[str, Quota]:
        try:
            for owner, quota in value.items():
                quotas.check(owner, quota)
        except InvalidArgument as error:
            raise ValueError(error.message) from error
        return value

    @field_validator("admin_key")
    @classmethod
    def _is_long_enough(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and len(value.get_secret_value()) < MIN_SECRET:
            raise ValueError(f"must have {MIN_SECRET} characters or more, as `openssl rand -hex 32` makes them")
        return value
