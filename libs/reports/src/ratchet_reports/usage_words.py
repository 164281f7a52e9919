"""The usage of a run or an evaluation, in words."""

from collections.abc import Iterable

from google.protobuf.duration_pb2 import Duration

from ratchet.common.v1 import usage_pb2 as pb
from ratchet_kit.times import duration

UNPRICED = "not known: the operator has set no prices (RATCHET_PRICES)"
_HOURS = 3600


def money(amount: float, currency: str) -> str:
    """Two decimals; of less than a tenth, two digits."""
    return f"{amount:,.2f} {currency}" if amount >= 0.1 or not amount else f"{amount:.2g} {currency}"


def cost(usage: pb.Usage, budget: float | None = None, answers: int = 0) -> str:
    """Cost, its budget, and the cost of 1,000 of `answers`. Empty without prices."""
    if not usage.HasField("cost"):
        return ""
    each = f", {money(1000 * usage.cost / answers, usage.currency)} for 1,000 answers" if answers else ""
    return money(usage.cost, usage.currency) + (f" of {budget:g}" if budget is not None else "") + each


def expected(usage: pb.Usage) -> str:
    """A forecast: its cost where there are prices, its time, and what it uses."""
    price = money(usage.cost, usage.currency) if usage.HasField("cost") else ""
    return ", ".join(filter(None, ["about " + (price or duration(_seconds(usage.wall_time))), used(usage)]))


def together(usages: Iterable[pb.Usage], gained: float) -> str:
    """The sum of their costs, and its part for each percentage point of the `gained` share; empty without prices."""
    priced = [one for one in usages if one.HasField("cost")]
    if not priced:
        return ""
    whole, currency = sum(one.cost for one in priced), priced[-1].currency
    each = f", {money(whole / (100 * gained), currency)} for each point gained" if gained > 0 else ""
    return money(whole, currency) + each


def used(usage: pb.Usage) -> str:
    """Devices, processors, sandbox and tokens; empty before anything is known."""
    gpu, cpu, sandbox = (_seconds(one) for one in (usage.gpu_time, usage.cpu_time, usage.sandbox_time))
    words = [
        f"{gpu / _HOURS:.2f} GPU-hours{_busy(usage)}" if gpu else "",
        f"{duration(cpu)} of CPU" if cpu else "",
        f"{duration(sandbox)} of CPU in the sandbox" if sandbox else "",
        f"{usage.prompt_tokens:,} tokens in, {usage.completion_tokens:,} out" if usage.prompt_tokens else "",
    ]
    return ", ".join(filter(None, words))


def _busy(usage: pb.Usage) -> str:
    """Mean use of the GPUs; empty where nobody measured it."""
    watched = _seconds(usage.gpu_watched_time)
    return f" ({_seconds(usage.gpu_busy_time) / watched:.0%} busy)" if watched else ""


def waiting(usage: pb.Usage) -> str:
    """The share of its time in which the trainer waited for samples; empty where it never did."""
    whole, waited = _seconds(usage.wall_time), _seconds(usage.wait_time)
    return f"{waited / whole:.0%} of {duration(whole)} waiting for samples" if whole and waited else ""


def _seconds(value: Duration) -> float:
    return value.ToTimedelta().total_seconds()
