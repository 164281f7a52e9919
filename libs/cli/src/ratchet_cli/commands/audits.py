"""`ratchet data audit`."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

import ratchet_benchmarks
from ratchet_cli.commands.options import TargetOption
from ratchet_cli.commands.sandbox import local_target
from ratchet_cli.terminal.errors import CommandError
from ratchet_cli.terminal.following import Count, following
from ratchet_cli.terminal.output import JsonFlag, print_json, print_table, say
from ratchet_environments.audit import Audited, audit_all
from ratchet_environments.code import CodeEnvironment
from ratchet_environments.executor import Executor
from ratchet_environments.sandbox import GrpcSandbox
from ratchet_environments.task import Task
from ratchet_kit import client
from ratchet_kit.errors import RatchetError
from ratchet_workflows import UsageError
from ratchet_workflows.datasets import local

SHOWN = 20
PASSING = "what passes all of its tests"


def audit(
    name: Annotated[str, typer.Argument(help="Data set (mine@1/train), benchmark, or file of problems.")],
    limit: Annotated[int, typer.Option(help="Only the first problems; 0: all.", min=0)] = 0,
    out: Annotated[Path | None, typer.Option(help="File of JSON lines, one for each problem.")] = None,
    target: TargetOption = "",
    as_json: JsonFlag = False,
) -> None:
    """Find problems whose tests can be hacked. Runs cheap cheats (constants, echoes, the prompt's examples by heart, an
    object that equals everything) and mutants of the reference against each problem's tests, and lists the weakest."""
    target = target or local_target()
    try:
        with local(name) as here:
            found = asyncio.run(_audited(here, name, limit or None, target, quiet=as_json))
    except UsageError as error:
        raise CommandError(f"{error}.", code=2) from error
    except RatchetError as error:
        raise CommandError(f"{error.message}.") from error
    found.sort(key=lambda one: (-one.weakness, one.id))
    if out:
        out.write_text("".join(json.dumps(_record(one)) + "\n" for one in found), encoding="utf-8")
    if as_json:
        print_json({"name": name, "problems": [_record(one) for one in found]})
        return
    weak = [one for one in found if one.weakness > 0]
    if weak:
        rows = [(one.id, f"{one.weakness:.2f}", _passing(one)) for one in weak[:SHOWN]]
        print_table(("problem", "weakness", PASSING), rows, breakable=(PASSING,))
    _say_sums(name, found, len(weak))


def _say_sums(name: str, found: Sequence[Audited], weak: int) -> None:
    known = [one for one in found if not one.fault]
    mutants, survivors = sum(one.mutants for one in known), sum(len(one.survivors) for one in known)
    if weak > SHOWN:
        say(f"{weak - SHOWN} more have weak tests: --out FILE or --json has all.")
    if faults := len(found) - len(known):
        say(f"{faults} have no reference that passes: nothing is known of them.")
    cheated = sum(bool(one.cheats) for one in known)
    killed = f"{1 - survivors / mutants:.1%} of {mutants} mutants are killed" if mutants else "there are no mutants"
    say(f"{name}: {cheated} of {len(known)} problems reward a cheat; {killed}.")


def _passing(one: Audited) -> str:
    survivors = f"{len(one.survivors)} of {one.mutants} mutants, such as {one.survivors[0]}" if one.survivors else ""
    return "; ".join([*one.cheats, *([survivors] if survivors else [])])


def _record(one: Audited) -> dict[str, Any]:
    return asdict(one) | {"weakness": one.weakness}


async def _audited(here: str, name: str, limit: int | None, target: str, *, quiet: bool) -> list[Audited]:
    async with client.channel(target) as channel, Executor(GrpcSandbox(channel)) as executor:
        loaded = await asyncio.to_thread(ratchet_benchmarks.load, here, limit)
        tasks = [Task.of(one, runtime=loaded.runtime, limits=loaded.limits(one)) for one in loaded.problems]
        count = Count(f"auditing {name}", "problems")
        with following(count, quiet=quiet) as changed:

            def tell(done: int, total: int) -> None:
                count.update(done, total)
                changed()

            return await audit_all(CodeEnvironment(executor, forgeable=True), tasks, tell=tell)
