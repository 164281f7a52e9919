"""`ratchet train` and `ratchet runs`: create training runs, look at them, follow, cancel and resume them."""

from pathlib import Path
from typing import Annotated

import typer

from ratchet.common.v1 import problem_pb2
from ratchet.trainer.v1 import trainer_pb2
from ratchet_cli.commands import options, runtimes
from ratchet_cli.commands.options import DetachFlag, Id, Limit, numbers_of_user, one_of
from ratchet_cli.commands.overrides import override
from ratchet_cli.commands.rewards import REWARD, parsed
from ratchet_cli.terminal.errors import CommandError
from ratchet_cli.terminal.output import (
    JsonFlag,
    SortOption,
    age,
    print_fields,
    print_json,
    print_list,
    print_table,
    say,
    stderr,
    when,
)
from ratchet_cli.views import runs as view
from ratchet_cli.views.models import follow_version
from ratchet_cli.views.progress import Terminal
from ratchet_client import Client
from ratchet_client.names import environment_name, examples_name, model_name, state_name, version_name
from ratchet_kit import refs
from ratchet_kit.names import Location
from ratchet_reports import run_files, run_words, usage_words
from ratchet_workflows.following import runs as following
from ratchet_workflows.notation.references import parse
from ratchet_workflows.notation.yaml_files import run_spec

ALGORITHMS = {
    name.removeprefix("ALGORITHM_").lower(): number for name, number in trainer_pb2.Algorithm.items() if number
}

app = typer.Typer(help="Training runs.", no_args_is_help=True)


def train(
    context: typer.Context,
    model: Annotated[str, typer.Option(help="Base: name, name@version, name:alias or a folder.")] = "",
    file: Annotated[
        Path | None, typer.Option("--file", "-f", help="YAML file with the whole run; --set changes single fields.")
    ] = None,
    algorithm: Annotated[str, typer.Option(help=", ".join(ALGORITHMS))] = "grpo",
    problems: Annotated[
        str, typer.Option(help="Data set, named set or JSONL file to train on; default: composed/train, or the pairs.")
    ] = "",
    validation: Annotated[
        str,
        typer.Option(help="Set that chooses the best checkpoint; default: the problems' validation split."),
    ] = "",
    reward: Annotated[str, typer.Option(help=f"{REWARD} Empty: the algorithm's default.")] = "",
    steps: Annotated[int, typer.Option(help="Optimizer steps.")] = 40,
    nodes: Annotated[int, typer.Option(help="Machines.")] = 1,
    accelerators_per_node: Annotated[int, typer.Option(help="Training ranks on each machine.")] = 1,
    budget: Annotated[
        float | None,
        typer.Option(help="Cost after which the run ends, in the currency of the operator's prices (RATCHET_PRICES)."),
    ] = None,
    fields: Annotated[
        list[str],
        typer.Option("--set", help="Any other field of a run, or hyperparameter, as KEY=VALUE; repeat for more."),
    ] = [],  # noqa: B006
    files: options.HarnessFiles = None,
    detach: DetachFlag = False,
    as_json: JsonFlag = False,
    command: Annotated[
        list[str] | None,
        typer.Argument(help="After --: a command that works on task folders; with environment=tools an MCP server."),
    ] = None,
) -> None:
    """Train a model and follow it live. Interrupting stops the watching, not the run."""
    if file is not None:
        _require_no_others(context)
        spec = run_spec(file)
        override(spec, fields)
        _start(spec, detach, as_json)
        return
    if not model:
        raise CommandError("No model: give --model, or a file of the run: -f run.yaml.", code=2)
    base = parse(model)
    with numbers_of_user():
        spec = trainer_pb2.RunSpec(
            base=refs.model_to_proto(base),
            problems=problem_pb2.ProblemSetRef(name=problems) if problems else None,
            reward=parsed(reward),
            steps=steps,
            resources=trainer_pb2.Resources(nodes=nodes, accelerators_per_node=accelerators_per_node),
            output_model="" if isinstance(base, Location) else base.model,
            budget=budget,
        )
    override(spec, fields)
    player = options.player(command, files, spec.environment)
    if command and player:
        spec.environment.CopyFrom(player)
    _complete(context, spec, algorithm, validation)
    _start(spec, detach, as_json)


def _complete(context: typer.Context, spec: trainer_pb2.RunSpec, algorithm: str, validation: str) -> None:
    """With the defaults that rest on other fields."""
    given = context.get_parameter_source("algorithm")
    is_default = given is not None and given.name == "DEFAULT"
    has_plugin = any(one.kind == trainer_pb2.PLUGIN_KIND_ALGORITHM for one in spec.plugins)
    if not spec.algorithm and not (is_default and has_plugin):
        spec.algorithm = one_of(algorithm, ALGORITHMS, "--algorithm")
    if not spec.problems.name and not spec.HasField("pairs"):
        spec.problems.name = "composed/train"
    if validation and not spec.validation_problems.name:
        spec.validation_problems.name = validation


