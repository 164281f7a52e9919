"""`ratchet data audit` and `strengthen`: how far tests can be hacked, and more of them."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from ratchet_cli.commands.options import TargetOption, refusing
from ratchet_cli.commands.sandbox import local_target
from ratchet_cli.commands.sources import NameArgument, OutOption, counting, stronger_set, tasks_of
from ratchet_cli.terminal.output import JsonFlag, print_json, print_table, say
from ratchet_cli.views import datasets as view
from ratchet_environments.audit import Audited, audit_all
from ratchet_environments.code import CodeEnvironment
from ratchet_environments.executor import Executor
from ratchet_environments.sandbox import GrpcSandbox
from ratchet_environments.strengthen import Strengthened, strengthen_all
from ratchet_kit import client
from ratchet_workflows.datasets import local

SHOWN = 20
PASSING = "what passes all of its tests"


def audit(
    name: NameArgument,
    limit: Annotated[int, typer.Option(help="Only the first problems; 0: all.", min=0)] = 0,
    out: Annotated[Path | None, typer.Option(help="File of JSON lines, one for each problem.")] = None,
    target: TargetOption = "",
    as_json: JsonFlag = False,
) -> None:
    """Find problems whose tests can be hacked. Runs cheap cheats (constants, echoes, the prompt's examples by heart, an
    object that equals everything) and mutants of the reference against each problem's tests, and lists the weakest."""
    target = target or local_target()
    with refusing():
        with local(name) as here:
            found = asyncio.run(_audited(here, name, limit or None, target, quiet=as_json))
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


def strengthen(
    name: NameArgument,
    limit: Annotated[int, typer.Option(help="Only the first problems; 0: all.", min=0)] = 0,
    out: OutOption = None,
    target: TargetOption = "",
    as_json: JsonFlag = False,
) -> None:
    """Add tests where mutants of the reference survive: inputs near those of a problem's own tests, with what its
    reference gives. Makes the next version of a data set, or a file."""
    target = target or local_target()
    with refusing(), stronger_set(name, out, part=bool(limit)) as source:
        found = asyncio.run(_strengthened(source.here, source.name, limit or None, target, quiet=as_json))
        more = any(one.killed_now > one.killed for one in found)
        made = source.write([one.problem for one in found], changed=more)
        name = source.name
    mutants, before, now = (sum(getattr(one, it) for one in found) for it in ("mutants", "killed", "killed_now"))
    faults = {one.problem.id: one.fault for one in found if one.fault}
    if as_json:
        version = view.version(made) if made else ""
        sums = {"mutants": mutants, "killed": before, "killed_now": now}
        print_json({"name": name, "version": version, **sums, "faults": faults})
        if made:
            view.check_usable(made)
        return
    if faults:
        say(f"{len(faults)} get no tests, such as {next(iter(faults))}: {next(iter(faults.values()))}.")
    shares = (
        f"{before / mutants:.1%} of {mutants} mutants were killed, now {now / mutants:.1%}" if mutants else "no mutants"
    )
    say(f"{name}: {shares}.")
    if made:
        view.show_made(made, as_json=False)
    elif before == now:
        say("No test was added.")


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
        tasks = await asyncio.to_thread(tasks_of, here, limit)
        with counting(f"auditing {name}", quiet=quiet) as tell:
            return await audit_all(CodeEnvironment(executor, forgeable=True), tasks, tell=tell)


async def _strengthened(here: str, name: str, limit: int | None, target: str, *, quiet: bool) -> list[Strengthened]:
    async with client.channel(target) as channel, Executor(GrpcSandbox(channel)) as executor:
        tasks = await asyncio.to_thread(tasks_of, here, limit)
        with counting(f"strengthening {name}", quiet=quiet) as tell:
            return await strengthen_all(executor, tasks, tell)
