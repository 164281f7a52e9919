"""`ratchet benchmarks`: what can be measured, and whether it can be trusted on this machine."""

import asyncio
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import typer

import ratchet_benchmarks
from ratchet.registry.v1 import dataset_pb2 as pb
from ratchet_benchmarks import BENCHMARKS, OWN, LoadedBenchmark, folder
from ratchet_cli.commands import runtimes
from ratchet_cli.commands.options import TargetOption
from ratchet_cli.commands.sandbox import local_target
from ratchet_cli.terminal.errors import CommandError
from ratchet_cli.terminal.following import Count, following
from ratchet_cli.terminal.output import JsonFlag, print_json, print_table, say
from ratchet_client import Client
from ratchet_client.errors import Unreachable
from ratchet_environments import Task
from ratchet_environments.code import CodeEnvironment
from ratchet_environments.executor import Executor
from ratchet_environments.preflight import KINDS, Preflight, preflight_all
from ratchet_environments.sandbox import GrpcSandbox
from ratchet_kit import client
from ratchet_kit.errors import RatchetError, Unavailable
from ratchet_kit.names import DatasetRef
from ratchet_kit.text import storable
from ratchet_problems import jsonl, notices
from ratchet_problems.balance import Quantiles
from ratchet_workflows import UsageError
from ratchet_workflows.datasets import local, pinned

MOST_REPORTED, MOST_OF_A_REASON = 10_000, 400
"""Problems of a report to the platform, and characters of a reason."""

app = typer.Typer(help="Benchmarks and problem sets.", no_args_is_help=True)


@app.command("list")
def list_benchmarks(as_json: JsonFlag = False) -> None:
    """List public benchmarks, and Ratchet's own sets."""
    rows: list[dict[str, Any]] = []
    for one in BENCHMARKS.values():
        here = [edition.version for edition in folder.editions(one)]
        rows.append(
            {"name": one.name, "version": one.version, "licence": one.licence, "here": here, "about": one.about}
        )
    rows += [
        {"name": name, "version": "", "licence": "Apache-2.0", "here": [""], "about": "Ratchet's own"} for name in OWN
    ]
    if as_json:
        print_json(rows)
        return
    shown = [
        [*list(row.values())[:3], ", ".join(row["here"]) or ("-" if not row["here"] else "yes"), row["about"]]
        for row in rows
    ]
    print_table(["name", "version", "licence", "here", "about"], shown, breakable=("about",))


@app.command()
def verify(
    name: Annotated[
        str,
        typer.Argument(help="A benchmark, a data set (mine@1/train), a set of Ratchet's own, or a file of problems."),
    ],
    limit: Annotated[int, typer.Option(help="Maximum number of problems; 0: all.", min=0)] = 0,
    out: Annotated[
        Path | None, typer.Option(help="File of JSON lines for the problems that can be used here, with their kinds.")
    ] = None,
    kinds: Annotated[bool, typer.Option("--kinds", help="Count how the tests were judged.")] = False,
    target: TargetOption = "",
    as_json: JsonFlag = False,
) -> None:
    """Run each problem's reference in the sandbox. Exits 1 if one does not pass, with the name and
    the reason. Tests that would pass any program, because they judge nothing, count as a failure, too.

    Each problem's tests are first tried apart from the program. Problems that pass only with the tests in the program's
    own process, or that declare them there, are listed with the reason: their results can be forged. What is wrong with
    a whole data set is recorded among its findings.
    """
    if not target:
        runtimes.ensure_for([name])
    target = target or local_target()
    there = runtimes.offered(target)
    ref = None if limit else ratchet_benchmarks.dataset_of(name)
    try:
        with suppress(Unreachable):  # `local` says so
            ref = _pinned(ref)
        with local(str(ref or name)) as here:
            loaded, found = asyncio.run(_verified(here, name, limit or None, target, there, quiet=as_json))
        _report(ref, found)
    except UsageError as error:
        raise CommandError(f"{error}.", 2) from error
    except Unavailable as error:
        raise CommandError(f"{error.message}.", 4) from error
    except RatchetError as error:
        raise CommandError(f"{error.message}.") from error
    unsound = {one.problem.id: one.fault for one in found if one.fault}
    shared = {one.problem.id: _reasons(one) for one in found if one.shared and not one.fault}
    noticed = notices(loaded.problems)
    if out:
        jsonl.write([one.problem for one in found if not one.fault], out)
    if as_json:
        print_json(
            {
                "name": loaded.name,
                "version": loaded.version,
                "digest": loaded.digest,
                "problems": len(found),
                "unsound": unsound,
                "shared": shared,
                "notices": noticed,
                **({"kinds": {one.problem.id: one.kind for one in found}} if kinds else {}),
            }
        )
    else:
        _show(loaded, found, unsound, shared)
        if kinds:
            print_table(["how the tests were judged", "problems", "share"], _shares(found))
        for notice in noticed:
            say(f"{notice}.")
    if unsound:
        raise typer.Exit(1)


