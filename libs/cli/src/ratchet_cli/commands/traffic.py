"""`ratchet traffic`: what is kept of production to learn from, by consent of keys."""

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import typer

from ratchet.gateway.v1 import traffic_pb2 as pb
from ratchet_cli.commands.options import Limit, one_of
from ratchet_cli.terminal.errors import CommandError
from ratchet_cli.terminal.output import JsonFlag, ago, print_list, say
from ratchet_cli.views import datasets as view
from ratchet_client import Client, json_lines, traffic
from ratchet_client.names import version_name
from ratchet_workflows import traffic as workflows

Rows = Iterator[Mapping[str, Any]]


def _exchanges(client: Client, model: str, key: str, since: datetime | None) -> Rows:
    return map(traffic.exchange_row, client.traffic.list(model, key, since))


def _pairs(client: Client, model: str, key: str, since: datetime | None) -> Rows:
    return map(traffic.pair_row, client.traffic.pairs(model, key, since))


def _text_pairs(client: Client, model: str, key: str, since: datetime | None) -> Rows:
    return map(traffic.text_pair_row, client.traffic.text_pairs(model, key, since))


def _problems(client: Client, model: str, key: str, since: datetime | None) -> Rows:
    return map(traffic.problem_row, client.traffic.problems(model, key, since))


FORMS: Mapping[str, Callable[[Client, str, str, datetime | None], Rows]] = {
    "exchanges": _exchanges,
    "pairs": _pairs,
    "text-pairs": _text_pairs,
    "problems": _problems,
}

ModelOption = Annotated[str, typer.Option("--model", help="Only answers of this model.")]
KeyOption = Annotated[str, typer.Option("--key", help="Only requests of this API key (its id).")]
DaysOption = Annotated[float | None, typer.Option("--days", help="Only the last N days.", min=0, max=36500)]

app = typer.Typer(help="Production traffic that is kept to learn from.", no_args_is_help=True)


@app.command("list")
def list_exchanges(
    model: ModelOption = "",
    key: KeyOption = "",
    days: DaysOption = None,
    session: Annotated[str, typer.Option(help="Only this session, as requests named it.")] = "",
    limit: Limit = 50,
    as_json: JsonFlag = False,
) -> None:
    """List kept exchanges, newest first; with --json also their texts."""
    with Client() as client:
        print_list(
            client.traffic.list(model, key, _since(days), session=session),
            limit,
            as_json,
            {
                "id": lambda it: it.id,
                "version": lambda it: version_name(it.version),
                "arm": lambda it: pb.Exchange.Arm.Name(it.arm).removeprefix("ARM_").lower(),
                "key": lambda it: it.key_id,
                "session": lambda it: it.session[:8] or "-",
                "tokens": lambda it: it.prompt_tokens + it.completion_tokens,
                "score": lambda it: f"{it.score:g}" if it.HasField("score") else "-",
                "accepted": lambda it: "yes" if it.HasField("accepted") else "-",
                "choices": lambda it: len(it.choices) or "-",
                "created": lambda it: ago(it.start_time),
            },
        )


@app.command()
def export(
    out: Annotated[Path, typer.Argument(help="JSONL file to write; gzipped if its name ends in .gz.")],
    form: Annotated[
        str,
        typer.Option(
            "--as",
            help="exchanges, pairs (chosen and rejected answers, for DPO in TRL), text-pairs (the same for prompts "
            "that are plain text) or problems (accepted texts, for SFT).",
        ),
    ] = "exchanges",
    model: ModelOption = "",
    key: KeyOption = "",
    days: DaysOption = None,
) -> None:
    """Write kept traffic as a data set."""
    rows = one_of(form, FORMS, "--as")
    with Client() as client:
        try:
            count = json_lines.write(rows(client, model, key, _since(days)), out)
        except OSError as error:
            raise CommandError(f"{out} cannot be written: {error}.") from error
    say(f"{count} {form} are in {out}")


@app.command()
def snapshot(
    name: Annotated[str, typer.Option(help="Name of the data set; default: traffic, or traffic-MODEL.")] = "",
    model: ModelOption = "",
    key: KeyOption = "",
    days: DaysOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Make the kept pairs of better and worse answers the next version of a data set. A tenth of the users is its
    validation split. Who is forgotten leaves it."""
    with Client() as client:
        made = workflows.snapshot(client, name or workflows.set_name(model), model, key, _since(days))
    if made is None:
        raise CommandError("There are no pairs: give feedback by accepted texts or choices, with a key that consents.")
    view.show_made(made.dataset, as_json=as_json)
    if made.left_out and not as_json:
        say(f"Left out: {made.left_out} pairs with an empty answer, or of users on both sides.")
    if made.texts and not as_json:
        say(f"Left out: {made.texts} pairs whose prompts are no conversations; a data set has the one or the other.")


@app.command()
def forget(
    user: Annotated[str | None, typer.Option(help="A user, as requests named it.")] = None,
    session: Annotated[str | None, typer.Option(help="A session, as requests named it.")] = None,
    key: Annotated[str | None, typer.Option(help="The id of an API key.")] = None,
) -> None:
    """Remove every kept text of a user, a session or an API key, for good."""
    if sum(unit is not None for unit in (user, session, key)) != 1:
        raise CommandError("Name one of --user, --session and --key.", 2)
    with Client() as client:
        removed = client.traffic.forget(user=user, session=session, key_id=key)
    say(f"The texts of {removed} completions are removed.")


def _since(days: float | None) -> datetime | None:
    return None if days is None else datetime.now(UTC) - timedelta(days=days)
