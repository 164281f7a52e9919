"""`ratchet data`: data sets of the platform, and the data of public benchmarks."""

import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import Annotated, TypeVar

import typer

import ratchet_benchmarks
from ratchet.registry.v1 import dataset_pb2 as pb
from ratchet_benchmarks import BENCHMARKS, fetching, folder
from ratchet_benchmarks.fetching import Fetched
from ratchet_cli.commands import audits, findings, growing, task_sets
from ratchet_cli.commands.options import named, refusing
from ratchet_cli.terminal.errors import CommandError
from ratchet_cli.terminal.following import Count, following
from ratchet_cli.terminal.output import (
    JsonFlag,
    ago,
    print_fields,
    print_json,
    print_table,
    say,
    stderr,
)
from ratchet_cli.views import datasets as view
from ratchet_client import Client, address
from ratchet_client.datasets import download, settled, upload
from ratchet_client.errors import Unreachable
from ratchet_client.names import state_name
from ratchet_environments.folders import sets
from ratchet_kit.errors import InvalidArgument, RatchetError
from ratchet_kit.names import DatasetRef
from ratchet_problems import files
from ratchet_workflows import datasets as workflows

T = TypeVar("T")
KIB = 1024
MOST_NAMED = 20
DATASET = "name@number; name alone is its newest version."

app = typer.Typer(help="Data sets, and data of public benchmarks.", no_args_is_help=True)
app.command()(audits.audit)
app.command()(audits.strengthen)
app.command()(findings.findings)
app.command()(findings.report)
app.command()(growing.augment)
app.command()(growing.grow)


@app.command()
def add(
    paths: Annotated[
        list[Path],
        typer.Argument(
            help="Files (.jsonl, .json, .csv, .parquet, .arrow, also .gz), a folder of them, or one of task folders."
        ),
    ],
    name: Annotated[str, typer.Option(help="Name; default: the file's or folder's.")] = "",
    mapped: Annotated[
        list[str], typer.Option("--map", help="FIELD=COLUMN, such as prompt=question. Repeatable.", show_default=False)
    ] = [],  # noqa: B006  typer's form
    licence: Annotated[str, typer.Option(help="SPDX identifier, such as MIT.")] = "",
    description: Annotated[str, typer.Option(help="Description, for people.")] = "",
    as_json: JsonFlag = False,
) -> None:
    """Add files as the next version of a data set, and wait until it is examined. Columns are mapped to the fields of a
    problem by their names, or by --map; rows with chosen and rejected are pairs, for DPO. Task folders are kept as they
    are (ratchet tasks)."""
    stem = Path(paths[0].resolve().name.removesuffix(".gz")).stem
    name = name or re.sub(r"[^a-z0-9._-]+", "-", stem.lower()).strip("-.")
    if not name:
        raise CommandError(f"{paths[0].name} gives the data set no name of letters and digits: use --name.", code=2)
    if name in {benchmark.dataset for benchmark in BENCHMARKS.values()}:
        raise CommandError(f"{name} is the name of a public benchmark: call yours otherwise, by --name.", code=2)
    names = ", ".join(path.name for path in paths)[:200]
    card = pb.DatasetCard(description=description, licence=licence or files.licence(paths), source=names)
    with tempfile.TemporaryDirectory(prefix="ratchet-data-") as kept:
        with refusing():
            if folders := sets.splits(paths):
                if mapped:
                    raise CommandError("--map goes with tables: task folders have no columns.", code=2)
                splits, card.folders = sets.write(folders, Path(kept)), True
            else:
                splits, card.pairs = _converted(files.splits(paths), _mapping(mapped), Path(kept), quiet=as_json)
        with Client() as client:
            made = _uploaded(client, name, splits, card, quiet=as_json)
    view.show_made(made, as_json=as_json)
    if not as_json and description and made.card.description != description:
        say(f"These files were {view.version(made)} already, whose description stays as it was.")


