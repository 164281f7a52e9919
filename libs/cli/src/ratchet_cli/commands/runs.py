"""`ratchet train` and `ratchet runs`: create training runs, look at them, follow, cancel and resume them."""

import difflib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, TypeVar

import typer
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from ratchet.common.v1 import problem_pb2
from ratchet.trainer.v1 import trainer_pb2
from ratchet_cli.commands import options, runtimes
from ratchet_cli.commands.options import PRIORITIES, DetachFlag, EnvironmentOption, Id, Limit, numbers_of_user, one_of
from ratchet_cli.commands.references import parse
from ratchet_cli.commands.rewards import REWARD, CombineOption, parsed
from ratchet_cli.commands.yaml_files import run_spec
from ratchet_cli.terminal.errors import CommandError
from ratchet_cli.terminal.output import JsonFlag, ago, print_fields, print_json, print_list, say, state_name
from ratchet_cli.views import record
from ratchet_cli.views import runs as view
from ratchet_cli.views.names import environment_name, model_name, version_name
from ratchet_client import Client
from ratchet_kit import refs
from ratchet_kit.names import Location

ALGORITHMS = {
    name.removeprefix("ALGORITHM_").lower(): number for name, number in trainer_pb2.Algorithm.items() if number
}
DEVICES = {"": trainer_pb2.DEVICE_UNSPECIFIED, "cpu": trainer_pb2.DEVICE_CPU, "cuda": trainer_pb2.DEVICE_CUDA}
PLUGINS = {
    name.removeprefix("PLUGIN_KIND_").lower(): number for name, number in trainer_pb2.PluginKind.items() if number
}
FORMS = {
    "": trainer_pb2.PROMPT_FORM_UNSPECIFIED,
    "chat": trainer_pb2.PROMPT_FORM_CHAT,
    "completion": trainer_pb2.PROMPT_FORM_COMPLETION,
}
M = TypeVar("M", bound=Message)

app = typer.Typer(help="Training runs.", no_args_is_help=True)


