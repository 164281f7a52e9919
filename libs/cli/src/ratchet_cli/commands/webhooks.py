"""`ratchet webhooks`: endpoints that are told of events."""

from typing import Annotated

import typer

from ratchet_cli.commands.options import Id, Limit
from ratchet_cli.terminal.output import JsonFlag, ago, print_json, print_list, say, stderr
from ratchet_client import Client
from ratchet_client.names import state_name

EventOption = Annotated[list[str], typer.Option(help="Type such as run.succeeded; repeat for more. Default: all.")]

app = typer.Typer(help="Webhooks: endpoints that receive events.", no_args_is_help=True)


@app.command("create")
def create_webhook(
    url: Annotated[str, typer.Argument(help="URL of the endpoint, below one that the operator allows.")],
    event: EventOption = [],  # noqa: B006
    description: Annotated[str, typer.Option(help="For people.")] = "",
    as_json: JsonFlag = False,
) -> None:
    """Create a webhook. Its secret, for checking signatures, is printed only this once."""
    with Client() as client:
        made = client.webhooks.create(url, event, description)
    if as_json:
        print_json(made)
        return
    stderr.print(f"Webhook {made.webhook.id}. Its secret is not shown again:", markup=False)
    say(made.secret)


@app.command("list")
def list_webhooks(limit: Limit = 0, as_json: JsonFlag = False) -> None:
    """List webhooks, newest first."""
    with Client() as client:
        print_list(
            client.webhooks.list(),
            limit,
            as_json,
            {
                "id": lambda webhook: webhook.id,
                "url": lambda webhook: webhook.url,
                "events": lambda webhook: ", ".join(webhook.events) or "all",
                "state": lambda webhook: "paused" if webhook.paused else "active",
                "created": lambda webhook: ago(webhook.create_time),
            },
            breakable=("url", "events"),
        )


@app.command("deliveries")
def list_deliveries(id: Id, limit: Limit = 20, as_json: JsonFlag = False) -> None:
    """List deliveries to a webhook, sent or waiting, newest first."""
    with Client() as client:
        print_list(
            client.webhooks.deliveries(id),
            limit,
            as_json,
            {
                "event": lambda delivery: delivery.event_id,
                "type": lambda delivery: delivery.type,
                "state": lambda delivery: state_name(delivery),
                "attempts": lambda delivery: str(delivery.attempts),
                "created": lambda delivery: ago(delivery.create_time),
                "error": lambda delivery: delivery.error or "-",
            },
            breakable=("error",),
        )


@app.command("pause")
def pause_webhook(id: Id) -> None:
    """Pause deliveries. Events that occur while paused are dropped; deliveries already queued stay queued."""
    _set_paused(id, True)
    say(f"{id} is paused.")


@app.command("resume")
def resume_webhook(id: Id) -> None:
    """Resume deliveries."""
    _set_paused(id, False)
    say(f"{id} is active.")


@app.command("delete")
def delete_webhook(id: Id) -> None:
    """Delete a webhook with its deliveries."""
    with Client() as client:
        client.webhooks.delete(id)
    say(f"{id} is deleted.")


def _set_paused(id: str, paused: bool) -> None:
    with Client() as client:
        present = client.webhooks.get(id)
        client.webhooks.update(id, present.url, present.events, present.description, paused)
