"""Problem sets as JSONL: one problem a line, every fault with its line and field.

A line holds what `Problem.to_json` writes. Only `prompt` and `tests` must be there (and `entry_point` for tests that
call it). Instead of tests it may have `answer`, the right one or a list of right ones, or `references` alone;
`"tests": []` says that it has none of these.
The prompt is a text, or a conversation that ends with the user:
    [{"role": "system", "content": "Answer in Python."}, {"role": "user", "content": "Write add(a, b)."}]
A test is one of
    {"args": [[1, 2]], "expected": 3}        arguments and value as JSON, with NaN and Infinity; or each as a Python
                                             literal in a string, which also writes tuples and sets:
    {"args": "[(1, 2)]", "expected": "{3}"}
    {"stdin": "1 2", "expected_stdout": "3"}
    {"args": [-1], "raises": "ValueError"}   an exception of that type, or of a kind of it
    {"check": "def check(candidate): ..."}   with "names": ["Node"], what it uses of the program beside the entry point,
                                             and "shared": true where it must run in the program's process
With "language": "go" (or another of languages.py) tests are by stdin, or a check with "shared": true, whose code stands
after the program. A call test may have "tolerance" (for floats; 0 compares exactly) and "unordered": true (the elements
of a list come in any order), one of stdin "tolerance" (for what is expected with a decimal point or an exponent;
without it tokens are compared as text), any test "held_out": true (it counts, and is never shown).
"""

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ratchet_kit import json_text, syntax
from ratchet_kit.errors import InvalidArgument
from ratchet_kit.text import check_encodable
from ratchet_problems.languages import language_of
from ratchet_problems.messages import Message
from ratchet_problems.problem import (
    ROLES,
    AnswerTest,
    CallTest,
    CheckTest,
    InvalidProblem,
    Problem,
    StdioTest,
    TestCase,
)

_GZIP = b"\x1f\x8b"
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
MOST_FAULTS = 20
"""The number of a file's faults that are told at once."""
_TEXTS = ("id", "entry_point", "source", "licence", "structure", "language")
_FIELDS = {"prompt", "tests", "answer", "references", "difficulty", "tags", *_TEXTS}
_CALL = {"args", "expected"}, {"tolerance", "unordered", "held_out"}
_STDIO = {"stdin", "expected_stdout"}, {"tolerance", "held_out"}
# Which kind of test it is, by the first of these fields that's there: what it needs, and what else it may have.
_TEST_FIELDS = {
    "raises": ({"args", "raises"}, {"held_out"}),
    "args": _CALL,
    "expected": _CALL,
    "stdin": _STDIO,
    "expected_stdout": _STDIO,
    "check": ({"check"}, {"names", "shared", "held_out"}),
    "answer": ({"answer"}, set()),
}


def read(path: str | Path) -> tuple[Problem, ...]:
    """The problems of a file, in its order; blank lines are skipped.

    Raises InvalidArgument as `problems`, and InvalidProblem for a file that cannot be read.
    """
    path = Path(path)
    lines = ((f"{path.name} line {number}", number, line) for number, line in numbered_lines(path))
    return tuple(problems(lines, record, path.name))


