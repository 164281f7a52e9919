"""`ratchet matrix`: models x benchmarks x temperatures, each an evaluation; the same command again goes on."""

from typing import Annotated

import typer

from ratchet_cli.commands import runtimes
from ratchet_cli.terminal.output import JsonFlag, print_json
from ratchet_cli.views import matrix as view
from ratchet_cli.views.progress import Terminal
from ratchet_client import Client
from ratchet_workflows import matrices


def matrix(
    model: Annotated[list[str], typer.Option(help="name, name@version, name:alias or a folder; repeat.")],
    benchmark: Annotated[list[str], typer.Option(help="Problem set: a named one or a file; repeat.")],
    temperature: Annotated[list[float], typer.Option(help="0 is greedy, one sample a problem; repeat.")] = [0.0],  # noqa: B006
    base: Annotated[bool, typer.Option("--base", help="Also measure each model's base.")] = False,
    samples: Annotated[int, typer.Option(help="Completions per problem, above temperature 0.")] = 4,
    k: Annotated[list[int], typer.Option(help="pass@k, above temperature 0; repeat.")] = [1],  # noqa: B006
    limit: Annotated[int, typer.Option(help="Maximum number of problems per set; 0: all.")] = 0,
    max_tokens: Annotated[int, typer.Option(help="Maximum number of new tokens per completion.")] = 512,
    seed: Annotated[int, typer.Option(help="Seed of the sampling.")] = 0,
    name: Annotated[str, typer.Option(help="Name of the matrix; a new name measures the same cells again.")] = "",
    as_json: JsonFlag = False,
) -> None:
    """Measure models on benchmarks at temperatures, as one table. Exit code 1 when a cell has no score."""
    runtimes.ensure_for(benchmark)
    with Client() as client:
        found = matrices.matrix(
            client,
            model,
            benchmark,
            temperature,
            bases=base,
            samples=samples,
            k=k,
            limit=limit,
            max_tokens=max_tokens,
            seed=seed,
            name=name,
            progress=Terminal(quiet=as_json),
        )
    if as_json:
        print_json(found.to_json())
    else:
        view.show(found.cells, found.gains)
    if not found.is_whole:
        raise typer.Exit(1)