def train(
    context: typer.Context,
    model: Annotated[str, typer.Option(help="Base: name, name@version, name:alias or a folder.")] = "",
    file: Annotated[
        Path | None, typer.Option("--file", "-f", help="YAML that says all of the run, in place of other options.")
    ] = None,
    algorithm: Annotated[str, typer.Option(help=", ".join(ALGORITHMS))] = "grpo",
    problems: Annotated[
        str, typer.Option(help="Named set or JSONL file to train on; default: composed/train, or the --pairs.")
    ] = "",
    pairs: Annotated[str, typer.Option(help="JSONL file of pairs to train on (dpo, reward_model).")] = "",
    validation: Annotated[
        str, typer.Option(help="Problem set that chooses the best checkpoint; default: composed/validation.")
    ] = "",
    validation_pairs: Annotated[str, typer.Option(help="The same, a JSONL file of pairs (reward_model).")] = "",
    validation_limit: Annotated[int, typer.Option(help="At most this many validation problems; 0: all.")] = 0,
    reward: Annotated[str, typer.Option(help=f"{REWARD} Empty: the default of the algorithm.")] = "",
    combine: CombineOption = "",
    steps: Annotated[int, typer.Option(help="Optimizer steps.")] = 40,
    max_tokens: Annotated[
        int, typer.Option(help="Ends the run when it has trained on so many tokens; 0: by its steps only.", min=0)
    ] = 0,
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
    guard: Annotated[list[str], typer.Option(help="Threshold of a guard as key=value, 0: none; repeat for more.")] = [],  # noqa: B006
    verl: Annotated[list[str], typer.Option("--verl", help="verl setting as key=value; repeat for more.")] = [],  # noqa: B006
    logger: Annotated[list[str], typer.Option(help="What shows it: console, tensorboard, mlflow, wandb; repeat.")] = [],  # noqa: B006
    experiment: Annotated[str, typer.Option(help="MLflow's experiment, W&B's project; default: ratchet.")] = "",
    profile_steps: Annotated[str, typer.Option(help="Steps whose work is traced, such as 2,3 (RL).")] = "",
    forgeable_rewards: Annotated[
        bool, typer.Option(help="Take problems whose tests share the program's process: rewards can be forged.")
    ] = False,
    refuse_long_prompts: Annotated[
        bool, typer.Option(help="End the run at a problem that has no room, in place of leaving it out.")
    ] = False,
    plugin: Annotated[list[str], typer.Option(help=f"Your own {', '.join(PLUGINS)}: KIND=NAME; repeat for more.")] = [],  # noqa: B006
    form: Annotated[str, typer.Option(help="chat or completion; default: chat where the base has a template.")] = "",
    environment: EnvironmentOption = "",
    detach: DetachFlag = False,
    as_json: JsonFlag = False,
) -> None:
    """Train a model and follow it live. Interrupting stops the watching, not the run."""
    if file is not None:
        _require_no_others(context)
        _start(run_spec(file), detach, as_json)
        return
    if not model:
        raise CommandError("What is trained? Name it by --model, or give a file of the run: -f run.yaml.", code=2)
    base = parse(model)
    problems = problems or ("" if pairs else "composed/train")
    validation = validation or ("" if algorithm == "reward_model" else "composed/validation")
    with numbers_of_user():
        spec = trainer_pb2.RunSpec(
            display_name=name,
            base=refs.model_to_proto(base),
            algorithm=_algorithm(context, algorithm, plugin),
            problems=problem_pb2.ProblemSetRef(name=problems) if problems else None,
            pairs=problem_pb2.ProblemSetRef(name=pairs) if pairs else None,
            validation_problems=problem_pb2.ProblemSetRef(name=validation, limit=validation_limit or None)
            if validation
            else None,
            validation_pairs=problem_pb2.ProblemSetRef(name=validation_pairs) if validation_pairs else None,
            reward=parsed(reward, combine),
            steps=steps,
            max_tokens=max_tokens or None,
            validate_every=validate_every or None,
            checkpoint_every=checkpoint_every or None,
            resources=trainer_pb2.Resources(
                nodes=nodes,
                accelerators_per_node=accelerators_per_node,
                device=one_of(device, DEVICES, "--device"),
            ),
            seed=seed,
            hyperparameters=hyperparameters(hyper),
            thresholds=thresholds(guard),
            loggers=logger,
            experiment=experiment,
            profile_steps=_numbers(profile_steps),
            output_model=output or ("" if isinstance(base, Location) else base.model),
            priority=one_of(priority, PRIORITIES, "--priority"),
            verl_overrides=verl,
            forgeable_rewards=forgeable_rewards,
            refuse_long_prompts=refuse_long_prompts,
            plugins=plugins(plugin),
            prompt_form=one_of(form, FORMS, "--form"),
            environment=options.environment(environment),
        )
    _start(spec, detach, as_json)


def _numbers(text: str) -> list[int]:
    try:
        return [int(number) for number in text.split(",") if number.strip()]
    except ValueError as error:
        raise CommandError(f"--profile-steps {text}: these are numbers of steps, such as 2,3.", code=2) from error


def _require_no_others(context: typer.Context) -> None:
    """Raises CommandError for an option beside --file that says what is trained."""
    for option in context.command.params:
        given = context.get_parameter_source(option.name or "")
        if option.name not in ("file", "detach", "as_json") and given is not None and given.name != "DEFAULT":
            raise CommandError(f"{option.opts[0]}: a file says all of the run; write it there.", code=2)


def _start(spec: trainer_pb2.RunSpec, detach: bool, as_json: bool) -> None:
    runtimes.ensure_for([spec.problems.name, spec.validation_problems.name])
    with Client() as client:
        run = client.runs.create(spec)
        if detach:
            print_json(run) if as_json else say(run.id)
            return
        run = view.follow(client, run.id, quiet=as_json)
    if as_json:
        print_json(run)
    elif version := version_name(run.version):
        if run.spec.algorithm == trainer_pb2.ALGORITHM_REWARD_MODEL:
            say(f"Registered as {version}. Reward by it: {{name: preference, model: {version}}} in a run's reward")
        else:
            say(f"Registered as {version}. Measure it: ratchet evaluate --model {version}")
    view.raise_unless_succeeded(run)


