"""Models x benchmarks x temperatures, each an evaluation; the same matrix again goes on."""

import hashlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ratchet.common.v1 import model_pb2, problem_pb2, statistics_pb2
from ratchet.eval.v1 import eval_pb2 as pb
from ratchet_client import ApiError, Client, Unreachable
from ratchet_client.calls import to_json
from ratchet_client.names import model_name, state_name
from ratchet_kit import refs
from ratchet_kit.names import Location
from ratchet_workflows.errors import UsageError, WorkflowError
from ratchet_workflows.following.pace import Pace
from ratchet_workflows.notation.references import parse, version_of
from ratchet_workflows.progress import SILENT, Progress

POLL_S = 2.0
PATIENCE_S = 60.0
"""So long nothing may answer."""
MOST_ATTEMPTS = 20
OLDEST = 10
"""How many models back a base is followed."""
GOES_ON = "The evaluations go on and can be followed again."
ENDED = {"SUCCEEDED", "FAILED", "CANCELLED"}


@dataclass(frozen=True, slots=True)
class Cell:
    """One model on one benchmark at one temperature, and what became of it."""

    model: str
    benchmark: str
    temperature: float
    evaluation: pb.Evaluation | None = None
    error: str = ""
    """Why it has no evaluation."""

    @property
    def state(self) -> str:
        """ "REFUSED" where there is no evaluation."""
        return state_name(self.evaluation) if self.evaluation else "REFUSED" if self.error else "QUEUED"

    @property
    def has_ended(self) -> bool:
        return self.state in ENDED or bool(self.error)

    @property
    def column(self) -> str:
        return f"{self.benchmark}, T {self.temperature:g}"

    @property
    def name(self) -> str:
        return f"{self.model} on {self.column}"

    @property
    def fault(self) -> str:
        """One sentence, where it has ended without a score."""
        if self.evaluation and self.state in ENDED - {"SUCCEEDED"}:
            return f"{self.state}: {self.evaluation.failure.message or self.evaluation.id}"
        return self.error

    def now(self, evaluation: pb.Evaluation) -> "Cell":
        return replace(self, evaluation=evaluation)

    def to_json(self) -> dict[str, Any]:
        found = {"model": self.model, "benchmark": self.benchmark, "temperature": self.temperature, "state": self.state}
        return found | ({"evaluation": to_json(self.evaluation)} if self.evaluation else {"error": self.error})


@dataclass(frozen=True, slots=True)
class Gain:
    """The gain of a model over one that it was trained from."""

    model: str
    over: str
    column: str
    comparison: statistics_pb2.Comparison | None
    error: str = ""

    def to_json(self) -> dict[str, Any]:
        found = {"model": self.model, "over": self.over, "of": self.column}
        return found | ({"comparison": to_json(self.comparison)} if self.comparison else {"error": self.error})


@dataclass(frozen=True, slots=True)
class Matrix:
    """The cells, all ended, and what models gained over what they were trained from."""

    cells: Sequence[Cell]
    gains: Sequence[Gain]

    @property
    def is_whole(self) -> bool:
        """Every cell has a score."""
        return not any(cell.fault for cell in self.cells)

    def to_json(self) -> dict[str, Any]:
        return {"cells": [cell.to_json() for cell in self.cells], "gains": [gain.to_json() for gain in self.gains]}


def matrix(
    client: Client,
    models: Sequence[str],
    benchmarks: Sequence[str],
    temperatures: Sequence[float] = (0.0,),
    *,
    bases: bool = False,
    samples: int = 4,
    k: Sequence[int] = (1,),
    limit: int = 0,
    max_tokens: int = 512,
    seed: int = 0,
    name: str = "",
    progress: Progress = SILENT,
) -> Matrix:
    """Measures each model on each benchmark at each temperature, and waits for all of them.

    `models`: name, name@version, name:alias or a folder. `bases`: also those that they were trained from. `samples` and
    `k`: above temperature 0. `limit`: problems of a set, at most; 0: all. The same cells under the same `name` are not
    measured again.

    A cell without a score is no error: it has a `fault`. Raises UsageError for a number that no field can hold, and
    Unreachable when nothing answers for a minute.
    """
    named = _models(client, models, bases)
    cells, ancestors = [], {}
    for shown, found in named.items():
        ancestors[shown] = found.ancestors
        for one in benchmarks:
            for heat in temperatures:
                cell = Cell(shown, one, heat, error=found.error)
                if found.ref:
                    spec = _spec(found.ref, one, heat, samples, k, limit, max_tokens, seed)
                    cell = _started(client, cell, spec, name)
                cells.append(cell)
    cells = _followed(client, cells, progress)
    return Matrix(cells, _gains(client, cells, ancestors))


