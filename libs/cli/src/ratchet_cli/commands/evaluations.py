"""`ratchet evaluate` and `ratchet evaluations`: measure versions."""

import hashlib
from typing import Annotated

import typer

from ratchet.eval.v1 import eval_pb2
from ratchet_cli.commands import importing, options, runtimes, schedule
from ratchet_cli.commands.options import DetachFlag, Id, numbers_of_user, one_of
from ratchet_cli.terminal.errors import CommandError
from ratchet_cli.terminal.output import JsonFlag, SortOption, age, print_json, print_list, say, stderr
from ratchet_cli.views import evaluations as view
from ratchet_cli.views.progress import Terminal
from ratchet_client import Client
from ratchet_client.names import measured_name, state_name
from ratchet_reports.gather import set_names
from ratchet_workflows.following import evaluations as following
from ratchet_workflows.notation import suites
from ratchet_workflows.notation.references import model_ref

Benchmark = Annotated[str, typer.Option(help="Problem set: a named one or a JSONL file.")]
Samples = Annotated[int, typer.Option(help="Completions per problem.")]
Limit = Annotated[int, typer.Option(help="Maximum number of problems; 0: all.")]
Temperature = Annotated[float, typer.Option(help="0 is greedy.")]
MaxTokens = Annotated[int, typer.Option(help="Maximum number of new tokens per completion.")]
Seed = Annotated[int, typer.Option(help="Seed of the sampling.")]
Form = Annotated[str, typer.Option(help="chat or completion; default: chat where the model has a template.")]
Shots = Annotated[int, typer.Option(help="Solved examples before the problem; -1: the benchmark's own number.")]
System = Annotated[str, typer.Option(help="System message before prompts that have none of their own.")]

FORMS = {
    "": eval_pb2.Prompting.FORM_UNSPECIFIED,
    "chat": eval_pb2.Prompting.FORM_CHAT,
    "completion": eval_pb2.Prompting.FORM_COMPLETION,
}

app = typer.Typer(help="Evaluations.", no_args_is_help=True)


def evaluate(
    model: Annotated[str, typer.Option(help="name, name@version, name:alias or a folder.")] = "",
    benchmark: Annotated[
        list[str], typer.Option(help="Problem set: a named one or a file; repeat, with =WEIGHT for a suite.")
    ] = ["composed/test"],  # noqa: B006
    samples: Annotated[str, typer.Option(help="Completions per problem; or a file of samples to judge.")] = "4",
    k: Annotated[list[int], typer.Option(help="pass@k to report; repeat.")] = [1],  # noqa: B006
    limit: Limit = 0,
    temperature: Temperature = 1.0,
    max_tokens: MaxTokens = 256,
    seed: Seed = 0,
    form: Form = "",
    shots: Shots = -1,
    system: System = "",
    chat_template: options.TemplateOption = "",
    judge: options.JudgeOption = "",
    examples: options.ExamplesOption = "",
    exclude_unsound: Annotated[
        bool, typer.Option(help="Leave out problems whose reference fails here, instead of ending.")
    ] = False,
    environment: options.EnvironmentOption = "",
    name: Annotated[str, typer.Option(help="Name of the evaluation, for people.")] = "",
    files: options.HarnessFiles = None,
    budget: Annotated[
        float | None,
        typer.Option(help="Cost after which it ends, in the currency of the operator's prices (RATCHET_PRICES)."),
    ] = None,
    every: Annotated[
        str, typer.Option(help="Measure once in each period (30m, 6h, 1d), until interrupted.", metavar="PERIOD")
    ] = "",
    detach: DetachFlag = False,
    as_json: JsonFlag = False,
    command: Annotated[
        list[str] | None,
        typer.Argument(help="After --: a command that works on task folders; with --environment tools an MCP server."),
    ] = None,
) -> None:
    """Measure a model on problem sets: pass@k with 95 % intervals. Or judge samples made elsewhere:
    ratchet evaluate --samples samples.jsonl --benchmark humaneval+"""
    player = options.player(command, files, options.environment(environment))
    period = schedule.period_of(every) if every else 0
    imported = None if samples.isdigit() else importing.FileOfSamples.look(samples)
    if bool(imported) == bool(model):
        raise CommandError("Give either --model or a file by --samples, not both.", code=2)
    if imported and every:
        raise CommandError("--every needs --model: imported samples are judged only once.", code=2)
    with numbers_of_user():
        spec = eval_pb2.EvaluationSpec(
            model=model_ref(model) if model else None,
            samples_per_problem=imported.most if imported else int(samples),
            imported_samples=imported.count if imported else 0,
            k=k,
            temperature=temperature,
            max_tokens=max_tokens,
            seed=seed,
            prompting=eval_pb2.Prompting(form=one_of(form, FORMS, "--form"), shots=None if shots < 0 else shots),
            exclude_unsound=exclude_unsound,
            environment=player,
            system=system,
            chat_template=options.template(chat_template),
            judge=options.judge(judge),
            examples=options.examples(examples),
            display_name=name,
            budget=budget,
            **suites.sets_of(benchmark, limit),
        )
    runtimes.ensure_for(suites.names_of(benchmark))
    with Client() as client:

        def measure(request_id: str = "") -> None:
            evaluation = client.evaluations.create(spec, request_id)
            if model and evaluation.state == eval_pb2.Evaluation.STATE_QUEUED:
                stderr.print(view.forecast(evaluation), markup=False, soft_wrap=True)
            for notice in evaluation.notices:
                stderr.print(f"{notice}.", markup=False, soft_wrap=True)
            if imported:
                imported.add_to(client, evaluation.id, quiet=as_json)
            if detach:
                print_json(evaluation) if as_json else say(evaluation.id)
                return
            evaluation = following.follow(client, evaluation.id, model or samples, Terminal(quiet=as_json))
            if as_json:
                print_json(evaluation)
            following.raise_unless_succeeded(evaluation)
            if not as_json:
                view.show_result(evaluation)
                if imported and imported.is_judged:
                    importing.show_agreement(client, evaluation, imported)

        if every:
            # Under one request id, so that a period has one evaluation, however many run this command or how often.
            key = hashlib.sha256(spec.SerializeToString(deterministic=True)).hexdigest()[:32]
            schedule.repeat(period, lambda turn: measure(f"every-{every}-{key}-{turn}"))
        else:
            measure()


