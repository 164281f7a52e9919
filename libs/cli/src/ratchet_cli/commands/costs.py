"""`ratchet costs`: the use by runs, evaluations and answers, summed."""

from datetime import timedelta
from typing import Annotated

import typer

from ratchet.gateway.v1 import platform_pb2
from ratchet_cli.commands import options
from ratchet_cli.commands.options import one_of
from ratchet_cli.terminal.output import JsonFlag, print_json, print_table, say
from ratchet_client import Client
from ratchet_client.calls import to_json
from ratchet_kit.times import duration
from ratchet_kit.usage import usage_from_proto
from ratchet_reports import usage_words

SHOWN = 20
GROUPS = {
    name: platform_pb2.GetCostsRequest.By.Value(f"BY_{name.upper()}") for name in ("key", "version", "study", "work")
}
_HOUR = timedelta(hours=1)


def costs(
    by: Annotated[str, typer.Option(help=f"One line for each: {', '.join(GROUPS)}.")] = "version",
    since: options.SinceOption = "30d",
    as_json: JsonFlag = False,
) -> None:
    """Sum the use by runs, evaluations and answers, the dearest first: GPUs, processors, sandbox, tokens, cost."""
    group = one_of(by, GROUPS, "--by")
    with Client() as client:
        found = client.platform.costs(group, options.since(since))
    if as_json:
        print_json(to_json(found))
        return
    columns = (by, "runs", "evaluations", "answers", "GPU-hours", "CPU", "in the sandbox", "tokens in", "out", "cost")
    print_table(columns, [_row(one) for one in (*found.accounts[:SHOWN], found.total)])
    if len(found.accounts) > SHOWN:
        say(f"{len(found.accounts) - SHOWN} more are summed, and not shown: --json has the 1,000 dearest.")


def _row(one: platform_pb2.Account) -> tuple[object, ...]:
    usage = usage_from_proto(one.usage)
    return (
        one.name,
        one.runs,
        one.evaluations,
        one.answers,
        f"{usage.gpu_time / _HOUR:.2f}",
        duration(usage.cpu_time.total_seconds()),
        duration(usage.sandbox_time.total_seconds()),
        f"{usage.prompt_tokens:,}",
        f"{usage.completion_tokens:,}",
        usage_words.money(usage.cost, usage.currency) if usage.cost is not None else "-",
    )