@app.command("list")
def list_data(as_json: JsonFlag = False) -> None:
    """List the platform's data sets, and the data of benchmarks on this machine."""
    unknown = False
    try:
        with Client() as client:
            there = list(client.datasets.list())
    except Unreachable as error:
        there, unknown = [], bool(address.elsewhere())
        stderr.print(f"Only this machine: {error}", markup=False, soft_wrap=True)
    rows = [
        {
            "name": view.version(one),
            "holds": view.holds(one.card),
            "rows": view.rows(one),
            "licence": one.card.licence or "-",
            "where": "platform" if one.state == pb.Dataset.STATE_READY else f"platform, {state_name(one).lower()}",
            "kib": sum(split.content_bytes for split in one.splits) // KIB,
        }
        for one in there
    ] + [
        {
            "name": f"{benchmark.name}@{edition.version}",
            "holds": view.holds(pb.DatasetCard(edition=edition.version)),
            "rows": "-",
            "licence": benchmark.licence,
            "where": str(at),
            "kib": sum(path.stat().st_size for path in at.iterdir()) // KIB,
        }
        for benchmark in BENCHMARKS.values()
        for edition in folder.editions(benchmark)
        for at in [folder.of(benchmark, edition.version)]
    ]
    if as_json:
        print_json(rows)
    elif rows:
        columns = list(rows[0])
        print_table(columns, [list(row.values()) for row in rows], breakable=("rows", "where"), right=("kib",))
    elif not unknown:
        say("There are no data sets yet: ratchet data add FILE adds yours, ratchet data fetch NAME a public benchmark.")


@app.command()
def show(dataset: Annotated[str, typer.Argument(help=DATASET)], as_json: JsonFlag = False) -> None:
    """Show a version of a data set."""
    ref = named(DatasetRef.parse, dataset)
    with Client() as client:
        found = client.datasets.get(ref.name, ref.number)
        tasks = () if as_json else task_sets.entries(client, found, ref.split)
    if as_json:
        print_json(found)
        return
    card, used = found.card, f"{found.uses} times, {found.last_user} the last" if found.uses else "never"
    print_fields(
        [
            ("data set", view.version(found)),
            ("state", ": ".join(filter(None, (state_name(found), found.failure.message or view.progress(found))))),
            ("description", card.description or "-"),
            ("source", card.source or "-"),
            ("licence", card.licence or "-"),
            ("holds", view.holds(card)),
            ("made of", card.made_of or "files"),
            ("created", f"{ago(found.create_time)}{f' by {found.actor}' if found.actor else ''}"),
            ("used", used),
        ]
    )
    say("")
    columns = ("split", "rows", "bytes", "digest", "notices")
    shown = [it for it in found.splits if ref.split in ("", it.name)]
    if not shown:
        raise CommandError(
            f"{view.version(found)} has no split {ref.split}; it has {', '.join(it.name for it in found.splits)}."
        )
    rows = [(it.name, it.rows, it.content_bytes, it.digest[7:19], "; ".join(it.notices) or "-") for it in shown]
    print_table(columns, rows, breakable=("notices",), right=("rows", "bytes"))
    for it in shown:
        if it.compared_sets:
            say(f"{it.name}: compared with {it.compared_problems:,} problems of {it.compared_sets:,} other sets.")
        if it.HasField("references"):
            say(f"{it.name}: {view.references(it.references)}")
    if tasks:
        say("")
        view.show_tasks(tasks, MOST_NAMED)
    if balances := [view.balance(it.name, it.balance) for it in shown if it.HasField("balance")]:
        say("")
        say("Characters and tests of a problem, median (nine in ten), and problems by language, difficulty and tag:")
        print_table(view.BALANCE, balances, breakable=view.BALANCE[-3:])


@app.command()
def split(
    dataset: Annotated[str, typer.Argument(help="name@number/split, or name where it has one split.")],
    into: Annotated[list[str], typer.Option("--into", help="SPLIT=SHARE, such as validation=0.1. Repeatable.")],
    as_json: JsonFlag = False,
) -> None:
    """Divide a split at random, as the next version. Problems of one structure or one prompt stay together; the same
    problems are divided the same."""
    shares: dict[str, float] = {}
    for text in into:
        name, _, share = text.partition("=")
        try:
            found = float(share)
        except ValueError:
            raise CommandError(f"--into {text}: write SPLIT=SHARE, such as validation=0.1.", code=2) from None
        if shares.setdefault(name, found) != found:
            raise CommandError(f"--into {text}: {name} has the share {shares[name]:g} already.", code=2)
    with Client() as client, refusing():
        made = workflows.split(client, named(DatasetRef.parse, dataset), shares)
    view.show_made(made, as_json=as_json)


