"""`ratchet preferences`: choose between samples of evaluations, and rank their models by the votes."""

from getpass import getuser
from typing import Annotated

import typer

from ratchet.eval.v1 import preference_pb2 as pb
from ratchet_cli.commands import options
from ratchet_cli.terminal.output import JsonFlag, ago, print_heading, print_json, print_list, print_table, say
from ratchet_client import ApiError, Client
from ratchet_client.names import model_name

CHOICES = {"l": pb.CHOICE_LEFT, "r": pb.CHOICE_RIGHT, "t": pb.CHOICE_TIE}

Evaluations = Annotated[list[str], typer.Argument(help="Ids of two or more evaluations.")]

app = typer.Typer(help="Preferences of people: votes on pairs of samples, and a ranking.", no_args_is_help=True)


@app.command()
def vote(
    evaluations: Evaluations,
    voter: Annotated[str, typer.Option(help="Name of the voter; default: the user of this machine.")] = "",
    passed: Annotated[bool, typer.Option("--passed", help="Only samples that passed their tests.")] = False,
) -> None:
    """Vote on pairs of samples for the better one, until q or until no pair is left."""
    with Client() as client:
        while True:
            try:
                pair = client.preferences.create(evaluations, voter or getuser(), passed)
            except ApiError as error:
                if error.code != "FAILED_PRECONDITION":
                    raise
                say(str(error))
                return
            for title, text in (("problem", pair.prompt), ("left", pair.left), ("right", pair.right)):
                print_heading(f"{title} ({pair.problem_id})" if title == "problem" else title)
                say(text.strip("\n"))
            answer = ""
            while answer not in (*CHOICES, "q"):
                answer = typer.prompt("better: l(eft), r(ight), t(ie); q(uit)").strip()[:1].lower()
            if answer == "q":
                return
            done = client.preferences.vote(pair.id, CHOICES[answer])
            say(f"left was {done.left_evaluation_id}, right was {done.right_evaluation_id}")


@app.command()
def rank(evaluations: Evaluations, as_json: JsonFlag = False) -> None:
    """Rank models by the votes: Bradley-Terry, with 95 % intervals."""
    with Client() as client:
        found = client.preferences.rank(evaluations)
        models = {} if as_json else {id: _model(client, id) for id in evaluations}
    if as_json:
        print_json(found)
        return
    print_table(
        ("evaluation", "model", "strength", "95 % interval", "votes", "wins"),
        [
            (
                one.evaluation_id,
                models[one.evaluation_id],
                f"{one.strength.value:+.2f}",
                f"{one.strength.low:+.2f} to {one.strength.high:+.2f}",
                one.votes,
                f"{one.wins:g}",
            )
            for one in found.ranks
        ],
        right=("votes", "wins"),
    )
    say(f"{found.votes} votes")


@app.command("list")
def list_pairs(
    evaluation: Annotated[str, typer.Option(help="Only pairs of this evaluation.")] = "",
    limit: options.Limit = 50,
    as_json: JsonFlag = False,
) -> None:
    """List pairs and their votes, newest first."""
    with Client() as client:
        print_list(
            client.preferences.list(evaluation),
            limit,
            as_json,
            {
                "id": lambda it: it.id,
                "voter": lambda it: it.voter,
                "problem": lambda it: it.problem_id,
                "choice": lambda it: pb.Choice.Name(it.choice).removeprefix("CHOICE_") if it.choice else "-",
                "created": lambda it: ago(it.create_time),
            },
        )


def _model(client: Client, evaluation_id: str) -> str:
    return model_name(client.evaluations.get(evaluation_id).spec.model) or "imported samples"
