"""`ratchet data findings`: what examination found, and what people decided about it."""

from functools import partial
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer

from ratchet.registry.v1 import dataset_pb2 as pb
from ratchet_cli.commands.options import named, refusing
from ratchet_cli.terminal.errors import CommandError
from ratchet_cli.terminal.output import JsonFlag, print_json, print_table, say
from ratchet_cli.views import datasets as view
from ratchet_client import Client
from ratchet_kit.names import DatasetRef
from ratchet_workflows import datasets as workflows

SHOWN = 50
KINDS = {name.removeprefix("KIND_").lower().replace("_", "-"): number for name, number in pb.Finding.Kind.items()}
del KINDS["unspecified"]
COLUMNS = ("kind", "split", "problem", "like", "detail", "state")


def findings(
    dataset: Annotated[str, typer.Argument(help="name@number, or a split of it.")],
    kind: Annotated[str, typer.Option(help=f"Only this kind: {', '.join(KINDS)}.")] = "",
    of: Annotated[str, typer.Option(help="Only near-duplicates of this set, such as mbpp.")] = "",
    problem: Annotated[str, typer.Option(help="Only this problem, by its id.")] = "",
    accept: Annotated[str | None, typer.Option(metavar="REASON", help="Accept the selected findings.")] = None,
    refuse: Annotated[
        str | None,
        typer.Option(metavar="REASON", help="Refuse them: the next version is without their problems."),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """List what examination found about the problems of a data set, and accept or refuse it. A gate does not count
    accepted near-duplicates."""
    if kind and kind not in KINDS:
        raise CommandError(f"--kind {kind}: write {', '.join(KINDS)}.", code=2)
    if accept is not None and refuse is not None:
        raise CommandError("--accept and --refuse exclude each other.", code=2)
    reason = refuse if accept is None else accept
    if reason is not None and not reason.strip():
        raise CommandError("Give a reason: it is kept with the decision.", code=2)
    if reason is not None and not (kind or problem):
        raise CommandError("Say which findings: --kind, or --problem.", code=2)
    ref = named(DatasetRef.parse, dataset)
    with Client() as client, refusing():
        version = client.datasets.get(ref.name, ref.number)
        select = KINDS.get(kind, pb.Finding.KIND_UNSPECIFIED), ref.split, problem, of
        if version.state == pb.Dataset.STATE_FAILED:
            view.check_usable(version)
        if ref.split and ref.split not in (names := [split.name for split in version.splits]):
            raise CommandError(f"{view.version(version)} has no split {ref.split}; it has {', '.join(names)}.", code=2)
        if refuse is not None and version.card.folders:
            raise CommandError("Task folders are not left out by refusing: add those that are to stay.", code=2)
        if reason is not None:
            state = pb.Finding.STATE_ACCEPTED if refuse is None else pb.Finding.STATE_REFUSED
            decided = client.datasets.decide(version.name, version.number, state, reason, *select)
            made = workflows.without_refused(client, version) if refuse else None
            _show_decided(version, decided, made, as_json=as_json)
            return
        found = client.datasets.findings(version.name, version.number, *select)
        if as_json:
            print_json(list(found))
            return
        rows = [_row(one) for one in islice(found, SHOWN + 1)]
    if not rows:
        say(f"{view.version(version)} has no such findings.")
        return
    print_table(COLUMNS, rows[:SHOWN], breakable=("like", "detail", "state"))
    if len(rows) > SHOWN:
        say("There are more: --json has all.")


def report(
    dataset: Annotated[str, typer.Argument(help="name@number; name alone is its newest version.")],
    out: Annotated[Path, typer.Option(help="File of the page, HTML.")] = Path("data.html"),
) -> None:
    """Write a version as one HTML page: card, balance, findings with the problems side by side, decisions, and how its
    references ran."""
    from ratchet_reports import datasets as work  # matplotlib: only for this command

    ref = named(DatasetRef.parse, dataset)
    with Client() as client, refusing():
        version = client.datasets.get(ref.name, ref.number)
        if version.card.edition or version.card.pairs or version.card.folders:
            raise CommandError(f"{view.version(version)} holds no problems: ratchet data show has its card.", code=2)
        view.check_usable(version)
        made = work.gather(client, version, partial(workflows.texts, version))
    try:
        work.write(made, out)
    except OSError as error:
        raise CommandError(f"The report cannot be written: {error}.") from error
    say(str(out))


def _show_decided(version: pb.Dataset, decided: int, made: pb.Dataset | None, *, as_json: bool) -> None:
    if as_json:
        print_json({"findings": decided, "version": view.version(made) if made else ""})
    else:
        verb = "refused" if made else "accepted"
        say(f"{decided:,} finding{'s' * (decided != 1)} of {view.version(version)} {verb}.")
    if made and not as_json:
        view.show_made(made, as_json=False)
    elif made:
        view.check_usable(made)


def _row(finding: pb.Finding) -> tuple[str, ...]:
    state = pb.Finding.State.Name(finding.state).removeprefix("STATE_").lower()
    if finding.HasField("decision"):
        decision = finding.decision
        by = f" by {decision.actor}" if decision.actor else ""
        state += f"{by} on {decision.create_time.ToDatetime():%Y-%m-%d}: {decision.reason}"
    kind = next(name for name, number in KINDS.items() if number == finding.kind)
    like = f"{finding.other_set} {finding.other}".strip() or "-"
    return kind, finding.split, finding.problem, like, finding.detail or "-", state