def hyperparameters(pairs: Sequence[str]) -> trainer_pb2.Hyperparameters:
    """Raises CommandError for an unknown key or a value of the wrong kind."""
    return _filled(trainer_pb2.Hyperparameters(), pairs, "--set", "hyperparameter")


def thresholds(pairs: Sequence[str]) -> trainer_pb2.Thresholds:
    """Raises CommandError like `hyperparameters`."""
    return _filled(trainer_pb2.Thresholds(), pairs, "--guard", "threshold of a guard")


def plugins(pairs: Sequence[str]) -> list[trainer_pb2.Plugin]:
    """Raises CommandError for what is not KIND=NAME."""
    parts = [pair.partition("=") for pair in pairs]
    return [trainer_pb2.Plugin(kind=one_of(kind, PLUGINS, "--plugin"), name=name) for kind, _, name in parts]


def _algorithm(context: typer.Context, name: str, plugins: Sequence[str]) -> trainer_pb2.Algorithm.ValueType:
    """None where a plug-in stands for it, and no other is asked for."""
    given = context.get_parameter_source("algorithm")
    is_default = given is not None and given.name == "DEFAULT"
    if is_default and any(one.startswith("algorithm=") for one in plugins):
        return trainer_pb2.ALGORITHM_UNSPECIFIED
    return one_of(name, ALGORITHMS, "--algorithm")


def _filled(result: M, pairs: Sequence[str], option: str, kind: str) -> M:
    fields, said = result.DESCRIPTOR.fields_by_name, set[str]()
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if key in said:
            raise CommandError(f"{option} {pair}: {key} has a value already: say it once.", code=2)
        said.add(key)
        if not equals and key in fields:
            raise CommandError(f"{option} {pair}: say its value, as in {option} {pair}=VALUE.", code=2)
        if key not in fields:
            near = difflib.get_close_matches(key, fields, 1)
            hint = f" Did you mean {near[0]}?" if near else f" There are: {', '.join(fields)}."
            raise CommandError(f"{option} {pair}: '{key}' is no {kind}." + hint, code=2)
        if values := fields[key].enum_type:
            prefix = values.values[0].name.removesuffix("UNSPECIFIED")
            numbers = {value.name.removeprefix(prefix).lower(): value.number for value in values.values if value.number}
            setattr(result, key, one_of(text, numbers, f"{option} {key}"))
            continue
        try:
            setattr(result, key, _value(text, fields[key].cpp_type))
        except ValueError as error:
            kind = "true or false" if fields[key].cpp_type == FieldDescriptor.CPPTYPE_BOOL else "a number"
            raise CommandError(f"{option} {pair}: '{text}' is not {kind} that {key} can take.", code=2) from error
    return result


def _value(text: str, kind: int) -> bool | int | float:
    """Raises ValueError for what is none of its kind."""
    if kind == FieldDescriptor.CPPTYPE_BOOL:
        if text.lower() not in ("true", "false"):
            raise ValueError(text)
        return text.lower() == "true"
    return int(text) if kind == FieldDescriptor.CPPTYPE_INT32 else float(text)


@app.command("list")
def list_runs(limit: Limit = 50, as_json: JsonFlag = False) -> None:
    """Newest first."""
    algorithms = {value: name for name, value in ALGORITHMS.items()}
    with Client() as client:
        print_list(
            client.runs.list(),
            limit,
            as_json,
            {
                "id": lambda run: run.id,
                "algorithm": lambda run: algorithms.get(run.spec.algorithm, "?"),
                "state": state_name,
                "step": lambda run: f"{run.step}/{run.spec.steps}",
                "priority": view.priority,
                "result": lambda run: version_name(run.version) or run.failure.message or view.waits(run) or "-",
                "created": lambda run: ago(run.create_time),
            },
            breakable=("result",),
        )


