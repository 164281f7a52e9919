"""`ratchet sandbox batch` and `batches`: files of programs, stored, run by all nodes and counted by verdict."""

import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated

import typer
from google.protobuf import json_format

from ratchet.common.v1 import priority_pb2, verdict_pb2
from ratchet.sandbox.v1 import program_pb2
from ratchet_cli.commands.options import PRIORITIES, CallerOption, Id, Limit, TargetOption, one_of
from ratchet_cli.commands.sandbox import local_target
from ratchet_cli.terminal.errors import CommandError
from ratchet_cli.terminal.following import Count, following
from ratchet_cli.terminal.output import JsonFlag, ago, print_list, print_table, say, stderr
from ratchet_client import ApiError, Client, SandboxBatches, address
from ratchet_client.calls import to_json
from ratchet_client.names import state_name

PLATFORM_ERROR = "PLATFORM_ERROR"
NO_VERDICT = "NO_VERDICT"
AT_ONCE = 8
"""Programs that a gateway is asked to run together."""
WORTH_A_RETRY = ("UNAVAILABLE", "RESOURCE_EXHAUSTED", "DEADLINE_EXCEEDED", "INTERNAL")
"""Faults of a platform, not of a program."""

app = typer.Typer(help="Batches of programs, stored and queued.", no_args_is_help=True)


def batch(
    file: Annotated[Path, typer.Argument(help="Programs of the API as JSON, one per line; - is standard input.")],
    target: TargetOption = "",
    caller: CallerOption = "",
    priority: Annotated[str, typer.Option(help="high, normal or low.")] = "normal",
    request_id: Annotated[str, typer.Option(help="A repeated id returns the batch that it created.")] = "",
    as_jsonl: Annotated[bool, typer.Option("--jsonl", help="Print each result as it comes, a line of JSON.")] = False,
) -> None:
    """Run a file of programs as a stored batch. Exits 1 if the platform failed one. Interrupting cancels the batch.
    With RATCHET_URL, that platform's gateway runs them one by one, and nothing is stored."""
    level = one_of(priority, PRIORITIES, "--priority")
    programs = _programs(file)
    if not target and address.elsewhere():
        if caller or request_id or level != priority_pb2.PRIORITY_NORMAL:
            raise CommandError("--caller, --priority and --request-id are of stored batches: give --target, too.", 2)
        verdicts = _counted(_executed(programs), programs, as_jsonl=as_jsonl)
    else:
        verdicts = _stored(target or local_target(), caller, level, request_id, programs, as_jsonl=as_jsonl)
    if not as_jsonl:
        print_table(["verdict", "programs"], verdicts.most_common())
    if missing := len(programs) - verdicts.total():
        raise CommandError(f"The batch was cancelled: {missing} programs have no result.")
    if verdicts[PLATFORM_ERROR]:
        raise CommandError(f"{verdicts[PLATFORM_ERROR]} programs could not be run; --jsonl gives the reasons.")
    if verdicts[NO_VERDICT]:
        raise CommandError(f"The tests of {verdicts[NO_VERDICT]} can judge no program; --jsonl gives the reasons.")


def _stored(
    target: str,
    caller: str,
    level: priority_pb2.Priority.ValueType,
    request_id: str,
    programs: Sequence[program_pb2.Program],
    *,
    as_jsonl: bool,
) -> Counter[str]:
    with SandboxBatches(target, caller) as batches:
        made = batches.create(programs, level, request_id)
        stderr.print(f"Batch {made.id}: {made.programs_total} programs.")
        items = (item for reply in batches.watch(made.id) for item in reply.items)
        try:
            return _counted(items, programs, as_jsonl=as_jsonl)
        except KeyboardInterrupt:
            batches.cancel(made.id)
            raise CommandError(f"Batch {made.id} was cancelled.", 130) from None


def _executed(programs: Sequence[program_pb2.Program]) -> Iterator[program_pb2.ExecutionItem]:
    with Client() as client, ThreadPoolExecutor(AT_ONCE) as pool:

        def execute(place: int) -> program_pb2.ExecutionItem:
            try:
                return program_pb2.ExecutionItem(index=place, execution=client.programs.execute(programs[place]))
            except ApiError as error:
                if error.code not in WORTH_A_RETRY:
                    raise
                return program_pb2.ExecutionItem(index=place, platform_error=str(error))

        yield from pool.map(execute, range(len(programs)))


def _counted(
    items: Iterable[program_pb2.ExecutionItem], programs: Sequence[program_pb2.Program], *, as_jsonl: bool
) -> Counter[str]:
    verdicts: Counter[str] = Counter()
    count = Count("running", "programs")
    with following(count) as changed:
        for item in items:
            verdicts[_verdict(item)] += 1
            if as_jsonl:
                say(json.dumps({"id": programs[item.index].id, "index": item.index, **to_json(item)}))
            count.update(verdicts.total(), len(programs))
            changed()
    return verdicts


def _verdict(item: program_pb2.ExecutionItem) -> str:
    if item.WhichOneof("outcome") == "platform_error":
        return PLATFORM_ERROR
    if item.execution.HasField("failure"):
        return NO_VERDICT
    return verdict_pb2.Verdict.Name(item.execution.verdict).removeprefix("VERDICT_")


def _programs(file: Path) -> list[program_pb2.Program]:
    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{file} can't be read: {error}") from error
    programs = []
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                programs.append(json_format.Parse(line, program_pb2.Program()))
            except (json_format.ParseError, OverflowError) as error:
                raise CommandError(f"{file}, line {number}: {error}") from error
    return programs


@app.command("list")
def list_batches(
    target: TargetOption = "", caller: CallerOption = "", limit: Limit = 50, as_json: JsonFlag = False
) -> None:
    """List batches, newest first."""
    with SandboxBatches(target or local_target(), caller) as batches:
        print_list(
            batches.list(),
            limit,
            as_json,
            {
                "id": lambda batch: batch.id,
                "state": state_name,
                "programs": lambda batch: f"{batch.programs_done}/{batch.programs_total}",
                "created": lambda batch: ago(batch.create_time),
            },
        )


@app.command("cancel")
def cancel_batch(id: Id, target: TargetOption = "", caller: CallerOption = "") -> None:
    """Cancel a batch; recorded results stay."""
    with SandboxBatches(target or local_target(), caller) as batches:
        say(f"{id} {state_name(batches.cancel(id))}")


@app.command("delete")
def delete_batch(id: Id, target: TargetOption = "", caller: CallerOption = "") -> None:
    """Delete a batch that has ended, with its results."""
    with SandboxBatches(target or local_target(), caller) as batches:
        batches.delete(id)
    say(f"{id} is deleted.")
