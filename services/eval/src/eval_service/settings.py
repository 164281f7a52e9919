"""The settings of eval-service."""

from datetime import timedelta
from functools import partial

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from ratchet_kit.settings import ServiceSettings, own_database
from ratchet_kit.tool_servers import ToolServers
from ratchet_kit.usage import PriceTable


class Settings(ServiceSettings):
    """Read from RATCHET_EVAL_*, and DATABASE_URL and REDIS_URL."""

    model_config = SettingsConfigDict(env_prefix="RATCHET_EVAL_")

    port: int = 8705
    metrics_port: int = 8715
    database_url: str = Field(default_factory=partial(own_database, "eval"))
    rollout_target: str = "127.0.0.1:8703"
    """A rollout node, or several, separated by commas. One that answers suffices: it knows the others."""
    sandbox_target: str = "127.0.0.1:8704"
    registry_target: str = "127.0.0.1:8706"

    prices: PriceTable = None
    """RATCHET_PRICES: what an hour of a GPU, or a million tokens, costs, as JSON or a file of it (docs/costs.md).
    None: usage is counted, and has no cost."""
    tool_servers: ToolServers = Field(default_factory=dict)
    """RATCHET_TOOL_SERVERS: MCP servers that episodes may use, by name, as JSON or a file of it (docs/tasks.md)."""

    slots: int = Field(default=1, ge=0)
    """Evaluations measured at a time by this process; with 0 it only answers calls. Each needs room for a policy."""
    lease: timedelta = timedelta(seconds=30)
    """How long an evaluation stays with a worker that has died."""
    fault_patience: timedelta = timedelta(minutes=15)
    """How long the platform may be at fault, without one new sample, before an evaluation fails for it: more than an
    engine that died gets to start again. So long, too, an evaluation waits for the next sample that its caller adds;
    for room in rollout-service it waits twice as long."""
    keep_texts: timedelta = timedelta(days=180)
    """How long the completions of an evaluation, what was seen when they ran, and records of episodes can be read after
    its end; 0: until it is deleted. Verdicts, counts and scores stay: what was promoted can be looked into for good."""
    keep_unvoted_pairs: timedelta = timedelta(days=30)
    """How long a pair that was drawn for a vote waits for it; 0: for good. One with a vote stays."""