class MatrixNews:
    """The news of the cells."""

    def __init__(self, cells: Sequence[Cell]) -> None:
        self.cells = list(cells)
        self._pace = {place: Pace() for place in range(len(cells))}
        self._said: set[int] = set()

    def news(self) -> list[str]:
        lines = []
        for place, cell in enumerate(self.cells):
            if cell.has_ended and place not in self._said:
                self._said.add(place)
                lines.append(f"{cell.name}: {score(cell) if cell.state == 'SUCCEEDED' else cell.fault}")
            elif cell.evaluation and not cell.has_ended:
                done, total = cell.evaluation.problems_done, cell.evaluation.problems_total
                if self._pace[place].is_due(done, total):
                    lines.append(f"{cell.name}: {done} of {total} problems")
        return lines


def rows(cells: Sequence[Cell]) -> Mapping[str, Mapping[str, Cell]]:
    """Model -> column -> cell."""
    found: dict[str, dict[str, Cell]] = {}
    for cell in cells:
        found.setdefault(cell.model, {})[cell.column] = cell
    return found


def score(cell: Cell) -> str:
    """Its pass@1 with the interval, or its state."""
    for row in cell.evaluation.pass_at_k if cell.evaluation else ():
        if row.k == 1:
            return f"{row.estimate.value:.3f} [{row.estimate.low:.3f}, {row.estimate.high:.3f}]"
    return cell.state


@dataclass(frozen=True, slots=True)
class _Model:
    """A model of the matrix: what to measure, or why it can't be."""

    ref: model_pb2.ModelRef | None
    ancestors: Sequence[str] = ()
    """The models that it was trained from, the nearest first."""
    error: str = ""


def _models(client: Client, texts: Sequence[str], base: bool) -> dict[str, _Model]:
    """By the names of rows. A name is fixed to its version here, so that the cells of a matrix are of one model."""
    found: dict[str, _Model] = {}
    for text in texts:
        try:
            named = parse(text)
            ref = refs.model_to_proto(named if isinstance(named, Location) else version_of(client, text))
            line = _line(client, ref) if base else []
        except (ApiError, WorkflowError) as error:
            found[text] = _Model(None, error=str(error))
            continue
        for place, one in enumerate([ref, *line]):
            older = [model_name(it) for it in line[place:]]
            found.setdefault(model_name(one), _Model(one, older))
    return found


def _line(client: Client, ref: model_pb2.ModelRef) -> list[model_pb2.ModelRef]:
    """The base of a model, the base of that, and so on."""
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
    try:
        return pb.EvaluationSpec(
            model=ref,
            problems=problem_pb2.ProblemSetRef(name=benchmark, limit=limit or None),
            samples_per_problem=samples if temperature else 1,
            k=k if temperature else (1,),
            temperature=temperature,
            max_tokens=max_tokens,
            seed=seed,
        )
    except ValueError as error:
        raise UsageError(f"A number is too large or too small: {error}.") from error


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


def _followed(client: Client, cells: list[Cell], progress: Progress) -> list[Cell]:
    """The cells when all have ended."""
    news = MatrixNews(cells)
    answered = time.monotonic()
    with progress.following(news, GOES_ON) as changed:
        changed()
        while open_cells := [place for place, cell in enumerate(news.cells) if not cell.has_ended]:
            for place in open_cells:
                cell = news.cells[place]
                assert cell.evaluation is not None
                try:
                    news.cells[place] = cell.now(client.evaluations.get(cell.evaluation.id))
                    answered = time.monotonic()
                except ApiError as error:
                    news.cells[place] = Cell(cell.model, cell.benchmark, cell.temperature, error=str(error))
                except Unreachable as error:
                    if time.monotonic() - answered > PATIENCE_S:
                        raise Unreachable(f"{error} {GOES_ON}") from error
                    break
            changed()
            if not all(cell.has_ended for cell in news.cells):
                time.sleep(POLL_S)
    return news.cells


def _gains(client: Client, cells: Sequence[Cell], ancestors: Mapping[str, Sequence[str]]) -> list[Gain]:
    """Each model against each of those that it was trained from, where both have a score."""
    table = rows(cells)
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