def numbered_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Those that are not blank, from 1, one after another. Raises InvalidProblem for a file that cannot be read."""
    number = 0
    try:
        with path.open("rb") as file:
            for number, data in enumerate(file, start=1):  # no other ends of lines: a text may hold U+2028
                try:
                    line = data.decode("utf-8-sig" if number == 1 else "utf-8")
                except UnicodeDecodeError as error:
                    raise InvalidProblem(path.name, "file", _not_utf8(data, number, error.start)) from error
                if line.strip():
                    yield number, line.removesuffix("\n")
    except OSError as error:
        raise InvalidProblem(path.name, "file", error.strerror or "cannot be read") from error


def _not_utf8(data: bytes, number: int, place: int) -> str:
    """The reason why a line cannot be read. `place`: of the first byte that is wrong."""
    if number == 1 and data.startswith(_GZIP):
        return "is compressed: unpack it"
    if number == 1 and data.startswith(_UTF_16):
        return "line 1 is UTF-16: save the file as UTF-8"
    return f"line {number} is not UTF-8 at its byte {place + 1}: save the file as UTF-8"


def problems(
    records: Iterable[tuple[str, int, Any]], read: Callable[[Any, str], object], name: str
) -> Iterator[Problem]:
    """The problems of records, each with where it is and its number; `read(record, where)` gives it in our form. One
    without an id is named by its number. `name`: of the file.

    Raises InvalidArgument with up to MOST_FAULTS faults, each with its place and field, at the end of the records or at
    the last of these faults; also where they hold no problem.
    """
    faults: list[InvalidProblem] = []
    seen: set[str] = set()
    for where, number, record in records:
        try:
            problem = read_record(read(record, where), where, default_id=f"{Path(name).stem}/{number}")
            if problem.id in seen:
                raise InvalidProblem(where, "id", f"{problem.id!r} is already the id of an earlier problem")
        except InvalidProblem as error:
            faults.append(error)
            if len(faults) == MOST_FAULTS:
                break
            continue
        seen.add(problem.id)
        if not faults:
            yield problem
    if faults:
        raise at_fault(faults)
    if not seen:
        raise InvalidProblem(name, "file", "holds no problems")


def at_fault(faults: Sequence[InvalidProblem]) -> InvalidArgument:
    """One sentence for all; a fault that many rows have is told once, with the first of them."""
    if len(faults) == 1:
        return faults[0]
    found: dict[str, list[str]] = {}
    for fault in faults:
        found.setdefault(f"{fault.path}: {fault.reason}", []).append(fault.where)
    sentences = [
        f"{rows[0]}{f' and {len(rows) - 1} more' if len(rows) > 1 else ''}: {text}" for text, rows in found.items()
    ]
    return InvalidArgument("; ".join(sentences) + ("; there may be more" if len(faults) == MOST_FAULTS else ""))


def write(problems: Iterable[Problem], path: str | Path) -> None:
    """One line a problem; `read` gives them back equal."""
    lines = "".join(json.dumps(problem.to_json(), ensure_ascii=False) + "\n" for problem in problems)
    Path(path).write_text(lines, encoding="utf-8")


def parse(line: str, where: str, *, default_id: str) -> Problem:
    """One line. Raises InvalidProblem with `where` and the field that is wrong."""
    return read_record(record(line, where), where, default_id=default_id)


def record(line: str, where: str) -> object:
    """The JSON of a line. Raises InvalidProblem."""
    try:
        return json_text.read(line)
    except json_text.NotJson as error:
        raise InvalidProblem(where, "line", str(error)) from error


def read_record(record: object, where: str, *, default_id: str) -> Problem:
    """The problem of one record. Raises as `parse`."""
    if not isinstance(record, dict):
        raise InvalidProblem(where, "line", f"must be a JSON object, not {_kind(record)}")
    if unknown := sorted(record.keys() - _FIELDS):
        raise InvalidProblem(where, unknown[0], f"unknown field; known are {', '.join(sorted(_FIELDS))}")
    try:
        prompt, conversation = _prompt(record, where)
        texts: dict[str, Any] = {"id": default_id}
        texts |= {name: _named(record, name, where) for name in _TEXTS if name in record}
        return Problem(
            prompt=prompt,
            conversation=conversation,
            tests=_tests(record, where),
            references=tuple(
                _typed(text, str, f"references[{index}]", where)
                for index, text in enumerate(_list(record, "references", where))
            ),
            difficulty=_typed(record.get("difficulty", 1), int, "difficulty", where),
            tags=tuple(
                _typed(text, str, f"tags[{index}]", where) for index, text in enumerate(_list(record, "tags", where))
            ),
            **texts,
        )
    except InvalidProblem as error:
        raise InvalidProblem(where, error.path, error.reason) from error


def messages(value: object, path: str, where: str) -> tuple[Message, ...]:
    """A conversation in OpenAI's form, one message or more. Raises InvalidProblem."""
    if not isinstance(value, list) or not value:
        raise InvalidProblem(where, path, "must be a list of messages")
    return tuple(_message(one, f"{path}[{place}]", where) for place, one in enumerate(value))


def _message(value: object, path: str, where: str) -> Message:
    if not isinstance(value, dict) or value.keys() != {"role", "content"}:
        raise InvalidProblem(where, path, "must have role and content, and nothing else")
    if value["role"] not in ROLES:
        raise InvalidProblem(where, f"{path}.role", f"must be one of {', '.join(ROLES)}")
    return Message(value["role"], spoken(value["content"], f"{path}.content", where))


def spoken(value: object, path: str, where: str) -> str:
    """A text that somebody says. Raises InvalidProblem for an empty one, and one that cannot be encoded."""
    if not isinstance(value, str) or not value.strip():
        raise InvalidProblem(where, path, "must be a text that is not empty")
    try:
        return check_encodable(value)
    except ValueError as error:
        raise InvalidProblem(where, path, str(error)) from error


def _prompt(record: Mapping[str, Any], where: str) -> tuple[str, tuple[Message, ...]]:
    """The user's last message, and what was said before."""
    if not isinstance(record.get("prompt"), list):
        return _text(record, "prompt", where, required=True), ()
    *before, last = messages(record["prompt"], "prompt", where)
    if last.role != "user":
        raise InvalidProblem(where, f"prompt[{len(before)}].role", f"must be user: the last message, not {last.role}'s")
    return last.content, tuple(before)


def _tests(record: Mapping[str, Any], where: str) -> tuple[TestCase, ...]:
    if "answer" in record:
        if record.get("tests"):
            raise InvalidProblem(where, "answer", "must be alone: a problem with a right answer has no tests beside it")
        return (_answer(record["answer"], "answer", where),)
    if not record.keys() & {"tests", "references"}:
        alone = "[] says that it has none, and a reward of your own judges it"
        raise InvalidProblem(where, "tests", f"must be there, or an answer or references; {alone}")
    found = _list(record, "tests", where)
    return tuple(_test(test, f"tests[{index}]", where) for index, test in enumerate(found))


