"""`ratchet models`: models, their versions, and who is champion."""

import time
from typing import Annotated

import typer
from google.protobuf.duration_pb2 import Duration

from ratchet.gateway.v1 import traffic_pb2
from ratchet_cli.commands.options import DetachFlag, Limit, Name
from ratchet_cli.terminal.errors import CommandError
from ratchet_cli.terminal.output import (
    JsonFlag,
    SortOption,
    ago,
    print_fields,
    print_json,
    print_list,
    print_table,
    say,
)
from ratchet_cli.views.models import follow_version, version_fields
from ratchet_client import Client
from ratchet_client.names import model_name, state_name, version_name
from ratchet_kit.names import BareModel, VersionRef
from ratchet_reports import usage_words
from ratchet_workflows.notation.references import parse, version_of

POLL_S = 1.0

app = typer.Typer(help="Models, versions and aliases.", no_args_is_help=True)


@app.command("list")
def list_models(sort: SortOption = "", limit: Limit = 0, as_json: JsonFlag = False) -> None:
    """List all models with their aliases."""
    with Client() as client:
        print_list(
            client.models.list(),
            limit,
            as_json,
            {
                "model": lambda model: model.name,
                "versions": lambda model: (
                    f"{model.latest_version}" + (f" ({model.failed_versions} failed)" if model.failed_versions else "")
                ),
                "aliases": lambda model: (
                    ", ".join(f"{alias} -> {n}" for alias, n in sorted(model.aliases.items())) or "-"
                ),
                "created": lambda model: ago(model.create_time),
            },
            breakable=("aliases",),
            sort=sort,
        )


@app.command("show")
def show_model(
    name: Annotated[str, typer.Argument(help="Model, or one version of it: name@version, name:alias.")],
    as_json: JsonFlag = False,
) -> None:
    """Show a model's versions, their origins, and the history of its champions; or one version, with its files."""
    with Client() as client:
        if "@" in name or ":" in name:
            ref = version_of(client, name)
            version = client.models.version(ref.model, ref.number)
            print_json(version) if as_json else print_fields(version_fields(version))
            return
        model = client.models.get(name)
        versions, history = list(client.models.versions(name)), list(client.models.alias_history(name))
    if as_json:
        print_json(model)
        return
    names: dict[int, list[str]] = {}
    for alias, number in model.aliases.items():
        names.setdefault(number, []).append(alias)
    print_table(
        ("version", "state", "aliases", "base", "run", "step", "MiB", "policy", "created"),
        [
            (
                v.ref.number,
                state_name(v),
                ", ".join(names.get(v.ref.number, [])) or "-",
                model_name(v.lineage.base) or "-",
                v.lineage.run_id or "-",
                v.lineage.step or "-",
                f"{v.size_bytes / 2**20:.1f}",
                v.policy_id[7:19] or "-",
                ago(v.create_time),
            )
            for v in versions
        ],
    )
    for v in versions:
        for key, value in sorted(v.labels.items()):
            say(f"{version_name(v.ref)} is labelled {key}: {value}")
        if v.failure.message:
            say(f"{version_name(v.ref)} failed: {v.failure.message}")
    for change in history:
        before = change.from_number or "none"
        by = f" by {change.actor}" if change.actor else ""
        say(f"{change.alias}: {before} -> {change.to_number}, {ago(change.create_time)}{by}: {change.reason}")


@app.command("add")
def add_model(
    name: Name,
    folder: Annotated[str, typer.Argument(help="Folder or URL.")],
    detach: DetachFlag = False,
    as_json: JsonFlag = False,
) -> None:
    """Register a folder of weights as the next version of a model."""
    source = parse(folder if "/" in folder else f"./{folder}")
    with Client() as client:
        version = client.models.create_version(name, str(source))
        if not detach:
            version = follow_version(client, version, quiet=as_json)
    print_json(version) if as_json else say(f"{version_name(version.ref)}  {version.policy_id}".rstrip())


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
        expected = client.models.get(version.model).aliases.get(alias, 0)
        client.models.set_alias(
            version.model, alias, version.number, expected_number=expected, reason=reason, gate_id=gate
        )
    say(f"{version.model}:{alias} -> {version.number}")


@app.command()
def load(
    model: Annotated[str, typer.Argument(help="name@version")],
    detach: DetachFlag = False,
) -> None:
    """Load a version for serving, before a request needs it. One that nobody asks makes room for others."""
    with Client() as client:
        version = version_of(client, model)
        while not (policy_id := client.models.load_version(version.model, version.number)) and not detach:
            time.sleep(POLL_S)
    say(f"{version} is loaded: {policy_id}" if policy_id else f"{version} is being loaded.")


@app.command()
def unload(model: Annotated[str, typer.Argument(help="name@version")]) -> None:
    """Unload a version from all nodes. The next request for it loads it again."""
    with Client() as client:
        version = version_of(client, model)
        client.models.unload_version(version.model, version.number)
    say(f"{version} is unloaded.")


@app.command("health")
def show_health(
    model: Annotated[str, typer.Argument(help="name@version")],
    days: Annotated[int, typer.Option(help="Today and the days before, in UTC; 30 at most.")] = 7,
    as_json: JsonFlag = False,
) -> None:
    """Show a version's traffic by day and arm, and whether it is worse than before."""
    with Client() as client:
        version = version_of(client, model)
        found = client.models.version_health(version.model, version.number, days)
    if as_json:
        print_json(found)
        return
    print_table(
        ("day", "arm", "requests", "errors", "left", "p50 s", "p95 s", "tokens", "scored", "mean score"),
        [
            (
                f"{one.start_time.ToDatetime():%Y-%m-%d}",
                traffic_pb2.Exchange.Arm.Name(one.arm).removeprefix("ARM_").lower(),
                one.requests,
                one.errors,
                one.left,
                _latency(one.latency_p50),
                _latency(one.latency_p95),
                one.prompt_tokens + one.completion_tokens,
                one.scored,
                f"{one.mean_score:.3f}" if one.scored else "-",
            )
            for one in found.days
        ],
    )
    if price := usage_words.cost(found.usage, answers=found.answers):
        say(f"{found.answers:,} answers cost {price}")
    for notice in found.notices:
        say(f"worse: {notice.message}")


def _latency(latency: Duration) -> str:
    seconds = latency.ToTimedelta().total_seconds()
    return f"{seconds:.2f}" if seconds else "-"


@app.command()
def delete(
    model: Annotated[str, typer.Argument(help="name@version, or the name of a model without versions.")],
) -> None:
    """Delete a version that nothing points to, or a model without versions."""
    named = parse(model)
    with Client() as client:
        match named:
            case VersionRef(name, number):
                client.models.delete_version(name, number)
            case BareModel(name):
                client.models.delete(name)
            case _:
                raise CommandError(f"{model} is neither a version nor a model: write name@version or name.", code=2)
    say(f"{model} is deleted.")