@app.command()
def diff(
    before: Annotated[str, typer.Argument(help="name@number, or a split of it.")],
    after: Annotated[str, typer.Argument(help="name@number, or a split of it.")],
    as_json: JsonFlag = False,
) -> None:
    """Compare two versions by the ids of their problems."""
    with Client() as client, refusing():
        found = workflows.difference(client, named(DatasetRef.parse, before), named(DatasetRef.parse, after))
    if as_json:
        print_json({name: asdict(one) for name, one in found.items()})
        return
    columns = ("split", "same", "added", "removed", "changed")
    counts = [(name, it.same, len(it.added), len(it.removed), len(it.changed)) for name, it in found.items()]
    print_table(columns, counts, right=columns[1:])
    for name, it in found.items():
        changed = [f"{id} ({', '.join(fields)})" for id, fields in it.changed.items()]
        for what, ids in (("added", it.added), ("removed", it.removed), ("changed", changed)):
            if ids:
                more = f" and {len(ids) - MOST_NAMED} more (--json names all)" if len(ids) > MOST_NAMED else ""
                say(f"{name}, {what}: {', '.join(ids[:MOST_NAMED])}{more}")


@app.command("download")
def download_data(
    dataset: Annotated[str, typer.Argument(help=DATASET)],
    to: Annotated[Path, typer.Option(help="Folder for its files.")] = Path(),
) -> None:
    """Download the files of a data set: parquet, one for each split; of task folders, the folders."""
    ref = named(DatasetRef.parse, dataset)
    with Client() as client:
        found = client.datasets.get(ref.name, ref.number)
        for split in found.splits:
            if ref.split not in ("", split.name):
                continue
            suffix = ".jsonl" if found.card.edition else "" if found.card.folders else ".parquet"
            file = to / f"{found.name}-{found.number}-{split.name}{suffix}"
            count = Count(f"downloading {split.name}", "KiB")
            try:
                to.mkdir(parents=True, exist_ok=True)
                with following(count) as changed, refusing():
                    take = task_sets.download if found.card.folders else download
                    take(client.datasets, found, split, file, _progress(count, changed))
            except OSError as error:
                raise CommandError(f"{file} cannot be written: {error.strerror}.") from error
            say(str(file))


@app.command("delete")
def delete_data(
    dataset: Annotated[str, typer.Argument(help="name@number.")],
    force: Annotated[bool, typer.Option("--force", help="Delete it even if runs or evaluations used it.")] = False,
) -> None:
    """Delete a version of a data set."""
    ref = named(DatasetRef.parse, dataset)
    if ref.number is None:
        raise CommandError(f"{dataset} is not a version of a data set: write {ref.name}@1.", code=2)
    with Client() as client:
        client.datasets.delete(ref.name, ref.number, force=force)
    say(f"{ref} is deleted.")