@app.command("show")
def show_run(id: Id, as_json: JsonFlag = False) -> None:
    """One run, with its checkpoints."""
    with Client() as client:
        run, checkpoints = client.runs.get(id), list(client.runs.checkpoints(id))
    if as_json:
        print_json(run)
        return
    fields: list[tuple[str, object]] = [
        ("id", run.id),
        ("state", state_name(run) + (f": {run.failure.message}" if run.HasField("failure") else "")),
        ("now", view.activity(run) or "-"),
        ("step", f"{run.step} of {run.spec.steps}"),
        ("base", model_name(run.spec.base)),
        ("algorithm", view.algorithm(run.spec)),
        ("prompts", view.form(run.spec.prompt_form)),
        ("environment", " ".join(filter(None, (environment_name(run.spec.environment), run.spec.environment_digest)))),
        ("reward", view.reward(run.spec.reward) or "-"),
        ("tokens", view.tokens(run)),
        ("attempt", f"{run.attempt}" + (f", pre-empted {run.preemptions} times" if run.preemptions else "")),
        ("priority", view.priority(run)),
        ("memory", view.memory(run)),
        ("masked samples", run.platform_faults),
        ("result", version_name(run.version) or "-"),
    ]
    fields.extend(("plug-in", view.plugin(one)) for one in run.spec.plugins)
    if run.spec.HasField("curriculum"):
        fields.append(("curriculum", f"{run.spec.curriculum.exploration:.0%} of draws are even"))
        fields.extend(
            (f"stage {place}", view.stage(one)) for place, one in enumerate(run.spec.curriculum.stages, start=1)
        )
    fields.extend((f"checkpoint {one.step}", f"{one.uri}{view.score(one)}") for one in checkpoints)
    fields.extend((f"at step {notice.step}", notice.message) for notice in run.notices)
    print_fields(fields)


@app.command("config")
def show_config(
    id: Id, attempt: Annotated[int, typer.Option(help="Of this attempt; default: the last.", min=0)] = 0
) -> None:
    """The config that verl got, as YAML."""
    with Client() as client:
        say(record.config(client, id, attempt))


@app.command("files")
def list_files(id: Id, limit: Limit = 500, as_json: JsonFlag = False) -> None:
    """What a run has on record: configs, samples, traces of profiled steps."""
    with Client() as client:
        columns = {"name": lambda one: one.name, "bytes": lambda one: one.size_bytes}
        print_list(client.runs.files(id), limit, as_json, columns)


@app.command("download")
def download_files(
    id: Id,
    names: Annotated[list[str], typer.Argument(help="Names of files, or the begin of some, such as profile/.")],
    out: Annotated[Path, typer.Option(help="Folder for them.")] = Path(),
) -> None:
    """Files of the record, into a folder. Traces open in ui.perfetto.dev or chrome://tracing."""
    with Client() as client:
        for path in record.download(client, id, names, out):
            say(str(path))


@app.command("report")
def report_run(id: Id, out: Annotated[Path, typer.Option(help="The page, one HTML file.")] = Path("run.html")) -> None:
    """A run as one HTML page: curves, time and memory of steps, notices, spec, verl's config, samples."""
    from ratchet_cli.reports import training  # matplotlib: only for this command

    with Client() as client:
        made = training.gather(client, id)
    try:
        training.write(made, out)
    except OSError as error:
        raise CommandError(f"The report cannot be written: {error}.") from error
    say(str(out))


@app.command("watch")
def watch_run(id: Id) -> None:
    """Follow a run until it ends."""
    with Client() as client:
        view.raise_unless_succeeded(view.follow(client, id))


@app.command("cancel")
def cancel_run(id: Id, as_json: JsonFlag = False) -> None:
    """Stop a run; its checkpoints stay."""
    with Client() as client:
        run = client.runs.cancel(id)
    print_json(run) if as_json else say(f"{run.id} {state_name(run)}")


@app.command("resume")
def resume_run(id: Id, as_json: JsonFlag = False) -> None:
    """Take up a run that failed or was cancelled, at its last checkpoint."""
    with Client() as client:
        run = client.runs.resume(id)
    print_json(run) if as_json else say(f"{run.id} {state_name(run)}")


@app.command("delete")
def delete_run(id: Id) -> None:
    """Delete a run that has ended, with its steps, checkpoints and files. Versions that it registered stay."""
    with Client() as client:
        client.runs.delete(id)
    say(f"{id} is deleted.")
