"""`ratchet quality`: how an evaluation's programs are written, beyond passing."""

from typing import Annotated

import typer

from ratchet_cli.commands.options import Id, TargetOption
from ratchet_cli.commands.sandbox import local_target
from ratchet_cli.terminal.errors import CommandError
from ratchet_cli.terminal.following import Count, following
from ratchet_cli.terminal.output import JsonFlag, print_json, print_table, say
from ratchet_client import Client
from ratchet_kit.errors import RatchetError


def quality(
    id: Id,
    component: Annotated[
        list[str],
        typer.Option(help="style, complexity, safety, length, efficiency; repeat. Default: all but efficiency."),
    ] = [],  # noqa: B006
    samples: Annotated[int, typer.Option(help="Maximum number of samples per problem.", min=1)] = 4,
    failed: Annotated[bool, typer.Option("--all", help="Also samples that did not pass.")] = False,
    target: TargetOption = "",
    as_json: JsonFlag = False,
) -> None:
    """Score an evaluation's programs: style, complexity, safety, length, and CPU time against the reference."""
    from ratchet_reports import quality as work  # bandit, radon: only for this command

    for name in component:
        if name not in work.NAMES:
            raise CommandError(f"--component {name}: choose one of {', '.join(work.NAMES)}.", code=2)
    named = tuple(component) or work.READ
    sandbox = (target or local_target()) if work.EFFICIENCY in named else ""
    count = Count("reading", "samples")
    with Client() as client, following(count, quiet=as_json) as changed:

        def progress(done: int, total: int) -> None:
            count.update(done, total)
            changed()

        try:
            wanted = work.Wanted(named, samples, failed, sandbox)
            found = work.measure(client, client.evaluations.get(id), wanted, progress)
        except RatchetError as error:
            raise CommandError(f"The programs cannot be scored: {error.message}.") from error
    if not found:
        raise CommandError(f"{id} has no samples {'' if failed else 'that pass '}to score.")
    rows = work.rows(id, found)
    if as_json:
        print_json({"rows": [row.to_json() for row in rows], "samples": [one.to_json() for one in found]})
        return
    lowest = {
        (row.name, name): min(
            (one for one in found if one.set_name == row.name and name in one.scores),
            key=lambda one: one.scores[name].value,
        )
        for row in rows
        for name in row.components
    }
    print_table(
        ("set", "component", "mean", "95 % interval", "lowest", "problem", "reason"),
        [
            (
                row.name,
                name,
                f"{mean.value:.3f}",
                f"{mean.low:.3f} to {mean.high:.3f}",
                f"{lowest[row.name, name].scores[name].value:.2f}",
                lowest[row.name, name].problem_id,
                lowest[row.name, name].scores[name].detail,
            )
            for row in rows
            for name, mean in row.components.items()
        ],
        breakable=("reason",),
    )
    say(f"{sum(row.samples for row in rows)} samples")
