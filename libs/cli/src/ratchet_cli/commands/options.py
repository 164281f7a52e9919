"""Arguments and options that several commands share."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from google.protobuf.message import Message

from ratchet.common.v1 import environment_pb2, priority_pb2, problem_pb2
from ratchet.eval.v1 import eval_pb2
from ratchet_cli.commands import schedule
from ratchet_cli.terminal.errors import CommandError
from ratchet_environments.folders.tree import Tree, read_tree
from ratchet_environments.spec import HARNESS, TOOLS
from ratchet_kit.errors import InvalidArgument, RatchetError
from ratchet_workflows.errors import UsageError
from ratchet_workflows.notation import fields

T = TypeVar("T")

PRIORITIES = {
    "low": priority_pb2.PRIORITY_LOW,
    "normal": priority_pb2.PRIORITY_NORMAL,
    "high": priority_pb2.PRIORITY_HIGH,
}

Id = Annotated[str, typer.Argument(help="Id of the resource.")]
Name = Annotated[str, typer.Argument(help="Model.")]
Limit = Annotated[int, typer.Option(help="Maximum number; 0: all.", min=0)]
DetachFlag = Annotated[bool, typer.Option("--detach", "-d", help="Print the id and return.")]
PortBase = Annotated[int, typer.Option(help="First port of the block of ports; 0 finds a free block.")]
TargetOption = Annotated[str, typer.Option(help="host:port of a sandbox; default: the one that `ratchet up` started.")]

CallerOption = Annotated[str, typer.Option(help="Owner of the batches; default: this address.")]


StateOption = Annotated[str, typer.Option(help="Only those in this state: queued, running, failed, ...")]
SinceOption = Annotated[
    str, typer.Option(help="Only those made in this time, or since: 30m, 6h, 2d, 2026-11-27, 2026-11-27T08:00.")
]

EnvironmentOption = Annotated[
    str,
    typer.Option(
        help="edits: up to 3 answers, each after the last one's failures; edits=N: up to N. Training: or plugin:NAME. "
        "Evaluations: or tools, on task folders."
    ),
]
JudgeOption = Annotated[
    str,
    typer.Option(help="Reward of the registry that judges problems without tests; facts@2=0.5: passes from 0.5 on."),
]
ExamplesOption = Annotated[
    str,
    typer.Option(help="Set whose first solved problems are shown before each problem; mine@1/train=5: five of them."),
]


TemplateOption = Annotated[
    str,
    typer.Option("--chat-template", help="File of a chat template (Jinja) in place of the model's.", metavar="FILE"),
]


HarnessFiles = Annotated[
    Path | None,
    typer.Option(
        "--files",
        help="Folder of the command's own files: /tmp/harness in the workspace.",
        exists=True,
        file_okay=False,
    ),
]


def environment(text: str) -> environment_pb2.EnvironmentSpec | None:
    """`fields.environment`, of an option. Raises CommandError."""
    return _read(fields.environment, text, "--environment")


def own_files(command: Sequence[str] | None, files: Path | None) -> Tree:
    """The files of a command. Raises CommandError, also for files without one."""
    if files and not command:
        raise CommandError("--files is of a command, which stands after --.", 2)
    with refusing():
        return read_tree(files, f"{files}/") if files else {}


def player(
    command: Sequence[str] | None, files: Path | None, named: environment_pb2.EnvironmentSpec | None = None
) -> environment_pb2.EnvironmentSpec | None:
    """The environment of a command and the folder of its files: tools that it serves where these are named, else a
    harness. Without a command the named one. Raises CommandError."""
    tree = own_files(command, files)
    if not command:
        return named
    if named and named.name not in ("", TOOLS):
        raise CommandError(f"A command is of a harness, or serves tools: it goes with no environment {named.name}.", 2)
    texts = {}
    for path, file in tree.items():
        try:
            texts[path] = file.content.decode()
        except UnicodeDecodeError:
            raise CommandError(
                f"{files}/{path} is no UTF-8 text: put it into a runtime or into the tasks.", 2
            ) from None
    made = environment_pb2.EnvironmentSpec(name=HARNESS)
    made.MergeFrom(named or environment_pb2.EnvironmentSpec())
    made.MergeFrom(environment_pb2.EnvironmentSpec(command=command, files=texts))
    return made


def judge(text: str) -> eval_pb2.RewardJudge | None:
    """`fields.judge`, of an option. Raises CommandError."""
    return _read(fields.judge, text, "--judge")


def examples(text: str) -> problem_pb2.ProblemSetRef | None:
    """`fields.examples`, of an option. Raises CommandError."""
    return _read(fields.examples, text, "--examples")


def state(text: str, kind: type[Message]) -> Any:
    """The value of the State enum of `kind`; the unspecified one for an empty text. Raises CommandError."""
    states = {name.removeprefix("STATE_").lower(): number for name, number in kind.State.items()}  # type: ignore[attr-defined]
    del states["unspecified"]
    return one_of(text.lower(), {"": 0, **states}, "--state")


def since(text: str) -> datetime | None:
    """When the period begins that --since says; None for an empty text. Raises CommandError."""
    if not text:
        return None
    try:
        if any(text.endswith(unit) for unit in schedule.UNITS):
            return datetime.now(UTC) - timedelta(seconds=schedule.period_of(text, "--since"))
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise CommandError(f"--since {text}: a time as 30m, 6h, 2d, or a date as 2026-11-27.", code=2) from error


def template(file: str) -> str:
    """The text of the file. Raises CommandError."""
    try:
        text = Path(file).read_text(encoding="utf-8") if file else ""
    except (OSError, ValueError) as error:
        raise CommandError(f"--chat-template {file} cannot be read: {error}", code=2) from error
    if file and not text.strip():
        raise CommandError(f"--chat-template {file} is empty.", code=2)
    return text


def _read(parse: Callable[[str], T], text: str, option: str) -> T:
    try:
        return parse(text)
    except UsageError as error:
        raise CommandError(f"{option} {error}", code=2) from error


def one_of(text: str, choices: Mapping[str, T], option: str) -> T:
    """Raises CommandError when `text` is no key of `choices`."""
    if text not in choices:
        raise CommandError(f"{option} {text}: choose one of {', '.join(filter(None, choices))}.", code=2)
    return choices[text]


def named(parse: Callable[[str], T], text: str) -> T:
    """A name such as `mine@2`, read by `parse`. Raises CommandError where it is invalid."""
    try:
        return parse(text)
    except InvalidArgument as error:
        raise CommandError(f"{error.message}.", code=2) from error


@contextmanager
def numbers_of_user() -> Iterator[None]:
    """Around a message that is made of options. Raises CommandError for a number that its field cannot hold."""
    try:
        yield
    except ValueError as error:
        raise CommandError(f"A number is too large or too small: {error}.", code=2) from error


@contextmanager
def refusing() -> Iterator[None]:
    """Around work on what the user named. Raises CommandError for what it refuses, and for files that cannot be read or
    written."""
    try:
        yield
    except UsageError as error:
        raise CommandError(f"{error}.", code=2) from error
    except InvalidArgument as error:
        raise CommandError(f"{error.message}.", code=2) from error
    except RatchetError as error:
        raise CommandError(f"{error.message}.") from error
    except OSError as error:
        raise CommandError(f"{error.filename or 'A file'} cannot be read or written: {error.strerror}.") from error
