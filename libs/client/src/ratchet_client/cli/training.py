"""`ratchet train`: create a training run and follow it."""

import difflib
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from rich.live import Live
from rich.table import Table

from ratchet.common.v1 import common_pb2
from ratchet.trainer.v1 import trainer_pb2
from ratchet_client.cli.output import JsonFlag, print_json, sparkline, state_name, stderr, stdout
from ratchet_client.cli.references import model_ref
from ratchet_client.client import Client
from ratchet_client.errors import CommandError

ALGORITHMS = {
    "sft": trainer_pb2.ALGORITHM_SFT,
    "grpo": trainer_pb2.ALGORITHM_GRPO,
    "ppo": trainer_pb2.ALGORITHM_PPO,
    "rloo": trainer_pb2.ALGORITHM_RLOO,
    "dapo": trainer_pb2.ALGORITHM_DAPO,
    "reinforce++": trainer_pb2.ALGORITHM_REINFORCE_PLUS_PLUS,
}
PRIORITIES = {
    "low": trainer_pb2.PRIORITY_LOW,
    "normal": trainer_pb2.PRIORITY_NORMAL,
    "high": trainer_pb2.PRIORITY_HIGH,
}


def add_to(app: typer.Typer) -> None:
    app.command()(train)


def train(
    model: Annotated[str, typer.Option(help="Base: name, name@version, name:alias or a folder.")],
    algorithm: Annotated[str, typer.Option(help=", ".join(ALGORITHMS))] = "grpo",
    problems: Annotated[str, typer.Option(help="Named set or JSONL file to train on.")] = "composed/train",
    validation: Annotated[
        str, typer.Option(help="Problem set that chooses the best checkpoint.")
    ] = "composed/validation",
    validation_limit: Annotated[int, typer.Option(help="At most this many validation problems; 0: all.")] = 0,
    reward: Annotated[str, typer.Option(help="tests_passed (default) or tests_fraction; none for SFT.")] = "",
    steps: Annotated[int, typer.Option(help="Optimizer steps.")] = 40,
    validate_every: Annotated[int, typer.Option(help="Steps between validations; 0: at the end only.")] = 0,
    checkpoint_every: Annotated[int, typer.Option(help="Steps between checkpoints; 0: with each validation.")] = 0,
    nodes: Annotated[int, typer.Option(help="Machines.")] = 1,
    accelerators_per_node: Annotated[int, typer.Option(help="Training ranks on each machine.")] = 1,
    device: Annotated[str, typer.Option(help="cpu or cuda; empty: the platform's default.")] = "",
    output: Annotated[
        str, typer.Option(help="Registry model that receives the result; default: the base's model.")
    ] = "",
    name: Annotated[str, typer.Option(help="A name for people.")] = "",
    seed: Annotated[int, typer.Option(help="Seed of data order, sampling and initial values.")] = 0,
    priority: Annotated[str, typer.Option(help="low, normal or high.")] = "normal",
    hyper: Annotated[list[str], typer.Option("--set", help="Hyperparameter as key=value; repeat for more.")] = [],  # noqa: B006
    verl: Annotated[list[str], typer.Option("--verl", help="verl setting as key=value (Hydra); repeat.")] = [],  # noqa: B006
    logger: Annotated[list[str], typer.Option(help="verl logger: console, tensorboard, mlflow, wandb; repeat.")] = [],  # noqa: B006
    detach: Annotated[bool, typer.Option("--detach", "-d", help="Print the run's id and return.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Train a model and follow it live. Interrupting stops the watching, not the run."""
    base = model_ref(model)
    spec = trainer_pb2.RunSpec(
        display_name=name,
        base=base,
        algorithm=_one_of(algorithm, ALGORITHMS, "--algorithm"),
        problems=common_pb2.ProblemSetRef(name=problems),
        validation_problems=common_pb2.ProblemSetRef(name=validation, limit=validation_limit),
        reward=trainer_pb2.RewardSpec(name=reward or ("" if algorithm == "sft" else "tests_passed")),
        steps=steps,
        validate_every=validate_every,
        checkpoint_every=checkpoint_every,
        resources=trainer_pb2.Resources(nodes=nodes, accelerators_per_node=accelerators_per_node, device=device),
        seed=seed,
        hyperparameters=hyperparameters(hyper),
        loggers=logger,
        output_model=output or _model_name(base),
        priority=_one_of(priority, PRIORITIES, "--priority"),
        verl_overrides=verl,
    )
    with Client() as client:
        run = client.runs.create(spec)
        if detach:
            print_json(run) if as_json else stdout.print(run.id, highlight=False)
            return
        run = follow(client, run.id, quiet=as_json)
        if as_json:
            print_json(run)
        elif run.version:
            stdout.print(f"Registered as [bold]{run.version}[/]. Measure it: ratchet evaluate --model {run.version}")
    raise_unless_succeeded(run)


def hyperparameters(pairs: Sequence[str]) -> trainer_pb2.Hyperparameters:
    """Raises CommandError for an unknown key or a value of the wrong kind."""
    result = trainer_pb2.Hyperparameters()
    fields = result.DESCRIPTOR.fields_by_name
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or key not in fields:
            near = difflib.get_close_matches(key, fields, 1)
            hint = f" Did you mean {near[0]}?" if near else f" There are: {', '.join(fields)}."
            raise CommandError(f"--set {pair}: '{key}' is no hyperparameter." + hint, code=2)
        try:
            number = int(text) if fields[key].cpp_type == fields[key].CPPTYPE_INT32 else float(text)
            setattr(result, key, number)
        except ValueError as error:
            raise CommandError(f"--set {pair}: '{text}' is not a number that {key} can take.", code=2) from error
    return result


def _one_of(text: str, choices: dict[str, Any], option: str) -> Any:
    if text not in choices:
        raise CommandError(f"{option} {text}: choose one of {', '.join(choices)}.", code=2)
    return choices[text]


def _model_name(base: common_pb2.ModelRef) -> str:
    return (base.version.split("@")[0] or base.alias.split(":")[0]) if not base.path else ""


def follow(client: Client, run_id: str, *, quiet: bool = False) -> trainer_pb2.Run:
    """Shows a run until it has ended, and returns it as it ended."""
    steps: list[trainer_pb2.Step] = []
    run = trainer_pb2.Run(id=run_id)
    with Live(console=stderr, refresh_per_second=4, transient=False, auto_refresh=not quiet) as live:
        for message in client.runs.watch(run_id):
            run = message.run
            steps.extend(message.steps)
            if not quiet:
                live.update(_panel(run, steps))
    return run if run.spec.steps else client.runs.get(run_id)


def _panel(run: trainer_pb2.Run, steps: Sequence[trainer_pb2.Step]) -> Table:
    latest: dict[int, trainer_pb2.Step] = {step.number: step for step in steps}
    ordered = [latest[number] for number in sorted(latest)]
    table = Table.grid(padding=(0, 2))
    table.add_row("run", f"{run.id}  {state_name(run)}" + (f"  attempt {run.attempt}" if run.attempt > 1 else ""))
    table.add_row("step", f"{run.step} of {run.spec.steps}")
    rewards = [step.metrics["reward_mean"] for step in ordered if "reward_mean" in step.metrics]
    if rewards:
        table.add_row("reward", f"{sparkline(rewards)}  {rewards[-1]:.3f}")
    losses = [step.metrics["loss"] for step in ordered if "loss" in step.metrics and not rewards]
    if losses:
        table.add_row("loss", f"{sparkline(losses, min(losses), max(losses))}  {losses[-1]:.3f}")
    scores = [(step.number, step.metrics["validation_score"]) for step in ordered if "validation_score" in step.metrics]
    if scores:
        table.add_row("validation", "  ".join(f"{number}: {score:.3f}" for number, score in scores[-6:]))
    if ordered:
        metrics = ordered[-1].metrics
        shown = ("kl", "entropy", "clip_fraction", "grad_norm", "logprob_diff_mean", "time_step_s")
        table.add_row("", "  ".join(f"{key} {metrics[key]:.3g}" for key in shown if key in metrics))
    if run.platform_faults:
        table.add_row("masked", f"{run.platform_faults} samples that the platform failed")
    if run.error:
        table.add_row("error", run.error)
    return table


def raise_unless_succeeded(run: trainer_pb2.Run) -> None:
    if run.state != trainer_pb2.Run.STATE_SUCCEEDED:
        raise CommandError(f"Run {run.id} ended {state_name(run)}: {run.error or 'see ratchet logs trainer'}")
