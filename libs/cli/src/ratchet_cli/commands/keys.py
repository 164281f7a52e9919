"""`ratchet keys`: API keys of the gateway."""

from typing import Annotated

import typer

from ratchet.common.v1 import access_pb2
from ratchet_cli.commands.options import Id, Limit, one_of
from ratchet_cli.terminal.output import JsonFlag, ago, print_json, print_list, say, stderr
from ratchet_client import Client

SCOPES = {"inference": access_pb2.SCOPE_INFERENCE, "admin": access_pb2.SCOPE_ADMIN}

app = typer.Typer(help="API keys.", no_args_is_help=True)


@app.command("create")
def create_key(
    name: Annotated[str, typer.Argument(help="A name for people: who or what has the key.")],
    scope: Annotated[list[str], typer.Option(help="inference (the default) or admin; repeat for both.")] = [],  # noqa: B006
    as_json: JsonFlag = False,
) -> None:
    """Make a key. Its secret is printed this once: it is not kept."""
    scopes = [one_of(text, SCOPES, "--scope") for text in scope]
    with Client() as client:
        made = client.keys.create(name, scopes)
    if as_json:
        print_json(made)
        return
    stderr.print(f"Key {made.key.id}. Its secret is not shown again:", markup=False)
    say(made.secret)


@app.command("list")
def list_keys(limit: Limit = 0, as_json: JsonFlag = False) -> None:
    """Newest first, revoked ones too."""
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
                "created": lambda key: ago(key.create_time),
                "revoked": lambda key: ago(key.revoke_time),
            },
            breakable=("name",),
        )


@app.command("revoke")
def revoke_key(id: Id) -> None:
    """Make a key invalid, at once and for good."""
    with Client() as client:
        client.keys.revoke(id)
    say(f"{id} is revoked.")