def _require_no_others(context: typer.Context) -> None:
    """Raises CommandError for an option beside --file that says what is trained."""
    for option in context.command.params:
        given = context.get_parameter_source(option.name or "")
        if option.name not in ("file", "fields", "detach", "as_json") and given is not None and given.name != "DEFAULT":
            raise CommandError(f"{option.opts[0]}: a file says all of the run; write it there.", code=2)


def _start(spec: trainer_pb2.RunSpec, detach: bool, as_json: bool) -> None:
    suite = [one.problems.name for one in spec.validate.suite]
    runtimes.ensure_for([spec.problems.name, spec.validation_problems.name, *suite])
    with Client() as client:
        run = client.runs.create(spec)
        if detach:
            print_json(run) if as_json else say(run.id)
            return
        if not as_json and run.spec.validation_problems.name:
            stderr.print(f"Checkpoints are compared on {run.spec.validation_problems.name}.", markup=False)
        run = following.follow(client, run.id, Terminal(quiet=as_json))
    if as_json:
        print_json(run)
    elif version := version_name(run.version):
        if said := run_words.learned_nothing(run):
            say(f"Registered as {version}, labelled learned=nothing: {said}.")
        elif run.spec.algorithm == trainer_pb2.ALGORITHM_REWARD_MODEL:
            say(f"Registered as {version}. Reward by it: {{name: preference, model: {version}}} in a run's reward")
        else:
            say(f"Registered as {version}. Measure it: ratchet evaluate --model {version}")
    following.raise_unless_succeeded(run)


@app.command("list")
def list_runs(
    state: options.StateOption = "",
    model: Annotated[str, typer.Option(help="Only runs that start from a version of it, or make one.")] = "",
    name: Annotated[str, typer.Option(help="Only runs whose name contains this.")] = "",
    since: options.SinceOption = "",
    sort: SortOption = "",
    limit: Limit = 50,
    as_json: JsonFlag = False,
) -> None:
    """List runs, newest first."""
    wanted = {"state": options.state(state, trainer_pb2.Run), "since": options.since(since)}
    with Client() as client:
        print_list(
            client.runs.list(**wanted, model=model, name=name),
            limit,
            as_json,
            {
                "id": lambda run: run.id,
                "name": lambda run: run.spec.display_name or "-",
                "base": lambda run: model_name(run.spec.base),
                "age": lambda run: age(run.create_time),
                "state": view.summary,
            },
            clipped=("name", "base", "state"),
            sort=sort,
        )


@app.command("show")
def show_run(id: Id, as_json: JsonFlag = False) -> None:
    """Show a run with its checkpoints and curves."""
    with Client() as client:
        run, checkpoints = client.runs.get(id), list(client.runs.checkpoints(id))
        steps = [] if as_json else list(client.runs.steps(id))
    if as_json:
        print_json(run)
        return
    fields: list[tuple[str, object]] = [
        ("id", run.id),
        ("name", run.spec.display_name or "-"),
        ("state", state_name(run) + (f": {run.failure.message}" if run.HasField("failure") else "")),
        ("now", run_words.activity(run) or "-"),
        ("step", f"{run.step} of {run.spec.steps}"),
        ("created", when(run.create_time) + (f" by {run.actor}" if run.actor else "")),
        ("started", when(run.start_time)),
        ("ended", when(run.end_time)),
        ("base", model_name(run.spec.base)),
        ("parent", run_words.parent(run.spec) or "-"),
        ("algorithm", run_words.algorithm(run.spec)),
        *view.learned(run.spec),
        ("prompts", run_words.form(run.spec.prompt_form)),
        ("system", run.spec.system or "-"),
        ("examples", examples_name(run.spec.examples) or "-"),
        ("chat template", "the run's own" if run.spec.chat_template else "the base's"),
        ("environment", " ".join(filter(None, (environment_name(run.spec.environment), run.spec.environment_digest)))),
        ("reward", run_words.reward(run.spec.reward) or "-"),
        ("tokens", run_words.tokens(run)),
        ("used", usage_words.used(run.usage) or "-"),
        ("waited", usage_words.waiting(run.usage) or "-"),
        ("cost", run_words.cost(run) or usage_words.UNPRICED),
        ("attempt", f"{run.attempt}" + (f", pre-empted {run.preemptions} times" if run.preemptions else "")),
        ("priority", run_words.priority(run)),
        ("memory", run_words.memory(run)),
        ("masked samples", run.platform_faults),
        ("result", version_name(run.version) or "-"),
    ]
    fields.extend(view.hyperparameters(run.spec))
    fields.extend(("plug-in", run_words.plugin(one)) for one in run.spec.plugins)
    if run.spec.HasField("curriculum"):
        fields.append(("curriculum", f"{run.spec.curriculum.exploration:.0%} of draws are even"))
        fields.extend(
            (f"stage {place}", run_words.stage(one)) for place, one in enumerate(run.spec.curriculum.stages, start=1)
        )
    fields.extend(
        (
            f"checkpoint {one.step}",
            f"{one.uri}{run_words.score(one)}{run_words.evaluation(one)}".strip()
            + (", the best" if one.step == run.best_checkpoint.step else ""),
        )
        for one in checkpoints
    )
    fields.extend((f"at step {notice.step}", notice.message) for notice in run.notices)
    print_fields(fields)
    if rows := view.curves(steps):
        print_table(("", "first", "last", ""), rows)


