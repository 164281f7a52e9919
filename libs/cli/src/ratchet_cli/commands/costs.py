"""`ratchet costs`: the use of machines by runs and evaluations, summed."""

from datetime import timedelta
from typing import Annotated

import typer

from ratchet_cli.commands import options
from ratchet_cli.commands.options import one_of
from ratchet_cli.terminal.output import JsonFlag, print_json, print_table, say
from ratchet_client import Client
from ratchet_client.calls import to_json
from ratchet_kit.times import duration
from ratchet_kit.usage import usage_to_proto
from ratchet_reports import usage_words
from ratchet_reports.ledger import GROUPS, Account, accounts, total

SHOWN = 20
_HOUR = timedelta(hours=1)


def costs(
    by: Annotated[str, typer.Option(help=f"One line for each: {', '.join(GROUPS)}.")] = "version",
    since: options.SinceOption = "30d",
    as_json: JsonFlag = False,
) -> None:
    """Sum the use of runs and evaluations, the dearest first: GPUs, processors, sandbox, tokens, cost."""
    one_of(by, GROUPS, "--by")
    after = options.since(since)
    with Client() as client:
        found = accounts([*client.runs.list(since=after), *client.evaluations.list(since=after)], by)
    if as_json:
        print_json([_plain(one) for one in found])
        return
    columns = (by, "runs", "evaluations", "GPU-hours", "CPU", "in the sandbox", "tokens in", "out", "cost")
    print_table(columns, [_row(one) for one in (*found[:SHOWN], total(found))])
    if len(found) > SHOWN:
        say(f"{len(found) - SHOWN} more are summed, and not shown: --json has all.")


def _plain(one: Account) -> dict[str, object]:
    usage = to_json(usage_to_proto(one.usage))
    return {"name": one.name, "runs": one.runs, "evaluations": one.evaluations, "usage": usage}


def _row(one: Account) -> tuple[object, ...]:
    usage = one.usage
    return (
        one.name,
        one.runs,
        one.evaluations,
        f"{usage.gpu_time / _HOUR:.2f}",
        duration(usage.cpu_time.total_seconds()),
        duration(usage.sandbox_time.total_seconds()),
        f"{usage.prompt_tokens:,}",
        f"{usage.completion_tokens:,}",
        usage_words.money(usage.cost, usage.currency) if usage.cost is not None else "-",
    )