def _answer(value: object, path: str, where: str) -> AnswerTest:
    """A text, a number, or a list of them."""
    found = value if isinstance(value, list) else [value]
    if any(isinstance(one, float) and not math.isfinite(one) for one in found):
        raise InvalidProblem(where, path, "must be a finite number, or a text")
    numbers = (str(one) if isinstance(one, int | float) and not isinstance(one, bool) else one for one in found)
    return AnswerTest(tuple(_typed(one, str, path, where) for one in numbers))


def _test(record: object, path: str, where: str) -> TestCase:
    if not isinstance(record, dict):
        raise InvalidProblem(where, path, f"must be an object, not {_kind(record)}")
    kind = next((name for name in _TEST_FIELDS if name in record), None)
    if kind is None:
        raise InvalidProblem(
            where,
            path,
            "must have args and expected, or args and raises, or stdin and expected_stdout, or check, or answer",
        )
    needed, optional = _TEST_FIELDS[kind]
    if missing := sorted(needed - record.keys()):
        raise InvalidProblem(where, f"{path}.{missing[0]}", "is missing")
    if unknown := sorted(record.keys() - needed - optional):
        raise InvalidProblem(where, f"{path}.{unknown[0]}", "does not belong to this kind of test")
    prefix = f"{path}."
    if "answer" in needed:
        return _answer(record["answer"], f"{prefix}answer", where)
    held_out = _flag(record, "held_out", where, prefix)
    if "check" in needed:
        names = [
            _typed(name, str, f"{prefix}names[{index}]", where)
            for index, name in enumerate(_list(record, "names", where, prefix))
        ]
        shared = _flag(record, "shared", where, prefix)
        return CheckTest(_text(record, "check", where, prefix), held_out, tuple(names), shared)
    if "stdin" in needed:
        stdin, expected = _text(record, "stdin", where, prefix), _text(record, "expected_stdout", where, prefix)
        return StdioTest(stdin, expected, held_out, _tolerance(record, path, where))
    return _call_test(record, path, where, held_out)


def _call_test(record: Mapping[str, Any], path: str, where: str, held_out: bool) -> CallTest:
    """In the literal form both are strings; a list of arguments says that `expected` is a JSON value too."""
    args = record["args"]
    if not isinstance(args, list | str):
        raise InvalidProblem(where, f"{path}.args", f"must be a list or the literal of one, not {_kind(args)}")
    literal = args if isinstance(args, str) else _written(args, f"{path}.args", where)
    if "raises" in record:
        return CallTest(literal, raises=_text(record, "raises", where, f"{path}."), held_out=held_out)
    expected = record["expected"]
    field = f"{path}.expected"
    expected = _typed(expected, str, field, where) if isinstance(args, str) else _written(expected, field, where)
    tolerance, unordered = _tolerance(record, path, where), _flag(record, "unordered", where, f"{path}.")
    return CallTest(literal, expected, tolerance, unordered=unordered, held_out=held_out)


def _written(value: object, path: str, where: str) -> str:
    """The literal of a JSON value."""
    try:
        return syntax.write(value)
    except RecursionError as error:
        raise InvalidProblem(where, path, "is nested too deeply") from error


def _tolerance(record: Mapping[str, Any], path: str, where: str) -> float | None:
    if "tolerance" not in record:
        return None
    value = _typed(record["tolerance"], (int, float), f"{path}.tolerance", where)
    return float(value) if isinstance(value, float) or abs(value) <= 1 << 53 else math.inf  # which is refused


def _flag(record: Mapping[str, Any], name: str, where: str, prefix: str) -> bool:
    value = record.get(name, False)
    if not isinstance(value, bool):
        raise InvalidProblem(where, f"{prefix}{name}", f"must be true or false, not {_kind(value)}")
    return value


def _text(record: Mapping[str, Any], name: str, where: str, prefix: str = "", *, required: bool = False) -> str:
    if required and name not in record:
        raise InvalidProblem(where, f"{prefix}{name}", "is missing")
    return str(_typed(record[name], str, f"{prefix}{name}", where))


def _named(record: Mapping[str, Any], name: str, where: str) -> str:
    text = _text(record, name, where)
    return language_of(text) if name == "language" else text


def _list(record: Mapping[str, Any], name: str, where: str, prefix: str = "", *, required: bool = False) -> list[Any]:
    if required and name not in record:
        raise InvalidProblem(where, f"{prefix}{name}", "is missing")
    return list(_typed(record.get(name, []), list, f"{prefix}{name}", where))


def _typed(value: Any, kind: type | tuple[type, ...], path: str, where: str) -> Any:
    if not isinstance(value, kind) or isinstance(value, bool):
        names = {str: "text", int: "a whole number", list: "a list"}
        wanted = names[kind] if isinstance(kind, type) else "a number"
        raise InvalidProblem(where, path, f"must be {wanted}, not {_kind(value)}")
    return value


def _kind(value: object) -> str:
    names = {dict: "an object", list: "a list", str: "text", bool: "true or false", type(None): "null", bytes: "bytes"}
    return names.get(type(value), "a number" if isinstance(value, int | float) else type(value).__name__)
