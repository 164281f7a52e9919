"""`ratchet evaluations trend`: how a model came along, version by version."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from ratchet.common.v1 import statistics_pb2
from ratchet.eval.v1 import eval_pb2 as pb
from ratchet_cli.commands.options import Name
from ratchet_cli.terminal.errors import CommandError
from ratchet_cli.terminal.output import JsonFlag, ago, print_json, print_table
from ratchet_client import ApiError, Client
from ratchet_client.calls import to_json


@dataclass(frozen=True, slots=True)
class Point:
    """A version's newest evaluation on a set."""

    number: int
    evaluation: pb.Evaluation
    score: statistics_pb2.Estimate
    """pass@1."""
    change: statistics_pb2.Comparison | None = None
    """From the version before it in the list; None for the first, and where the two cannot be compared."""


def trend(
    model: Name,
    benchmark: Annotated[str, typer.Option(help="Problem set.")] = "composed/test",
    as_json: JsonFlag = False,
) -> None:
    """Show each version's newest score on a set, and what changed from the one before, paired."""
    with Client() as client:
        points = _compared(client, benchmark, _newest(client, model, benchmark))
    if not points:
        raise CommandError(f"No version of {model} was measured on {benchmark}: ratchet evaluate --model {model}@1")
    if as_json:
        print_json([_plain(point) for point in points])
        return
    print_table(
        ("version", "pass@1", "95 % interval", "change", "95 % interval", "p", "evaluation", "made"),
        [
            (
                point.number,
                f"{point.score.value:.3f}",
                f"{point.score.low:.3f} to {point.score.high:.3f}",
                *_shown(point.change),
                point.evaluation.id,
                ago(point.evaluation.create_time),
            )
            for point in points
        ],
    )


def _newest(client: Client, model: str, benchmark: str) -> Mapping[int, pb.Evaluation]:
    """By version number. What was named by an alias is known by its weights."""
    numbers = {version.policy_id: version.ref.number for version in client.models.versions(model)}
    newest: dict[int, pb.Evaluation] = {}
    for evaluation in client.evaluations.list(model=model, problems=benchmark):
        number = evaluation.spec.model.version.number or numbers.get(evaluation.policy_id, 0)
        if number and evaluation.state == pb.Evaluation.STATE_SUCCEEDED:
            newest.setdefault(number, evaluation)
    return newest


def _compared(client: Client, benchmark: str, newest: Mapping[int, pb.Evaluation]) -> list[Point]:
    points: list[Point] = []
    for number, evaluation in sorted(newest.items()):
        score = _score(evaluation, benchmark)
        if score is not None:
            change = _change(client, points[-1].evaluation.id, evaluation.id, benchmark) if points else None
            points.append(Point(number, evaluation, score, change))
    return points


def _score(evaluation: pb.Evaluation, benchmark: str) -> statistics_pb2.Estimate | None:
    for one in evaluation.benchmarks:
        if one.problems.name == benchmark:
            return next((row.estimate for row in one.pass_at_k if row.k == 1), None)
    return None


def _change(client: Client, before: str, after: str, benchmark: str) -> statistics_pb2.Comparison | None:
    try:
        reply = client.evaluations.compare_sets(before, after)
    except ApiError as error:
        if error.code == "FAILED_PRECONDITION":  # other problems, or sampled otherwise
            return None
        raise
    return next((one.comparison for one in reply.benchmarks if one.name == benchmark), None)


def _shown(change: statistics_pb2.Comparison | None) -> tuple[str, str, str]:
    if change is None:
        return "-", "-", "-"
    difference = change.difference
    return f"{difference.value:+.3f}", f"{difference.low:+.3f} to {difference.high:+.3f}", f"{change.p_value:.2g}"


def _plain(point: Point) -> dict[str, Any]:
    return {
        "version": point.number,
        "evaluation_id": point.evaluation.id,
        "pass_at_1": to_json(point.score),
        "change": to_json(point.change) if point.change else None,
    }