@app.command("list")
def list_evaluations(
    model: Annotated[str, typer.Option(help="Only evaluations of this model's versions.")] = "",
    benchmark: Annotated[str, typer.Option(help="Only evaluations of this set.")] = "",
    name: Annotated[str, typer.Option(help="Only evaluations whose name contains this.")] = "",
    state: options.StateOption = "",
    since: options.SinceOption = "",
    sort: SortOption = "",
    limit: options.Limit = 50,
    as_json: JsonFlag = False,
) -> None:
    """List evaluations, newest first."""
    wanted = {"state": options.state(state, eval_pb2.Evaluation), "since": options.since(since)}
    with Client() as client:
        print_list(
            client.evaluations.list(model, benchmark, **wanted, name=name),
            limit,
            as_json,
            {
                "id": lambda it: it.id,
                "name": lambda it: it.spec.display_name or "-",
                "model": measured_name,
                "problems": set_names,
                "age": lambda it: age(it.create_time),
                "pass@1": lambda it: next((f"{row.estimate.value:.3f}" for row in it.pass_at_k if row.k == 1), "-"),
                "state": lambda it: state_name(it) + (f": {it.failure.message}" if it.failure.message else ""),
            },
            clipped=("name", "model", "problems", "state"),
            sort=sort,
        )


@app.command("show")
def show_evaluation(id: Id, as_json: JsonFlag = False) -> None:
    """Show an evaluation with its intervals and verdicts."""
    with Client() as client:
        evaluation = client.evaluations.get(id)
    if as_json:
        print_json(evaluation)
        return
    view.show_facts(evaluation)
    view.show_result(evaluation)


@app.command("cancel")
def cancel_evaluation(id: Id, as_json: JsonFlag = False) -> None:
    """Cancel an evaluation; samples measured so far stay."""
    with Client() as client:
        evaluation = client.evaluations.cancel(id)
    print_json(evaluation) if as_json else say(f"{evaluation.id} {state_name(evaluation)}")


@app.command("delete")
def delete_evaluation(id: Id) -> None:
    """Delete an evaluation that has ended, with its samples."""
    with Client() as client:
        client.evaluations.delete(id)
    say(f"{id} is deleted.")
