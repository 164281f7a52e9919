"""`ratchet keys`: API keys of the gateway."""

from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from ratchet.common.v1 import access_pb2
from ratchet.gateway.v1 import key_pb2
from ratchet_cli.commands import options
from ratchet_cli.commands.options import Id, Limit, SinceOption, one_of
from ratchet_cli.terminal.output import JsonFlag, ago, print_json, print_list, say, stderr
from ratchet_client import Client

SCOPES = {
    "inference": access_pb2.SCOPE_INFERENCE,
    "programs": access_pb2.SCOPE_PROGRAMS,
    "read": access_pb2.SCOPE_READ,
    "train": access_pb2.SCOPE_TRAIN,
    "release": access_pb2.SCOPE_RELEASE,
    "admin": access_pb2.SCOPE_ADMIN,
}

app = typer.Typer(help="API keys.", no_args_is_help=True)


@app.command("create")
def create_key(
    name: Annotated[str, typer.Argument(help="Name for people: the key's owner.")],
    scope: Annotated[
        list[str], typer.Option(help="inference (default), programs, read, train, release or admin; repeat.")
    ] = [],  # noqa: B006
    model: Annotated[list[str], typer.Option(help="Model that it may call; repeat for more. Default: all.")] = [],  # noqa: B006
    days: Annotated[float | None, typer.Option(help="Days until it expires.", min=0)] = None,
    keep_traffic: Annotated[
        bool, typer.Option("--keep-traffic", help="Keep its prompts, answers and feedback to learn from.")
    ] = False,
    monthly_tokens: Annotated[
        int, typer.Option(help="Tokens of prompts and answers that it may use in a month (UTC); 0: no limit.", min=0)
    ] = 0,
    project: Annotated[str, typer.Option(help="Project whose things it reaches, such as acme. Default: yours.")] = "",
    as_json: JsonFlag = False,
) -> None:
    """Create a key. Its secret is printed only this once: it is not kept."""
    scopes = [one_of(text, SCOPES, "--scope") for text in scope]
    with Client() as client:
        end = None if days is None else datetime.now(UTC) + timedelta(days=days)
        made = client.keys.create(
            name,
            scopes,
            models=model,
            expire_time=end,
            keep_traffic=keep_traffic,
            monthly_tokens=monthly_tokens,
            project=project,
        )
    if as_json:
        print_json(made)
        return
    stderr.print(f"Key {made.key.id}. Its secret is not shown again:", markup=False)
    say(made.secret)


@app.command("list")
def list_keys(limit: Limit = 0, as_json: JsonFlag = False) -> None:
    """List keys, newest first, including revoked ones."""
    names = {scope: name for name, scope in SCOPES.items()}
    with Client() as client:
        print_list(
            client.keys.list(),
            limit,
            as_json,
            {
                "id": lambda key: key.id,
                "name": lambda key: key.name,
                "begins": lambda key: key.hint,
                "scopes": lambda key: ", ".join(names.get(scope, "?") for scope in key.scopes),
                "models": lambda key: ", ".join(key.models) or "all",
                "created": lambda key: ago(key.create_time),
                "expires": lambda key: key.expire_time.ToJsonString()[:10] if key.HasField("expire_time") else "-",
                "revoked": lambda key: ago(key.revoke_time),
                "traffic": lambda key: "kept" if key.keep_traffic else "-",
                "tokens this month": _tokens,
            },
            breakable=("name",),
        )


def _tokens(key: key_pb2.Key) -> str:
    """Used this month, of those that it may."""
    used, most = key.tokens_this_month, key.monthly_tokens
    return f"{used:,} of {most:,} ({used / most:.0%})" if most else f"{used:,}"


@app.command("audit")
def audit(
    key: Annotated[str, typer.Option(help="Only what this key changed, by its id.")] = "",
    since: SinceOption = "",
    limit: Limit = 50,
    as_json: JsonFlag = False,
) -> None:
    """List what was changed with which key, newest first."""
    after = options.since(since)
    with Client() as client:
        print_list(
            client.keys.audit(key, after),
            limit,
            as_json,
            {
                "time": lambda entry: ago(entry.create_time),
                "key": lambda entry: entry.actor_name or "-",
                "did": lambda entry: entry.method.partition(".")[2],
                "to": lambda entry: entry.resource or "-",
                "ended": lambda entry: entry.code,
            },
            breakable=("key",),
        )


@app.command("revoke")
def revoke_key(id: Id) -> None:
    """Revoke a key, at once and for good."""
    with Client() as client:
        client.keys.revoke(id)
    say(f"{id} is revoked.")


@app.command("traffic")
def set_traffic(
    id: Id,
    keep: Annotated[str, typer.Argument(help="on or off.")],
) -> None:
    """Give or withdraw the consent to keep a key's prompts, answers and feedback from now on."""
    consent = one_of(keep, {"on": True, "off": False}, "KEEP")
    with Client() as client:
        client.keys.set_traffic(id, consent)
    say(f"Traffic of {id} is {'kept' if consent else 'not kept'} from now on.")
