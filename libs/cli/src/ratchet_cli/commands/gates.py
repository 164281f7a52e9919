"""`ratchet gate`: measure a candidate and the champion, and decide by what was measured."""

from collections.abc import Sequence
from typing import Annotated

import typer
from rich.text import Text

from ratchet.eval.v1 import eval_pb2
from ratchet.registry.v1 import registry_pb2 as pb
from ratchet_cli.commands import options, runtimes
from ratchet_cli.commands.evaluations import (
    FORMS,
    Form,
    Limit,
    MaxTokens,
    Samples,
    Seed,
    Shots,
    System,
    Temperature,
)
from ratchet_cli.commands.options import numbers_of_user, one_of
from ratchet_cli.terminal.errors import CommandError
from ratchet_cli.terminal.output import JsonFlag, print_json, say, stdout
from ratchet_cli.views.progress import Terminal
from ratchet_client import Client
from ratchet_kit import refs
from ratchet_workflows.following import evaluations as following
from ratchet_workflows.following.gates import cost, decided, out_of_bounds, passed
from ratchet_workflows.notation.references import champion, version_of
from ratchet_workflows.notation.suites import names_of, sets_of


def gate(
    model: Annotated[str, typer.Option(help="The candidate, name@version.")],
    benchmark: Annotated[
        list[str], typer.Option(help="Set that must show the gain; repeat, with =WEIGHT, for a weighted score.")
    ] = ["composed/test"],  # noqa: B006
    guard: Annotated[list[str], typer.Option(help="SET:LOSS, a set and its maximum loss: mbpp:0.02; repeat.")] = [],  # noqa: B006
    target: Annotated[str, typer.Option(help="The one of several sets that must show the gain.")] = "",
    samples: Samples = 4,
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
    min_difference: Annotated[float, typer.Option(help="The interval's lower end must be above this.")] = 0.0,
    max_unsolved: Annotated[
        int,
        typer.Option(
            help="Maximum number of problems always solved by the champion and never by the candidate; -1: no limit."
        ),
    ] = -1,
    max_tampered_share: Annotated[
        float, typer.Option(help="Maximum share of samples that tamper with tests; -1: no limit.")
    ] = -1,
    as_json: JsonFlag = False,
) -> None:
    """Measure a candidate and the champion on the same problems and decide. Exit code 1 when it does not pass."""
    guards = [_guard(text) for text in guard]
    measured = [*benchmark, *_unnamed(benchmark, guards)]
    sets = sets_of(measured, limit)
    with numbers_of_user():
        rules = pb.GateRules(
            target=target or _target(benchmark, sets),
            guards=guards,
            max_unsolved=None if max_unsolved < 0 else max_unsolved,
            max_tampered_share=None if max_tampered_share < 0 else max_tampered_share,
        )
        spec = eval_pb2.EvaluationSpec(
            samples_per_problem=samples,
            k=[1],
            temperature=temperature,
            max_tokens=max_tokens,
            seed=seed,
            prompting=eval_pb2.Prompting(form=one_of(form, FORMS, "--form"), shots=None if shots < 0 else shots),
            system=system,
            chat_template=options.template(chat_template),
            judge=options.judge(judge),
            examples=options.examples(examples),
            **sets,
        )
    if said := out_of_bounds(min_difference):
        raise CommandError(f"--min-difference {said}.", code=2)
    runtimes.ensure_for(names_of(measured))
    with Client() as client:
        decision = _decide(client, model, spec, min_difference, rules, quiet=as_json)
        price = "" if as_json else cost(client, decision)
    if as_json:
        print_json(decision)
    else:
        word = Text("passed", "green") if passed(decision) else Text("not passed", "red")
        stdout.print(Text("  ").join([word, Text(decision.id), Text(decision.reason)]))
        if price:
            say(f"Cost: {price}.")
    if not passed(decision):
        raise typer.Exit(1)


def _decide(
    client: Client,
    model: str,
    spec: eval_pb2.EvaluationSpec,
    min_difference: float,
    rules: pb.GateRules,
    *,
    quiet: bool,
) -> pb.Gate:
    candidate = version_of(client, model)
    baseline = champion(client, candidate.model)
    if not baseline:
        raise CommandError(f"{candidate.model} has no champion yet: ratchet models promote {candidate}")
    ids = []
    for version in (baseline, candidate):
        spec.model.CopyFrom(refs.model_to_proto(version))
        made = client.evaluations.create(spec, for_gate=True)
        evaluation = following.follow(client, made.id, str(version), Terminal(quiet=quiet))
        following.raise_unless_succeeded(evaluation)
        ids.append(evaluation.id)
    pending = client.models.create_gate(
        refs.version_to_proto(candidate), ids[1], ids[0], min_difference=min_difference, rules=rules
    )
    return decided(client, pending)


def _guard(text: str) -> pb.Guard:
    name, _, loss = text.rpartition(":")
    try:
        return pb.Guard(problems=name, max_loss=float(loss))
    except ValueError as error:
        raise CommandError(f"--guard {text}: write SET:LOSS, such as mbpp:0.02.", code=2) from error


def _unnamed(benchmarks: Sequence[str], guards: Sequence[pb.Guard]) -> list[str]:
    """The sets that are guarded and not measured otherwise."""
    names = names_of(benchmarks)
    return [guard.problems for guard in guards if guard.problems not in names]


def _target(benchmarks: Sequence[str], sets: dict[str, object]) -> str:
    """The only benchmark, where guards are measured beside it: the gain must show there and not on the guards, too."""
    return names_of(benchmarks)[0] if len(benchmarks) == 1 and "suite" in sets else ""
