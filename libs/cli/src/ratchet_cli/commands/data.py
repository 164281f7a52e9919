"""`ratchet data`: the data of public benchmarks, brought here once."""

from pathlib import Path
from typing import Annotated

import typer

import ratchet_benchmarks
from ratchet_benchmarks import BENCHMARKS, fetching, folder
from ratchet_cli.terminal.errors import CommandError
from ratchet_cli.terminal.following import Count, following
from ratchet_cli.terminal.output import JsonFlag, print_json, print_table, say
from ratchet_kit.errors import RatchetError

KIB = 1024

app = typer.Typer(help="Data of public benchmarks.", no_args_is_help=True)


@app.command()
def fetch(
    name: Annotated[str, typer.Argument(help="A benchmark (ratchet benchmarks list), or one edition: mbpp+@v0.1.0.")],
    file: Annotated[Path | None, typer.Option("--from", help="A local file, in place of the public source.")] = None,
    unchecked: Annotated[
        bool, typer.Option("--unchecked", help="With --from: accept data with an unknown digest.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Download a benchmark's data, check their digest and keep them in RATCHET_DATA (~/.cache/ratchet/benchmarks)."""
    if unchecked and file is None:
        raise CommandError("--unchecked goes with --from: what comes over the network is always checked.", 2)
    try:
        benchmark = ratchet_benchmarks.get(name)
        if file is not None:
            found = fetching.take(benchmark, file.expanduser(), unchecked=unchecked)
        else:
            count = Count(f"fetching {benchmark.name}", "KiB")
            with following(count, quiet=as_json) as changed:

                def progress(done: int, total: int) -> None:
                    count.update(done // KIB, total // KIB)
                    changed()

                version = name.partition("/")[0].partition("@")[2]
                found = fetching.fetch(benchmark, version, progress)
    except RatchetError as error:
        raise CommandError(f"{error.message}.") from error
    if as_json:
        print_json(
            {
                "name": benchmark.name,
                "version": found.edition.version,
                "digest": found.edition.digest,
                "licence": benchmark.licence,
                "rows": found.rows,
                "folder": str(found.folder),
                "origin": found.origin,
            }
        )
        return
    first = folder.editions(benchmark)[0] == found.edition
    called = benchmark.name if first else f"{benchmark.name}@{found.edition.version}"
    say(f"{called} is here: version {found.edition.version}, {found.rows} rows, {benchmark.licence}.")


@app.command("list")
def list_data(as_json: JsonFlag = False) -> None:
    """List the data on this machine, with their folders."""
    rows = [
        {
            "name": benchmark.name,
            "version": edition.version,
            "licence": benchmark.licence,
            "kib": sum(path.stat().st_size for path in at.iterdir()) // KIB,
            "digest": edition.digest[:12],
            "folder": str(at),
        }
        for benchmark in BENCHMARKS.values()
        for edition in folder.editions(benchmark)
        for at in [folder.of(benchmark, edition.version)]
    ]
    if as_json:
        print_json(rows)
    elif rows:
        print_table(list(rows[0]), [list(row.values()) for row in rows], breakable=("folder",), right=("kib",))
    else:
        say(f"Nothing is in {folder.root()}: ratchet data fetch NAME brings a benchmark of `ratchet benchmarks list`.")
