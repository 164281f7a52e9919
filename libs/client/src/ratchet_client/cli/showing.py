"""`ratchet runs`, `evaluations`, `models`, `releases`: look at resources, and the small changes to them."""

from typing import Annotated

import typer

from ratchet_client.cli import evaluating, releasing, training
from ratchet_client.cli.output import JsonFlag, ago, print_json, print_messages, print_table, state_name, stdout
from ratchet_client.cli.references import model_ref, version_of
from ratchet_client.client import Client
from ratchet_client.errors import CommandError

runs = typer.Typer(help="Training runs.", no_args_is_help=True)
evaluations = typer.Typer(help="Evaluations.", no_args_is_help=True)
models = typer.Typer(help="Models, versions and aliases.", no_args_is_help=True)
releases = typer.Typer(help="Releases.", no_args_is_help=True)

Id = Annotated[str, typer.Argument(help="Id of the resource.")]
Name = Annotated[str, typer.Argument(help="Model.")]


def add_to(app: typer.Typer) -> None:
    for name, group in (("runs", runs), ("evaluations", evaluations), ("models", models), ("releases", releases)):
        app.add_typer(group, name=name)


@runs.command("list")
def list_runs(as_json: JsonFlag = False) -> None:
    """Newest first."""
    with Client() as client:
        found = client.runs.list()
    if as_json:
        print_messages(found)
        return
    algorithms = {value: name for name, value in training.ALGORITHMS.items()}
    print_table(
        ("id", "algorithm", "state", "step", "result", "created"),
        [
            (
                run.id,
                algorithms.get(run.spec.algorithm, "?"),
                state_name(run),
                f"{run.step}/{run.spec.steps}",
                run.version or run.error or "-",
                ago(run.create_time),
            )
            for run in found
        ],
    )


@runs.command("show")
def show_run(id: Id, as_json: JsonFlag = False) -> None:
    """One run, with its checkpoints."""
    with Client() as client:
        run, checkpoints = client.runs.get(id), client.runs.checkpoints(id)
    if as_json:
        print_json(run)
        return
    print_table(
        ("", ""),
        [
            ("state", state_name(run) + (f": {run.error}" if run.error else "")),
            ("step", f"{run.step} of {run.spec.steps}"),
            ("attempt", run.attempt),
            ("masked samples", run.platform_faults),
            ("result", run.version or "-"),
            *(
                (
                    f"checkpoint {c.step}",
                    f"{c.uri}  {c.validation_score:.3f}" if c.HasField("validation_score") else c.uri,
                )
                for c in checkpoints
            ),
        ],
    )


@runs.command("watch")
def watch_run(id: Id) -> None:
    """Follow a run until it ends."""
    with Client() as client:
        training.raise_unless_succeeded(training.follow(client, id))


@runs.command("cancel")
def cancel_run(id: Id, as_json: JsonFlag = False) -> None:
    """Stop a run; its checkpoints stay."""
    with Client() as client:
        run = client.runs.cancel(id)
    print_json(run) if as_json else stdout.print(f"{run.id} {state_name(run)}", highlight=False)


@evaluations.command("list")
def list_evaluations(as_json: JsonFlag = False) -> None:
    """Newest first."""
    with Client() as client:
        found = client.evaluations.list()
    if as_json:
        print_messages(found)
        return
    print_table(
        ("id", "model", "problems", "state", "pass@1", "created"),
        [
            (
                e.id,
                e.spec.model.version or e.spec.model.alias or e.spec.model.path,
                e.spec.problems.name,
                state_name(e),
                next((f"{p.estimate.value:.3f}" for p in e.pass_at_k if p.k == 1), "-"),
                ago(e.create_time),
            )
            for e in found
        ],
    )


@evaluations.command("show")
def show_evaluation(id: Id, as_json: JsonFlag = False) -> None:
    """One evaluation with its intervals and verdicts."""
    with Client() as client:
        evaluation = client.evaluations.get(id)
    print_json(evaluation) if as_json else evaluating.show_result(evaluation)


@evaluations.command("cancel")
def cancel_evaluation(id: Id) -> None:
    """Stop an evaluation; what it measured so far stays."""
    with Client() as client:
        stdout.print(state_name(client.evaluations.cancel(id)), highlight=False)