@app.command("config")
def show_config(id: Id, attempt: Annotated[int, typer.Option(help="Attempt; default: the last.", min=0)] = 0) -> None:
    """Print the config that verl got, as YAML."""
    with Client() as client:
        say(run_files.config(client, id, attempt))


@app.command("files")
def list_files(id: Id, limit: Limit = 500, as_json: JsonFlag = False) -> None:
    """List a run's files: configs, traces of profiled steps."""
    with Client() as client:
        columns = {"name": lambda one: one.name, "bytes": lambda one: one.size_bytes}
        print_list(client.runs.files(id), limit, as_json, columns)


@app.command("download")
def download_files(
    id: Id,
    names: Annotated[list[str], typer.Argument(help="Names of files, or beginnings of names, such as profile/.")],
    out: Annotated[Path, typer.Option(help="Folder for them.")] = Path(),
) -> None:
    """Download a run's files into a folder. Traces open in ui.perfetto.dev or chrome://tracing."""
    with Client() as client:
        for path in run_files.download(client, id, names, out):
            say(str(path))


@app.command("report")
def report_run(id: Id, out: Annotated[Path, typer.Option(help="File of the page, HTML.")] = Path("run.html")) -> None:
    """Write a run as one HTML page: curves, time and memory of steps, notices, spec, verl's config, samples."""
    from ratchet_reports import training  # matplotlib: only for this command

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
        following.raise_unless_succeeded(following.follow(client, id, Terminal()))


@app.command("cancel")
def cancel_run(id: Id, as_json: JsonFlag = False) -> None:
    """Cancel a run; its checkpoints stay."""
    with Client() as client:
        run = client.runs.cancel(id)
    print_json(run) if as_json else say(f"{run.id} {state_name(run)}")


@app.command("resume")
def resume_run(
    id: Id,
    step: Annotated[
        int | None,
        typer.Option("--from", help="Step with a model: a new run goes on from it, with a new optimizer.", min=1),
    ] = None,
    fields: Annotated[
        list[str], typer.Option("--set", help="With --from: a field of the new run, as KEY=VALUE; repeat for more.")
    ] = [],  # noqa: B006
    as_json: JsonFlag = False,
) -> None:
    """Resume a failed or cancelled run from its last checkpoint; or start a new run from one of a run's steps."""
    if step is None and fields:
        raise CommandError("--set: it needs --from STEP, since a run goes on as it was made.", code=2)
    with Client() as client:
        if step is None:
            run = client.runs.resume(id)
        else:
            spec = view.continued(client.runs.get(id).spec, id, step)
            override(spec, fields)
            run = client.runs.create(spec)
    print_json(run) if as_json else say(f"{run.id} {state_name(run)}")


@app.command("export")
def export_run(
    id: Id,
    step: Annotated[int, typer.Option(help="Step with a model: ratchet runs show.", min=1)],
    model: Annotated[str, typer.Option(help="Registry model. Empty: the run's output_model.")] = "",
    detach: DetachFlag = False,
    as_json: JsonFlag = False,
) -> None:
    """Register the model of one of a run's steps as a version, with the run's lineage."""
    with Client() as client:
        ref = client.runs.export(id, step, model)
        version = client.models.version(ref.model, ref.number)
        if not detach:
            version = follow_version(client, version, quiet=as_json)
    print_json(version) if as_json else say(f"{version_name(version.ref)}  {version.policy_id}".rstrip())


@app.command("delete")
def delete_run(id: Id) -> None:
    """Delete a run that has ended, with its steps, checkpoints and files. Versions that it registered stay."""
    with Client() as client:
        client.runs.delete(id)
    say(f"{id} is deleted.")
