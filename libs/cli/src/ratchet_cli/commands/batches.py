"""`ratchet sandbox batch`: a file of programs, stored, run by all nodes and counted by verdict."""

import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from google.protobuf import json_format

from ratchet.sandbox.v1 import sandbox_pb2 as pb
from ratchet_cli.commands.options import TargetOption
from ratchet_cli.commands.sandbox import local_target
from ratchet_cli.terminal.errors import CommandError
from ratchet_cli.terminal.following import Count, following
from ratchet_cli.terminal.output import print_table, say, stderr
from ratchet_client import SandboxBatches
from ratchet_client.calls import to_json

PLATFORM_ERROR = "PLATFORM_ERROR"


def batch(
    file: Annotated[Path, typer.Argument(help="Programs of the API as JSON, one per line; - is standard input.")],
    target: TargetOption = "",
    priority: Annotated[str, typer.Option(help="high, normal or low.")] = "normal",
    request_id: Annotated[str, typer.Option(help="Sent again under it, the same batch goes on.")] = "",
    as_jsonl: Annotated[bool, typer.Option("--jsonl", help="Print each result as it comes, a line of JSON.")] = False,
) -> None:
    """Run a file of programs as a stored batch. Exits 1 if the platform failed one; stopped, it cancels the batch."""
    if f"PRIORITY_{priority.upper()}" not in pb.Priority.keys()[1:]:
        raise CommandError(f"--priority is high, normal or low, not {priority!r}.")
    programs = _programs(file)
    with SandboxBatches(target or local_target()) as batches:
        made = batches.create(programs, pb.Priority.Value(f"PRIORITY_{priority.upper()}"), request_id)
        stderr.print(f"Batch {made.id}: {made.programs_total} programs.")
        try:
            verdicts = _watch(batches, made, programs, as_jsonl=as_jsonl)
        except KeyboardInterrupt:
            batches.cancel(made.id)
            raise CommandError(f"Batch {made.id} was cancelled.", 130) from None
    if not as_jsonl:
        print_table(["verdict", "programs"], verdicts.most_common())
    if missing := made.programs_total - verdicts.total():
        raise CommandError(f"Batch {made.id} was cancelled: {missing} programs have no result.")
    if verdicts[PLATFORM_ERROR]:
        raise CommandError(f"{verdicts[PLATFORM_ERROR]} programs could not be run; --jsonl gives the reasons.")


def _watch(batches: SandboxBatches, made: pb.Batch, programs: Sequence[pb.Program], *, as_jsonl: bool) -> Counter[str]:
    verdicts: Counter[str] = Counter()
    count = Count("running", "programs")
    with following(count) as changed:
        for reply in batches.watch(made.id):
            for item in reply.items:
                verdicts[_verdict(item)] += 1
                if as_jsonl:
                    line = {"id": programs[item.index].id, "index": item.index, **to_json(item)}
                    say(json.dumps(line))
            count.update(verdicts.total(), made.programs_total)
            changed()
    return verdicts


def _verdict(item: pb.BatchItem) -> str:
    if item.WhichOneof("outcome") == "platform_error":
        return PLATFORM_ERROR
    return pb.Verdict.Name(item.execution.verdict).removeprefix("VERDICT_")


def _programs(file: Path) -> list[pb.Program]:
    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{file} can't be read: {error}") from error
    programs = []
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                programs.append(json_format.Parse(line, pb.Program()))
            except json_format.ParseError as error:
                raise CommandError(f"{file}, line {number}: {error}") from error
    return programs
