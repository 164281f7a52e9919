"""The resources that a run or an evaluation uses, and their cost at the operator's prices."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from ratchet.common.v1 import usage_pb2 as pb
from ratchet_kit.files import json_or_file
from ratchet_kit.times import duration_from_proto, duration_to_proto

HOUR = timedelta(hours=1)
MILLION = 1_000_000
Price = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]


@dataclass(frozen=True, slots=True)
class Usage:
    """See `ratchet.common.v1.Usage`."""

    gpu_time: timedelta = timedelta()
    cpu_time: timedelta = timedelta()
    sandbox_time: timedelta = timedelta()
    prompt_tokens: int = 0
    completion_tokens: int = 0
    wall_time: timedelta = timedelta()
    wait_time: timedelta = timedelta()
    cost: float | None = None
    currency: str = ""
    gpu_busy_time: timedelta = timedelta()
    gpu_watched_time: timedelta = timedelta()

    def __add__(self, other: "Usage") -> "Usage":
        """The cost of both, where one of them has one."""
        costs = [one.cost for one in (self, other) if one.cost is not None]
        return Usage(
            self.gpu_time + other.gpu_time,
            self.cpu_time + other.cpu_time,
            self.sandbox_time + other.sandbox_time,
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            self.wall_time + other.wall_time,
            self.wait_time + other.wait_time,
            sum(costs) if costs else None,
            other.currency or self.currency,
            self.gpu_busy_time + other.gpu_busy_time,
            self.gpu_watched_time + other.gpu_watched_time,
        )

    def times(self, factor: float) -> "Usage":
        """As much for each part of it, without a cost: prices may be others."""
        return Usage(
            self.gpu_time * factor,
            self.cpu_time * factor,
            self.sandbox_time * factor,
            round(self.prompt_tokens * factor),
            round(self.completion_tokens * factor),
            self.wall_time * factor,
            self.wait_time * factor,
            gpu_busy_time=self.gpu_busy_time * factor,
            gpu_watched_time=self.gpu_watched_time * factor,
        )


def total(parts: Iterable[Usage]) -> Usage:
    return sum(parts, Usage())


class Prices(BaseModel):
    """An operator's prices, in one currency. What has none is free."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    currency: str = Field(min_length=1, max_length=16)
    gpu_hour: Price = 0.0
    cpu_hour: Price = 0.0
    """An hour of one core's time."""
    sandbox_hour: Price = 0.0
    """The same, of programs in the sandbox."""
    million_prompt_tokens: Price = 0.0
    million_completion_tokens: Price = 0.0

    def cost(self, usage: Usage) -> float:
        return (
            self.gpu_hour * (usage.gpu_time / HOUR)
            + self.cpu_hour * (usage.cpu_time / HOUR)
            + self.sandbox_hour * (usage.sandbox_time / HOUR)
            + self.million_prompt_tokens * usage.prompt_tokens / MILLION
            + self.million_completion_tokens * usage.completion_tokens / MILLION
        )


def priced(usage: Usage, prices: Prices | None) -> Usage:
    return replace(usage, cost=prices.cost(usage), currency=prices.currency) if prices else usage


def _read(value: Any) -> Any:
    return json_or_file(value, "must be prices as JSON, or a file of it, such as {'currency': 'EUR', 'gpu_hour': 2.5}")


PriceTable = Annotated[Prices | None, BeforeValidator(_read)]
"""The type of the setting."""


def usage_to_proto(usage: Usage) -> pb.Usage:
    return pb.Usage(
        gpu_time=duration_to_proto(usage.gpu_time),
        cpu_time=duration_to_proto(usage.cpu_time),
        sandbox_time=duration_to_proto(usage.sandbox_time),
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        wall_time=duration_to_proto(usage.wall_time),
        wait_time=duration_to_proto(usage.wait_time),
        cost=usage.cost,
        currency=usage.currency,
        gpu_busy_time=duration_to_proto(usage.gpu_busy_time),
        gpu_watched_time=duration_to_proto(usage.gpu_watched_time),
    )


def usage_from_proto(message: pb.Usage) -> Usage:
    return Usage(
        duration_from_proto(message.gpu_time),
        duration_from_proto(message.cpu_time),
        duration_from_proto(message.sandbox_time),
        message.prompt_tokens,
        message.completion_tokens,
        duration_from_proto(message.wall_time),
        duration_from_proto(message.wait_time),
        message.cost if message.HasField("cost") else None,
        message.currency,
        duration_from_proto(message.gpu_busy_time),
        duration_from_proto(message.gpu_watched_time),
    )
