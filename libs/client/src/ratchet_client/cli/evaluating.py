"""`ratchet evaluate` and `ratchet gate`: measure a version, and decide whether it may replace the champion."""

from collections.abc import Sequence
from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from ratchet.common.v1 import common_pb2
from ratchet.eval.v1 import eval_pb2
from ratchet.registry.v1 import registry_pb2
from ratchet_client.cli.output import JsonFlag, print_json, print_table, state_name, stderr, stdout
from ratchet_client.cli.references import ModelVersion, champion, model_ref, version_of
from ratchet_client.client import Client
from ratchet_client.errors import CommandError

Benchmark = Annotated[str, typer.Option(help="Problem set: a named one or a JSONL file.")]
Samples = Annotated[int, typer.Option(help="Completions a problem.")]
Limit = Annotated[int, typer.Option(help="At most this many problems; 0: all.")]
Temperature = Annotated[float, typer.Option(help="0 is greedy.")]
MaxTokens = Annotated[int, typer.Option(help="New tokens a completion at most.")]
Seed = Annotated[int, typer.Option(help="Seed of the sampling.")]


def add_to(app: typer.Typer) -> None:
    app.command()(evaluate)
    app.command()(gate)


def evaluate(
    model: Annotated[str, typer.Option(help="name, name@version, name:alias or a folder.")],
    benchmark: Benchmark = "composed/test",
    samples: Samples = 4,
    k: Annotated[list[int], typer.Option(help="pass@k to report; repeat.")] = [1],  # noqa: B006
    limit: Limit = 0,
    temperature: Temperature = 1.0,
    max_tokens: MaxTokens = 256,
    seed: Seed = 0,
    detach: Annotated[bool, typer.Option("--detach", "-d", help="Print the evaluation's id and return.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Measure a model on a problem set: pass@k with 95 % intervals."""
    spec = evaluation_spec(model_ref(model), benchmark, samples, limit, temperature, max_tokens, seed, k)
    with Client() as client:
        evaluation = client.evaluations.create(spec)
        if detach:
            print_json(evaluation) if as_json else stdout.print(evaluation.id, highlight=False)
            return
        evaluation = follow(client, evaluation.id, model, quiet=as_json)
    if as_json:
        print_json(evaluation)
    else:
        show_result(evaluation)
    raise_unless_succeeded(evaluation)


def gate(
    model: Annotated[str, typer.Option(help="The candidate, name@version.")],
    benchmark: Benchmark = "composed/test",
    samples: Samples = 4,
    limit: Limit = 0,
    temperature: Temperature = 1.0,
    max_tokens: MaxTokens = 256,
    seed: Seed = 0,
    min_difference: Annotated[float, typer.Option(help="The interval's lower end must be above this.")] = 0.0,
    as_json: JsonFlag = False,
) -> None:
    """Measure a candidate and the champion on the same problems and decide. Exit code 1 when it does not pass."""
    with Client() as client:
        candidate = version_of(client, model)
        number = champion(client, candidate.model)
        if not number:
            raise CommandError(f"{candidate.model} has no champion yet: ratchet models promote {candidate}")
        evaluations = []
        for version in (ModelVersion(candidate.model, number), candidate):
            ref = common_pb2.ModelRef(version=str(version))
            spec = evaluation_spec(ref, benchmark, samples, limit, temperature, max_tokens, seed)
            evaluation = follow(client, client.evaluations.create(spec).id, str(version), quiet=as_json)
            raise_unless_succeeded(evaluation)
            evaluations.append(evaluation)
        decision = client.models.create_gate(
            registry_pb2.CreateGateRequest(
                model=candidate.model,
                candidate_version=candidate.number,
                champion_evaluation=evaluations[0].id,
                candidate_evaluation=evaluations[1].id,
                min_difference=min_difference,
            )
        )
    if as_json:
        print_json(decision)
    else:
        colour = "green" if decision.passed else "red"
        stdout.print(f"[{colour}]{'passed' if decision.passed else 'not passed'}[/]  {decision.id}  {decision.reason}")
    if not decision.passed:
        raise typer.Exit(1)


def evaluation_spec(
    ref: common_pb2.ModelRef,
    benchmark: str,
    samples: int,
    limit: int,
    temperature: float,
    max_tokens: int,
    seed: int,
    k: Sequence[int] = (1,),
) -> eval_pb2.EvaluationSpec:
    return eval_pb2.EvaluationSpec(
        model=ref,
        problems=common_pb2.ProblemSetRef(name=benchmark, limit=limit),
        samples_per_problem=samples,
        k=k,
        temperature=temperature,
        max_tokens=max_tokens,
        seed=seed,
    )


def follow(client: Client, evaluation_id: str, what: str, *, quiet: bool = False) -> eval_pb2.Evaluation:
    """Shows an evaluation until it has ended, and returns it as it ended."""
    evaluation = eval_pb2.Evaluation(id=evaluation_id)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=stderr, disable=quiet) as progress:
        task = progress.add_task(f"evaluating {what}", total=None)
        for evaluation in client.evaluations.watch(evaluation_id):
            total = evaluation.problems_total or None
            progress.update(task, completed=evaluation.problems_done, total=total)
    return evaluation


def show_result(evaluation: eval_pb2.Evaluation) -> None:
    rows = [
        (f"pass@{row.k}", f"{row.estimate.value:.3f}", f"{row.estimate.low:.3f} to {row.estimate.high:.3f}")
        for row in evaluation.pass_at_k
    ]
    print_table(("", "value", "95 % interval"), rows)
    counts = ", ".join(f"{name} {count}" for name, count in sorted(evaluation.verdicts.items(), key=lambda i: -i[1]))
    stdout.print(f"{evaluation.id}: {evaluation.problems_done} problems; {counts}", highlight=False)


def raise_unless_succeeded(evaluation: eval_pb2.Evaluation) -> None:
    if evaluation.state != eval_pb2.Evaluation.STATE_SUCCEEDED:
        raise CommandError(
            f"Evaluation {evaluation.id} ended {state_name(evaluation)}: {evaluation.error or 'see ratchet logs eval'}"
        )
