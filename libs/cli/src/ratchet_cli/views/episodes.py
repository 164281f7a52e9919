"""How an episode is shown: what was said step by step, the files that changed, the verdict and why."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest

from rich.table import Table
from rich.text import Text

from ratchet_cli.terminal.output import print_fields, print_heading, printable, say, stdout
from ratchet_episodes.record import Record, tool_errors
from ratchet_problems import Message
from ratchet_sessions.record import new_messages
from ratchet_sessions.session import Branch, Call, Failed

_SHOWN = 4000
"""Letters of one text; JSON has all."""


@dataclass(frozen=True, slots=True)
class Step:
    heading: str
    text: str


def show(record: Record, verdict: str, *, tokens: bool) -> None:
    print_fields(_fields(record, verdict))
    for step in steps(record, tokens=tokens):
        print_heading(_line(step.heading))
        if step.text:
            say(printable(step.text))


def show_beside(left: tuple[Record, str], right: tuple[Record, str]) -> None:
    """Two of one task, step by step."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 1, 0), show_header=False)
    for _ in (left, right):
        table.add_column(ratio=1, overflow="fold")
    facts = ("\n".join(f"{name}: {value}" for name, value in _fields(*one)) for one in (left, right))
    table.add_row(*(Text(printable(text)) for text in facts))
    for pair in zip_longest(steps(left[0]), steps(right[0])):
        table.add_row(*(_cell(step) for step in pair))
    stdout.print(table, soft_wrap=False)


def _cell(step: Step | None) -> Text:
    return Text.assemble((_line(step.heading), "bold"), f"\n{printable(step.text)}") if step else Text()


def _line(text: str) -> str:
    return printable(text).replace("\n", " ")


def _fields(record: Record, verdict: str) -> list[tuple[str, object]]:
    calls, ended = record.session.calls, record.ended
    return [
        ("task", record.task),
        ("verdict", verdict),
        ("ended", f"{ended.how}, after {ended.wall_seconds:.1f} s"),
        ("answers", len(calls)),
        ("tool errors", tool_errors(record.session)),
        ("tokens", sum(len(call.token_ids) for call in calls) or "-"),
        ("weights", ", ".join(sorted({call.policy_id for call in calls})) or "-"),
        *([("left out", ", ".join(record.left_out))] if record.left_out else []),
    ]


def steps(record: Record, *, tokens: bool = False) -> Iterator[Step]:
    """In the order in which they happened."""
    called = zip(record.session.calls, new_messages(record.session), strict=True)
    happened: list[tuple[Call | Failed, tuple[Message, ...]]] = [*called]
    happened += [(one, ()) for one in record.session.failed]
    for one, messages in sorted(happened, key=lambda pair: pair[0].end_time):
        if isinstance(one, Failed):
            yield Step("a call without an answer", one.reason)
            continue
        if one.origin.branch and one.index:
            yield Step(f"branch: {_branched(one.origin.branch)}", "")
        for message in messages:
            yield Step(message.role, _text(message))
        role = f" of {one.question.role}" if one.question.role else ""
        yield Step(f"answer {one.index + 1}{role}: {one.finish_reason}", _text(one.answer))
        if tokens:
            yield Step(f"tokens of answer {one.index + 1}", _tokens(one))
    yield from _outcome(record)


def _outcome(record: Record) -> Iterator[Step]:
    for name, output in (("output", record.ended.stdout), ("errors", record.ended.stderr)):
        if output.strip():
            yield Step(f"the command's {name}", output)
    for change in record.changes:
        yield Step(f"{change.kind}: {change.path}", change.diff or change.note)
    if not record.changes:
        yield Step("no file changed", "")
    judged = record.verdict
    yield Step(f"the judge: {judged.reason}" if judged else "not judged", judged.output if judged else "")


def _text(message: Message) -> str:
    calls = [f"{call.name} {call.arguments}" for call in message.tool_calls]
    text = message.content
    if len(text) > _SHOWN:
        text = f"{text[:_SHOWN]}\n({len(text) - _SHOWN} more letters: --json)"
    return "\n".join(filter(None, (text, *calls)))


def _branched(branch: Branch) -> str:
    where = f" at message {branch.message + 1} of answer {branch.call + 1}" if branch.call is not None else ""
    return f"{branch.reason}{where}"


def _tokens(call: Call) -> str:
    """Ids with their log-probs."""
    pairs = (f"{id}:{log_prob:.3f}" for id, log_prob in zip(call.token_ids, call.log_probs, strict=True))
    return f"{len(call.prompt_ids)} read, {len(call.token_ids)} sampled\n{' '.join(pairs)}"
