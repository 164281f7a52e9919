"""`ratchet models`: models, their versions, and who is champion."""

from typing import Annotated

import typer

from ratchet_cli.commands.options import Limit, Name
from ratchet_cli.commands.references import model_ref, version_of
from ratchet_cli.terminal.output import JsonFlag, ago, print_json, print_list, print_table, say
from ratchet_client import Client

app = typer.Typer(help="Models, versions and aliases.", no_args_is_help=True)


@app.command("list")
def list_models(limit: Limit = 0, as_json: JsonFlag = False) -> None:
    """All models with their aliases."""
    with Client() as client:
        print_list(
            client.models.list(),
            limit,
            as_json,
            {
                "model": lambda model: model.name,
                "versions": lambda model: model.latest_version,
                "aliases": lambda model: ", ".join(f"{alias} -> {n}" for alias, n in sorted(model.aliases.items())),
                "created": lambda model: ago(model.create_time),
            },
            breakable=("aliases",),
        )


@app.command("show")
def show_model(name: Name, as_json: JsonFlag = False) -> None:
    """A model's versions, where they come from, and who was champion when."""
    with Client() as client:
        model = client.models.get(name)
        versions, history = list(client.models.versions(name)), list(client.models.alias_history(name))
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
        say(f"{change.alias}: {before} -> {change.to_version}, {ago(change.time)}: {change.reason}")


@app.command("add")
def add_model(
    name: Name, folder: Annotated[str, typer.Argument(help="Folder or URL.")], as_json: JsonFlag = False
) -> None:
    """Register a folder of weights as the next version of a model."""
    ref = model_ref(folder if "/" in folder else f"./{folder}")
    with Client() as client:
        version = client.models.create_version(name, ref.path)
    print_json(version) if as_json else say(f"{version.model}@{version.number}  {version.policy_id}")


@app.command()
def promote(
    model: Annotated[str, typer.Argument(help="name@version")],
    alias: Annotated[str, typer.Option(help="The alias to point there.")] = "champion",
    gate: Annotated[str, typer.Option(help="Id of the passed gate, for champion.")] = "",
    reason: Annotated[str, typer.Option(help="Reason, for the history.")] = "",
) -> None:
    """Point an alias at a version. A champion needs a passed gate, unless it is the first."""
    with Client() as client:
        version = version_of(client, model)
        client.models.set_alias(version.model, alias, version.number, reason=reason, gate_id=gate)
    say(f"{version.model}:{alias} -> {version.number}")
