"""`ratchet matrix`: models x benchmarks x temperatures, each an evaluation; the same command again goes on."""

import hashlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import typer

from ratchet.common.v1 import model_pb2, problem_pb2
from ratchet.eval.v1 import eval_pb2 as pb
from ratchet_cli.commands import runtimes
from ratchet_cli.commands.options import numbers_of_user
from ratchet_cli.terminal.errors import CommandError
from ratchet_cli.terminal.following import following
from ratchet_cli.terminal.output import JsonFlag, print_json
from ratchet_cli.views import matrix as view
from ratchet_cli.views.matrix import Cell, Gain, MatrixView
from ratchet_client import ApiError, Client, Unreachable
from ratchet_client.names import model_name
from ratchet_kit import refs
from ratchet_kit.names import Location
from ratchet_workflows.notation.references import parse, version_of

POLL_S = 2.0
PATIENCE_S = 60.0
"""So long nothing may answer."""
MOST_ATTEMPTS = 20
OLDEST = 10
"""So many models back does --base follow."""
GOES_ON = "The evaluations go on; the same command follows them again."


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
        named = _models(client, model, base)
        cells, ancestors = [], {}
        for shown, found in named.items():
            ancestors[shown] = found.ancestors
            for one in benchmark:
                for heat in temperature:
                    cell = Cell(shown, one, heat, error=found.error)
                    if found.ref:
                        spec = _spec(found.ref, one, heat, samples, k, limit, max_tokens, seed)
                        cell = _started(client, cell, spec, name)
                    cells.append(cell)
        cells = _followed(client, cells, quiet=as_json)
        gains = _gains(client, cells, ancestors)
    if as_json:
        print_json({"cells": [cell.to_json() for cell in cells], "gains": [gain.to_json() for gain in gains]})
    else:
        view.show(cells, gains)
    if any(cell.fault for cell in cells):
        raise typer.Exit(1)


@dataclass(frozen=True, slots=True)
class _Model:
    """A model of the matrix: what to measure, or why it can't be."""

    ref: model_pb2.ModelRef | None
    ancestors: Sequence[str] = ()
    """What it was trained from, the nearest first."""
    error: str = ""


def _models(client: Client, texts: Sequence[str], base: bool) -> dict[str, _Model]:
    """By the names of rows. A name is fixed to its version here, so that the cells of a matrix are of one model."""
    found: dict[str, _Model] = {}
    for text in texts:
        try:
            named = parse(text)
            ref = refs.model_to_proto(named if isinstance(named, Location) else version_of(client, text))
            line = _line(client, ref) if base else []
        except (ApiError, CommandError) as error:
            found[text] = _Model(None, error=str(error))
            continue
        for place, one in enumerate([ref, *line]):
            older = [model_name(it) for it in line[place:]]
            found.setdefault(model_name(one), _Model(one, older))
    return found


def _line(client: Client, ref: model_pb2.ModelRef) -> list[model_pb2.ModelRef]:
    """What a model was trained from, what that was trained from, and so on."""
    line: list[model_pb2.ModelRef] = []
    while ref.WhichOneof("ref") == "version" and len(line) < OLDEST:
        lineage = client.models.version(ref.version.model, ref.version.number).lineage
        if not lineage.base.WhichOneof("ref"):
            break
        ref = lineage.base
        if ref.WhichOneof("ref") in ("model", "alias"):
            ref = refs.model_to_proto(version_of(client, model_name(ref)))
        line.append(ref)
    return line


def _spec(
    ref: model_pb2.ModelRef,
    benchmark: str,
    temperature: float,
    samples: int,
    k: Sequence[int],
    limit: int,
    max_tokens: int,
    seed: int,
) -> pb.EvaluationSpec:
    with numbers_of_user():
        return pb.EvaluationSpec(
            model=ref,
            problems=problem_pb2.ProblemSetRef(name=benchmark, limit=limit or None),
            samples_per_problem=samples if temperature else 1,
            k=k if temperature else (1,),
            temperature=temperature,
            max_tokens=max_tokens,
            seed=seed,
        )


def _started(client: Client, cell: Cell, spec: pb.EvaluationSpec, name: str) -> Cell:
    """The evaluation of this cell that goes on or has succeeded, of whichever command; else a new one."""
    key = hashlib.sha256(name.encode() + b"\0" + spec.SerializeToString(deterministic=True)).hexdigest()[:32]
    for attempt in range(MOST_ATTEMPTS):
        try:
            cell = cell.now(client.evaluations.create(spec, request_id=f"matrix-{key}-{attempt}"))
        except ApiError as error:
            return Cell(cell.model, cell.benchmark, cell.temperature, error=str(error))
        if cell.state not in ("FAILED", "CANCELLED"):
            break
    return cell


def _followed(client: Client, cells: list[Cell], *, quiet: bool) -> list[Cell]:
    """The cells when all have ended."""
    shown = MatrixView(cells)
    answered = time.monotonic()
    with following(shown, quiet=quiet, goes_on=GOES_ON) as changed:
        changed()
        while open_cells := [place for place, cell in enumerate(shown.cells) if not cell.has_ended]:
            for place in open_cells:
                cell = shown.cells[place]
                assert cell.evaluation is not None
                try:
                    shown.cells[place] = cell.now(client.evaluations.get(cell.evaluation.id))
                    answered = time.monotonic()
                except ApiError as error:
                    shown.cells[place] = Cell(cell.model, cell.benchmark, cell.temperature, error=str(error))
                except Unreachable as error:
                    if time.monotonic() - answered > PATIENCE_S:
                        raise Unreachable(f"{error} {GOES_ON}") from error
                    break
            changed()
            if not all(cell.has_ended for cell in shown.cells):
                time.sleep(POLL_S)
    return shown.cells


def _gains(client: Client, cells: Sequence[Cell], ancestors: Mapping[str, Sequence[str]]) -> list[Gain]:
    """Each model against each of those that it was trained from, where both have a score."""
    table = view.rows(cells)
    gains = []
    for cell in cells:
        for older in ancestors.get(cell.model, ()):
            other = table[older][cell.column]
            if cell.state != "SUCCEEDED" or other.state != "SUCCEEDED":
                continue
            assert cell.evaluation is not None
            assert other.evaluation is not None
            try:
                found = client.evaluations.compare(other.evaluation.id, cell.evaluation.id)
                gains.append(Gain(cell.model, older, cell.column, found))
            except ApiError as error:
                gains.append(Gain(cell.model, older, cell.column, None, str(error)))
    return gains