@models.command("list")
def list_models(as_json: JsonFlag = False) -> None:
    """All models with their aliases."""
    with Client() as client:
        found = client.models.list()
    if as_json:
        print_messages(found)
        return
    print_table(
        ("model", "versions", "aliases", "created"),
        [
            (
                m.name,
                m.latest_version,
                ", ".join(f"{a} -> {n}" for a, n in sorted(m.aliases.items())),
                ago(m.create_time),
            )
            for m in found
        ],
    )


@models.command("show")
def show_model(name: Name, as_json: JsonFlag = False) -> None:
    """A model's versions, where they come from, and who was champion when."""
    with Client() as client:
        model, versions, history = (
            client.models.get(name),
            client.models.versions(name),
            client.models.alias_history(name),
        )
    if as_json:
        print_json(model)
        return
    names: dict[int, list[str]] = {}
    for alias, number in model.aliases.items():
        names.setdefault(number, []).append(alias)
    print_table(
        ("version", "aliases", "base", "run", "step", "MiB", "policy", "created"),
        [
            (
                v.number,
                ", ".join(names.get(v.number, [])) or "-",
                v.lineage.base or "-",
                v.lineage.run_id or "-",
                v.lineage.step or "-",
                f"{v.size_bytes / 2**20:.1f}",
                v.policy_id[7:19],
                ago(v.create_time),
            )
            for v in versions
        ],
    )
    for change in history:
        before = change.from_version or "none"
        stdout.print(
            f"{change.alias}: {before} -> {change.to_version}, {ago(change.time)}: {change.reason}", highlight=False
        )


@models.command("add")
def add_model(
    name: Name, folder: Annotated[str, typer.Argument(help="Folder or URL.")], as_json: JsonFlag = False
) -> None:
    """Register a folder of weights as the next version of a model."""
    ref = model_ref(folder if "/" in folder else f"./{folder}")
    with Client() as client:
        version = client.models.create_version(name, ref.path)
    print_json(version) if as_json else stdout.print(
        f"{version.model}@{version.number}  {version.policy_id}", highlight=False
    )


@models.command("promote")
def promote(
    model: Annotated[str, typer.Argument(help="name@version")],
    alias: Annotated[str, typer.Option(help="The alias that shall point there.")] = "champion",
    gate: Annotated[str, typer.Option(help="Id of the passed gate, for champion.")] = "",
    reason: Annotated[str, typer.Option(help="Why, for the history.")] = "",
) -> None:
    """Point an alias at a version. A champion needs a passed gate, unless it is the first."""
    with Client() as client:
        version = version_of(client, model)
        client.models.set_alias(version.model, alias, version.number, reason=reason, gate_id=gate)
    stdout.print(f"{version.model}:{alias} -> {version.number}", highlight=False)


@releases.command("list")
def list_releases(
    model: Annotated[str, typer.Option(help="Only of this model.")] = "", as_json: JsonFlag = False
) -> None:
    """Newest first."""
    with Client() as client:
        found = client.releases.list(model)
    if as_json:
        print_messages(found)
        return
    print_table(
        ("id", "candidate", "baseline", "state", "traffic", "created"),
        [
            (
                r.id,
                f"{r.spec.model}@{r.spec.candidate}",
                r.baseline,
                state_name(r),
                f"{r.percent} %",
                ago(r.create_time),
            )
            for r in found
        ],
    )


@releases.command("show")
def show_release(id: Id, as_json: JsonFlag = False) -> None:
    """One release with its stages."""
    with Client() as client:
        release = client.releases.get(id)
    if as_json:
        print_json(release)
        return
    stdout.print(releasing.panel(release))
    for event in release.events:
        stdout.print(f"{event.time.ToDatetime():%H:%M:%S}  {event.percent:3d} %  {event.reason}", highlight=False)


@releases.command("watch")
def watch_release(id: Id) -> None:
    """Follow a release until it ends."""
    with Client() as client:
        releasing.raise_unless_succeeded(releasing.follow(client, id))


@releases.command("rollback")
def rollback(id: Id, reason: Annotated[str, typer.Option(help="Why, for the history.")] = "asked for") -> None:
    """All traffic back to the baseline, now."""
    with Client() as client:
        release = client.releases.rollback(id, reason)
    if release.percent:
        raise CommandError(f"Release {id} still sends {release.percent} % to the candidate.")
    stdout.print(f"{release.id} {state_name(release)}", highlight=False)