@app.command()
def fetch(
    name: Annotated[str, typer.Argument(help="A benchmark (ratchet benchmarks list), or one edition: mbpp+@v0.1.0.")],
    file: Annotated[Path | None, typer.Option("--from", help="A local file, in place of the public source.")] = None,
    unchecked: Annotated[
        bool, typer.Option("--unchecked", help="With --from: accept data with an unknown digest.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Download a benchmark's data, check their digest, keep them in RATCHET_DATA (~/.cache/ratchet/benchmarks), and
    bring them to the platform."""
    if unchecked and file is None:
        raise CommandError("--unchecked goes with --from: what comes over the network is always checked.", 2)
    try:
        found = _fetched(name, file, unchecked=unchecked, quiet=as_json)
    except RatchetError as error:
        raise CommandError(f"{error.message}.") from error
    benchmark, version = found.benchmark, found.edition.version
    card = pb.DatasetCard(source=found.origin[:200], licence=benchmark.licence, edition=version)
    brought, reason = None, ""
    try:
        with Client() as client:
            brought = _uploaded(client, benchmark.dataset, {"rows": found.folder / "rows.jsonl"}, card, quiet=as_json)
    except Unreachable as error:
        reason = str(error)
    if brought and brought.state == pb.Dataset.STATE_FAILED:
        raise CommandError(f"{benchmark.name} is here, but not on the platform: {brought.failure.message}.")
    if as_json:
        print_json(
            {
                "name": benchmark.name,
                "version": version,
                "digest": found.edition.digest,
                "licence": benchmark.licence,
                "rows": found.rows,
                "folder": str(found.folder),
                "origin": found.origin,
                "platform": view.version(brought) if brought else "",
            }
        )
        return
    first = folder.editions(benchmark)[0] == found.edition
    called = benchmark.name if first else f"{benchmark.name}@{version}"
    say(f"{called} is here: version {version}, {found.rows} rows, {benchmark.licence}.")
    if brought:
        say(f"The platform has it: ratchet evaluate --model NAME --benchmark {called}")
    else:
        say(f"No platform has it yet ({reason}): fetch it again once one runs elsewhere.")


def _fetched(name: str, file: Path | None, *, unchecked: bool, quiet: bool) -> Fetched:
    """Raises what `fetching` raises."""
    benchmark = ratchet_benchmarks.get(name)
    if file is not None:
        return fetching.take(benchmark, file.expanduser(), unchecked=unchecked)
    count = Count(f"fetching {benchmark.name}", "KiB")
    with following(count, quiet=quiet) as changed:
        version = name.partition("/")[0].partition("@")[2]
        return fetching.fetch(benchmark, version, _progress(count, changed))


def _mapping(given: Sequence[str]) -> Mapping[str, str]:
    pairs = [text.partition("=") for text in given]
    if wrong := next((text for text, (_, sign, column) in zip(given, pairs, strict=True) if not sign), ""):
        raise CommandError(f"--map {wrong}: write FIELD=COLUMN, such as prompt=question; language= reads none.", code=2)
    return {field: column for field, _, column in pairs}


def _converted(
    files: Mapping[str, Sequence[Path]], wanted: Mapping[str, str], kept: Path, *, quiet: bool
) -> tuple[Mapping[str, Path], bool]:
    """A table of each split, in our form, and whether they hold pairs. Raises CommandError for what cannot be read."""
    from ratchet_problems import mapping, pair_tables, tables  # pyarrow takes a while

    made: dict[str, Path] = {}
    of_pairs: dict[bool, str] = {}
    try:
        for split, paths in files.items():
            names = list(_names(chain.from_iterable(map(mapping.rows, paths))))
            if not names:
                raise InvalidArgument(f"{', '.join(path.name for path in paths)} holds no rows")
            are_pairs = pair_tables.are_pairs(names, wanted)
            of_pairs[are_pairs] = split
            columns = (pair_tables if are_pairs else mapping).columns(names, wanted)
            if not quiet:
                stderr.print(f"{split}: {columns}", markup=False, soft_wrap=True)
            made[split] = kept / f"{split}.parquet"
            count = Count(f"reading {split}", "pairs" if are_pairs else "problems")
            with following(count, quiet=quiet) as changed:
                if are_pairs:
                    pair_tables.write(_counted(pair_tables.mapped(paths, columns), count, changed), made[split])
                else:
                    problems = chain.from_iterable(mapping.problems(path, columns) for path in paths)
                    tables.write(_counted(problems, count, changed), made[split])
    except RatchetError as error:
        raise CommandError(f"{error.message}.") from error
    if len(of_pairs) > 1:
        raise CommandError(f"{of_pairs[True]} holds pairs, and {of_pairs[False]} problems: make two data sets.", code=2)
    return made, True in of_pairs


def _counted(rows: Iterable[T], count: Count, changed: Callable[[], None]) -> Iterator[T]:
    for number, row in enumerate(rows, 1):
        yield row
        if number % 1_000 == 0:
            count.update(number, 0)
            changed()


def _names(rows: Iterable[tuple[str, Mapping[str, object]]]) -> Iterable[str]:
    """The columns of the first rows."""
    for place, (_, row) in enumerate(rows):
        if place == 100:
            return
        yield from row


def _uploaded(
    client: Client, name: str, splits: Mapping[str, Path], card: pb.DatasetCard, *, quiet: bool
) -> pb.Dataset:
    """READY or FAILED."""
    count = Count(f"uploading {name}", "KiB")
    try:
        with following(count, quiet=quiet) as changed:
            made = upload(client.datasets, name, splits, card, _progress(count, changed))
    except (KeyboardInterrupt, Unreachable) as error:
        reason = f" ({error})" if str(error) else ""
        raise CommandError(f"The upload of {name} was broken off: the same command goes on with it{reason}.") from error
    if made.state == pb.Dataset.STATE_READY:
        return made
    examining = view.Examining(made)
    with following(examining, quiet=quiet, goes_on=f"{view.version(made)} is examined further.") as changed:

        def tell(dataset: pb.Dataset) -> None:
            examining.show(dataset)
            changed()

        return settled(client.datasets, made, tell)


def _progress(count: Count, changed: Callable[[], None]) -> fetching.Progress:
    def progress(done: int, total: int) -> None:
        count.update(done // KIB, total // KIB)
        changed()

    return progress
