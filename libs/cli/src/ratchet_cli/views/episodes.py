"""How an episode is shown: what was said step by step, the files that changed, the verdict and why."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from rich.table import Table
from rich.text import Text

from ratchet_cli.terminal.output import print_fields, print_heading, printable, say, stdout
from ratchet_episodes.record import Record, tool_errors
from ratchet_problems import Message
from ratchet_sessions.record import new_messages
from ratchet_sessions.session import Branch, Call, Failed, Session

_SHOWN = 4000
"""Letters of one text; JSON has all."""


@dataclass(frozen=True, slots=True)
class Step:
    heading: str
    text: str


@dataclass(frozen=True, slots=True)
class Remark:
    """On an answer of production."""

    facts: str
    """Who gave it, and how good it was."""
    used: str = ""
    """The text that was used in its place; empty: none was named, or the answer."""


def show(record: Record, verdict: str, *, tokens: bool) -> None:
    print_fields(_fields(record, verdict))
    _show_steps(steps(record, tokens=tokens))


def show_session(fields: Sequence[tuple[str, object]], session: Session, remarks: Sequence[Remark]) -> None:
    """Shows an episode of production, with a remark on each answer."""
    print_fields([*fields, *_counts(session)])
    _show_steps(_said(session, remarks=remarks))


def _show_steps(steps: Iterable[Step]) -> None:
    for step in steps:
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
    ended = record.ended
    return [
        ("task", record.task),
        ("verdict", verdict),
        ("ended", f"{ended.how}, after {ended.wall_seconds:.1f} s"),
        *_counts(record.session),
        ("tokens", sum(len(call.token_ids) for call in record.session.calls) or "-"),
        *([("left out", ", ".join(record.left_out))] if record.left_out else []),
    ]


def _counts(session: Session) -> list[tuple[str, object]]:
    return [
        ("answers", len(session.calls)),
        ("tool errors", tool_errors(session)),
        ("weights", ", ".join(sorted({call.policy_id for call in session.calls})) or "-"),
    ]


def steps(record: Record, *, tokens: bool = False) -> Iterator[Step]:
    """In the order in which they happened."""
    yield from _said(record.session, tokens=tokens)
    yield from _outcome(record)


def _said(session: Session, *, tokens: bool = False, remarks: Sequence[Remark] = ()) -> Iterator[Step]:
    called = zip(session.calls, new_messages(session), strict=True)
    happened: list[tuple[Call | Failed, tuple[Message, ...]]] = [*called]
    happened += [(one, ()) for one in session.failed]
    for one, messages in sorted(happened, key=lambda pair: pair[0].end_time):
        if isinstance(one, Failed):
            yield Step("a call without an answer", one.reason)
            continue
        if one.origin.branch and one.index:
            yield Step(f"branch: {_branched(one.origin.branch)}", "")
        for message in messages:
            yield Step(message.role, _text(message))
        role = f" of {one.question.role}" if one.question.role else ""
        if one.reasoning:
            yield Step(f"thoughts before answer {one.index + 1}", _text(Message("assistant", one.reasoning)))
        remark = remarks[one.index] if remarks else Remark("")
        yield Step(f"answer {one.index + 1}{role}: {one.finish_reason}{remark.facts}", _text(one.answer))
        if remark.used:
            yield Step("used in its place", remark.used)
        if tokens:
            yield Step(f"tokens of answer {one.index + 1}", _tokens(one))


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