def _pinned(ref: DatasetRef | None) -> DatasetRef | None:
    """The exact version: another may become the newest meanwhile."""
    if ref is None:
        return None
    with Client() as platform:
        return pinned(platform, ref)


def _report(ref: DatasetRef | None, found: Sequence[Preflight]) -> None:
    """For the platform's data set: the problems whose reference does not pass, as findings, and how all of them ran."""
    if ref is None or ref.number is None:
        return
    ran = [one for one in found if one.problem.references]
    right, wrong = [one for one in ran if not one.fault], [one for one in ran if one.fault]
    reasons = {one.problem.id: storable(one.fault)[:MOST_OF_A_REASON] for one in wrong[:MOST_REPORTED]}
    shared = sum(bool(one.shared) for one in right)
    runs = pb.ReferenceRuns(
        problems=len(ran),
        strict=len(right) - shared,
        shared=shared,
        cpu_time=_quantiles(one.cpu_time.total_seconds() for one in right),
        memory_bytes=_quantiles(one.memory_bytes for one in right),
    )
    with Client() as platform:
        platform.datasets.report_unsound(ref.name, ref.number, ref.split, reasons, runs)


def _quantiles(values: Iterable[float]) -> pb.Quantiles | None:
    """Without those that were not measured."""
    found = Quantiles.of(value for value in values if value)
    return pb.Quantiles(**asdict(found)) if found else None


def _show(
    loaded: LoadedBenchmark, found: Sequence[Preflight], unsound: dict[str, str], shared: dict[str, list[str]]
) -> None:
    if unsound:
        print_table(["problem", "why it cannot be used"], unsound.items(), breakable=("why it cannot be used",))
    if shared:
        rows = [(problem_id, "; ".join(reasons)) for problem_id, reasons in shared.items()]
        print_table(
            ["problem", "why its tests share its process"], rows, breakable=("why its tests share its process",)
        )
    version = f" {loaded.version}" if loaded.version else ""
    say(
        f"{loaded.name}{version}: {len(found) - len(unsound)} of {len(found)} references pass"
        + (f", {len(shared)} of them in the shared kind, whose results can be forged." if shared else ".")
    )


def _shares(found: Sequence[Preflight]) -> list[list[Any]]:
    counts = Counter(one.kind for one in found)
    return [[kind, counts[kind], f"{counts[kind] / max(len(found), 1):.1%}"] for kind in KINDS]


def _reasons(one: Preflight) -> list[str]:
    several = len(one.problem.tests) > 1
    return [f"tests[{place}]: {reason}" if several else reason for place, reason in one.shared.items()]


async def _verified(
    here: str, name: str, limit: int | None, target: str, there: Collection[str], *, quiet: bool
) -> tuple[LoadedBenchmark, list[Preflight]]:
    async with client.channel(target) as channel, Executor(GrpcSandbox(channel)) as executor:
        prepared = Count(f"preparing {name}", "problems")
        with following(prepared, quiet=quiet) as changed:
            await ratchet_benchmarks.prepare(here, executor, _counter(prepared, changed))
        loaded = replace(await asyncio.to_thread(ratchet_benchmarks.load, here, limit), name=name)
        if loaded.runtime and loaded.runtime not in there:
            raise CommandError(
                f"{name} needs the runtime {loaded.runtime}, which this sandbox lacks: scripts/setup.sh "
                f"sandbox-{loaded.runtime} builds it, and the sandbox finds it when it starts next."
            )
        count = Count(f"verifying {name}", "references")
        with following(count, quiet=quiet) as changed:
            tasks = [Task.of(one, runtime=loaded.runtime, limits=loaded.limits(one)) for one in loaded.problems]
            environment = CodeEnvironment(executor, forgeable=True)
            tried, tell = set[int](), _counter(count, changed)

            def one(place: int, found: Preflight) -> None:
                tried.add(place)
                tell(len(tried), len(tasks))

            found = await preflight_all(environment, tasks, tell=one, tests_too=True)
    return loaded, found


def _counter(count: Count, changed: Any) -> Any:
    def counted(done: int, total: int) -> None:
        count.update(done, total)
        changed()

    return counted
