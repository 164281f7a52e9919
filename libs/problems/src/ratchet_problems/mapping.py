"""Tables of other projects as problems: which column is what, and how its values are read.

    prompt <- question, tests <- input_output, references <- solutions

A column that is named like a field, or as public sets name it, is taken for that field; what is mapped by hand comes
first. Tests are read by what they are: records of ours, a text of Python, a list of assertions (MBPP), a JSON object of
inputs and outputs (APPS, TACO). Without such a column one of answers has the right ones (GSM8K, MATH, verl's
`reward_model`). A text that such a question is about (SQuAD's `context`) stands before it. Conversations are in
OpenAI's form; the answer that one of `messages` ends with is its reference.
"""

import csv
import gzip
import json
import re
import sys
import tempfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from ratchet_kit import json_text
from ratchet_kit.errors import InvalidArgument
from ratchet_problems import answers, jsonl, tables
from ratchet_problems.entry_points import entry_point_of
from ratchet_problems.languages import PYTHON, is_language, language_of
from ratchet_problems.problem import InvalidProblem, Problem

MESSAGES = "messages"
"""A column of OpenAI's and of TRL's: a whole conversation, answer included."""
FIELDS: Mapping[str, Sequence[str]] = {
    "id": ("id", "task_id", "question_id", "problem_id", "name"),
    "prompt": (
        "problem_description",
        "prompt",
        "question",
        "instruction",
        "text",
        "problem",
        "description",
        MESSAGES,
    ),
    "context": ("context", "passage"),
    "tests": ("tests", "test", "test_list", "input_output", "test_cases"),
    "answer": ("answer", "answers", "final_answer", "expected_answer", "ground_truth", "reward_model"),
    "entry_point": ("entry_point", "fn_name", "function_name"),
    "references": ("references", "canonical_solution", "solution", "solutions", "code", "completion"),
    "language": ("language", "lang", "programming_language"),
    "tags": ("tags",),
    "source": ("source",),
    "licence": ("licence", "license"),
    "structure": ("structure",),
    "difficulty": ("difficulty",),
}
"""A field of a problem, and the names of columns that are taken for it, the first that is there."""
SETUP = ("test_setup_code", "test_imports")
"""Columns of MBPP whose code stands before a list of assertions: a text, or a list."""
SUFFIXES = (".jsonl", ".json", ".csv", ".parquet", ".arrow")
PACKED = ".gz"
_DIFFICULTY = {"easy": 1, "medium": 3, "hard": 5}
_LEVEL = re.compile(r"Level (\d)")
_CLOSING = re.compile(r"\s*\}")
_TUPLES = "import org.javatuples.*;\n"
"""A line of all of MultiPL-E's prompts in Java, whose library few of them use."""
_TUPLE = re.compile(r"\b(?:Unit|Pair|Triplet|Quartet|Quintet|Sextet|Septet|Octet|Ennead|Decade)\b")
_JAVA_CLASS = re.compile(r"^(?:public[ \t]+)?class[ \t]+(\w+)", re.MULTILINE)
_GO_IMPORT = re.compile(r"^import[ \t]*(?:\([^()]*\)|[^\n(]+)", re.MULTILINE)
_GO_STRINGS = re.compile(r'"([^"\n]+)"')
MOST_BYTES = 8 << 30
"""The size that a packed file may unpack to."""
MOST_NUMBER = 10**18
"""An id that is a number is below it."""
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Columns:
    """The column that each field is read from."""

    of: Mapping[str, str]
    unused: Sequence[str]
    language: str = ""
    """The language of all rows, where no column says it."""
    prompts_alone: bool = False
    """A row may have neither tests nor an answer nor a reference."""

    def __str__(self) -> str:
        used = ", ".join(field if field == column else f"{field} <- {column}" for field, column in self.of.items())
        used += f", language <- all {self.language}" if self.language else ""
        return used + (f"; unused: {', '.join(self.unused)}" if self.unused else "")


def columns(names: Iterable[str], wanted: Mapping[str, str]) -> Columns:
    """`wanted`: columns by field, as a user maps them; an empty one: the field is not read. That of language may be
    a language, which all rows are in.

    Raises InvalidArgument for an unknown field or column, where no column is the prompt, or none says what is right
    (tests, answer, references), and for both tests and an answer.
    """
    names = list(dict.fromkeys(names))
    language = wanted.get("language", "")
    if language and language not in names and is_language(language):
        wanted = {**wanted, "language": ""}
    else:
        language = ""
    for field, column in wanted.items():
        if field not in FIELDS:
            raise InvalidArgument(f"a problem has no field {field!r}; it has {', '.join(FIELDS)}")
        if column and column not in names:
            raise InvalidArgument(f"there is no column {column!r}; there are {', '.join(names)}")
    if "tests" not in wanted and {"base_input", "plus_input"} <= set(names):
        raise InvalidArgument(
            "these are rows of EvalPlus, whose tests are inputs: `ratchet data fetch humaneval+` (or mbpp+) brings them"
        )
    found = dict(wanted)  # empty: no column
    for field, known in FIELDS.items():
        if field == "answer" and found.get("tests"):  # FIELDS has tests before
            continue
        if field not in found and (column := next((one for one in known if one in names), "")):
            found[field] = column
    if {"query", "response"} <= set(names) and found.get("prompt") == "prompt" and "prompt" not in wanted:
        found["prompt"] = "query"  # LeetCodeDataset's prompt is what its programs import
    if found.get("prompt") == MESSAGES:
        found.setdefault("references", MESSAGES)
    found = {field: column for field, column in found.items() if column}
    if "answer" not in found and "context" not in wanted:
        found.pop("context", None)  # of code it may be anything
    if {"tests", "answer"} <= set(found):
        raise InvalidArgument("tests and answer cannot both be mapped: a problem has tests, or a right answer")
    prompts_alone = wanted.get("tests") == "" and "answer" not in found
    is_judged = {"tests", "answer", "references"} & set(found) or prompts_alone
    if "prompt" not in found or not is_judged:
        missing = "prompt" if "prompt" not in found else "tests"
        if not names:
            raise InvalidArgument("there is no row with a column")
        likely = [name for name in names if name not in (*FIELDS["id"], found.get("prompt"))]
        likely.sort(key=lambda name: missing.rstrip("s") not in name)
        example = f"{missing}={(likely or names)[0]}"
        alone = "; or tests= (no column) for prompts alone, which a reward of your own judges" * (missing == "tests")
        raise InvalidArgument(f"no column is the {missing}: map one of {', '.join(names)}, such as {example}{alone}")
    return Columns(found, [name for name in names if name not in (*found.values(), *SETUP)], language, prompts_alone)


def plain_name(path: Path) -> str:
    """The file's name without the ending of a packed one."""
    return path.name.removesuffix(PACKED)


def is_readable(path: Path) -> bool:
    """By its ending, whether `rows` reads it."""
    return Path(plain_name(path)).suffix in SUFFIXES


def rows(path: Path) -> Iterator[tuple[str, Row]]:
    """Each row of a file, which may be packed, with where it is, such as "mine.csv line 3". Raises InvalidArgument."""
    if path.suffix == PACKED:
        with tempfile.TemporaryDirectory(prefix="ratchet-data-") as folder:
            yield from rows(_unpacked(path, Path(folder, plain_name(path))))
        return
    match path.suffix:
        case ".jsonl":
            found: Iterable[tuple[str, object]] = (
                (f"{path.name} line {number}", jsonl.record(line, f"{path.name} line {number}"))
                for number, line in jsonl.numbered_lines(path)
            )
        case ".json":
            found = ((f"{path.name} row {number}", row) for number, row in enumerate(_list(path), 1))
        case ".csv":
            found = _csv(path)
        case ".parquet" | ".arrow":
            found = ((f"{path.name} row {number}", row) for number, row in enumerate(tables.rows(path, path.name), 1))
        case other:
            raise InvalidArgument(
                f"{path.name}: {other or 'a file without an ending'} is not one of {', '.join(SUFFIXES)}"
            )
    for where, row in found:
        if not isinstance(row, dict):
            raise InvalidArgument(f"{where} is not an object")
        yield where, row


def problems(path: Path, mapped: Columns) -> Iterator[Problem]:
    """The problems of a file. Raises as `tables.checked`."""
    records = ((where, number, row) for number, (where, row) in enumerate(rows(path), 1))
    return jsonl.problems(records, partial(_record, mapped), plain_name(path))


def _record(mapped: Columns, row: Row, where: str) -> dict[str, Any]:
    given = {field: row[column] for field, column in mapped.of.items() if row.get(column) is not None}
    plain = ("source", "licence", "structure", "language")
    record: dict[str, Any] = {name: given[name] for name in plain if given.get(name)}
    if mapped.language:
        record["language"] = mapped.language
    if "id" in given:
        is_number = isinstance(given["id"], int) and abs(given["id"]) < MOST_NUMBER
        record["id"] = str(given["id"]) if is_number else given["id"]
    if "prompt" in given:
        record["prompt"] = _prompt(given["prompt"], answered=mapped.of["prompt"] == mapped.of.get("references"))
    if isinstance(context := given.get("context"), str) and context.strip() and isinstance(record.get("prompt"), str):
        record["prompt"] = f"{context.strip()}\n\n{record['prompt']}"
    if given.get("entry_point"):
        name = given["entry_point"]
        record["entry_point"] = name.replace("().", ".") if isinstance(name, str) else name  # LeetCode's
    if (difficulty := _difficulty(given.get("difficulty"))) is not None:
        record["difficulty"] = difficulty
    if given.get("tags"):
        record["tags"] = _texts(given["tags"], where, "tags")
    if given.get("references") and (references := _answers(given["references"], where)):
        record["references"] = references
    if mapped.prompts_alone:
        record["tests"] = []
    if given.get("answer") is not None:
        try:
            record["answer"], solution = answers.read(given["answer"])
        except InvalidArgument as error:
            raise InvalidProblem(where, "answer", error.message) from error
        if solution:
            record.setdefault("references", [solution])
        elif mapped.of["answer"].startswith("solution"):
            raise InvalidProblem(where, "answer", "must be marked in a solution, by \\boxed{...} or ####")
    if given.get("tests"):
        setup = [one for column in SETUP for one in _texts(row.get(column) or [], where, column)]
        record["tests"], entry_point = _tests(given["tests"], setup, where)
        if language_of(str(record.get("language", PYTHON))) != PYTHON:
            prompt = str(record.get("prompt", ""))
            after = partial(_after_program, language_of(str(record["language"])), prompt)
            record["tests"] = [after(one) for one in record["tests"]]
            if _TUPLES in prompt and not _TUPLE.search(f"{prompt}{record['tests']}"):
                record["prompt"] = prompt.replace(_TUPLES, "", 1)
            return record
        code = "\n".join(one["check"] for one in record["tests"] if isinstance(one, dict) and "check" in one)
        if code and not entry_point:  # nobody says which function they are about
            entry_point = entry_point_of(code, "\n".join(map(str, record.get("references", ()))))
        if entry_point:
            record.setdefault("entry_point", entry_point)
    return record


def _difficulty(value: object) -> int | None:
    """A number, MATH's "Level 3" or LeetCode's "Easy"; None for any other."""
    if isinstance(value, str) and value.lower() in _DIFFICULTY:
        return _DIFFICULTY[value.lower()]
    if isinstance(value, str) and (found := _LEVEL.fullmatch(value)):
        return int(found[1])
    return value if isinstance(value, int) else None


def _after_program(language: str, prompt: str, test: Any) -> Any:
    """Code in another language; MultiPL-E's begins with the braces that end what its prompt begins, Java's goes on in
    the prompt's class, Go's uses what its prompt imports."""
    if not isinstance(test, dict) or "check" not in test:
        return test
    code = str(test["check"])
    if _CLOSING.match(code):
        code = _CLOSING.sub("", code, count=1)
        if language == "java" and (name := _JAVA_CLASS.search(prompt)):
            code = f"class TestsOf{name[1]} extends {name[1]} {{\n{code}"
    if language == "go" and not _GO_IMPORT.search(code):
        used = [one for one in _GO_STRINGS.findall(_imports_of(prompt)) if f"{one.rpartition('/')[2]}." in code]
        code = "".join(f'import "{one}"\n' for one in used) + code
    return {"check": code, "shared": True}


def _imports_of(prompt: str) -> str:
    return "\n".join(one[0] for one in _GO_IMPORT.finditer(prompt))


def _prompt(value: object, *, answered: bool) -> object:
    """A text, or the messages of a conversation. `answered`: it may end with an answer, which is no part of it."""
    if not isinstance(value, list):
        return value
    messages = [_message(one) for one in value]
    is_answer = answered and messages and isinstance(messages[-1], dict) and messages[-1].get("role") == "assistant"
    return messages[:-1] if is_answer else messages


def _message(value: object) -> object:
    """With OpenAI's newer name of the system, and parts of text put together."""
    match tables.without_none(value):
        case {"role": "developer", **others}:
            return _message({"role": "system", **others})
        case {"content": [*parts], **others} if all(isinstance(part, dict) and "text" in part for part in parts):
            return {**others, "content": "".join(str(part["text"]) for part in parts)}
        case message:
            return message


def _answers(value: object, where: str) -> list[Any]:
    """The references of a column: texts, or the answer that a conversation ends with."""
    match value:
        case [*_, {"role": role} as last]:
            message = _message(last)
            return [message.get("content")] if role == "assistant" and isinstance(message, dict) else []
    return _texts(value, where, "references")


def _texts(value: object, where: str, field: str) -> list[Any]:
    """A text is a list of one, unless it is a list as JSON."""
    if isinstance(value, str):
        if not value.lstrip().startswith("["):
            return [value]
        try:
            value = json_text.read(value)
        except json_text.NotJson:
            return [value]
    if not isinstance(value, list):
        raise InvalidProblem(where, field, "must be a text or a list of texts")
    return value


def _tests(value: Any, setup: Sequence[str], where: str) -> tuple[list[Any], str]:
    """The tests, and the entry point where they name it. `setup`: code before assertions."""
    if isinstance(value, str):
        try:
            value = json_text.read(value)
        except json_text.NotJson:
            return [{"check": value}], ""
    match value:
        case {"inputs": list(inputs), "outputs": list(outputs), **others}:
            return _pairs(inputs, outputs, str(others.get("fn_name") or ""), where)
        case [str(), *_]:
            return [{"check": "\n".join(map(str, (*setup, *value)))}], ""
        case [{"input": str(), "output": str() | [str()]}, *_]:
            return _pairs([one.get("input") for one in value], [one.get("output") for one in value], "", where)
        case list():
            return [tables.without_none(one) for one in value], ""
    raise InvalidProblem(where, "tests", "must be records, Python, a list of assertions, or inputs and outputs")


def _pairs(inputs: list[Any], outputs: list[Any], entry_point: str, where: str) -> tuple[list[Any], str]:
    if len(inputs) != len(outputs):
        raise InvalidProblem(where, "tests", f"{len(inputs)} inputs stand beside {len(outputs)} outputs")
    pairs = zip(inputs, outputs, strict=True)
    if entry_point:
        return [{"args": args, "expected": expected} for args, expected in pairs], entry_point
    return [{"stdin": _lines(given), "expected_stdout": _lines(expected)} for given, expected in pairs], ""


def _lines(value: object) -> str:
    return "\n".join(map(str, value)) if isinstance(value, list) else str(value)


def _unpacked(path: Path, target: Path) -> Path:
    try:
        with gzip.open(path) as packed, target.open("wb") as file:
            while data := packed.read(1 << 20):
                file.write(data)
                if file.tell() > MOST_BYTES:
                    raise InvalidArgument(f"{path.name} unpacks to more than {MOST_BYTES >> 30} GiB")
    except (OSError, EOFError, zlib.error) as error:
        raise InvalidArgument(f"{path.name} is not a complete gzip file: {error}") from error
    return target


def _list(path: Path) -> list[Any]:
    try:
        found = json_text.read(path.read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError, json_text.NotJson) as error:
        raise InvalidArgument(f"{path.name} cannot be read: {error}") from error
    if not isinstance(found, list):
        raise InvalidArgument(f"{path.name} must be a list of objects; not {json.dumps(found)[:60]}")
    return found


def _csv(path: Path) -> Iterator[tuple[str, Row]]:
    csv.field_size_limit(sys.maxsize)
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file, strict=True)
            names = list(reader.fieldnames or ())
            if len(names) == 1 and ";" in names[0]:
                raise InvalidArgument(f"{path.name} has its columns separated by semicolons: write it with commas")
            if len(set(names)) < len(names):
                raise InvalidArgument(f"{path.name} names a column twice in its first line")
            for row in reader:
                if None in row or None in row.values():
                    raise InvalidArgument(
                        f"{path.name} line {reader.line_num} has not as many fields as the first line"
                    )
                yield f"{path.name} line {reader.line_num}", {name: value for name, value in row.items() if value}
    except UnicodeDecodeError as error:
        raise InvalidArgument(f"{path.name} is not UTF-8 text") from error
    except (OSError, csv.Error) as error:
        raise InvalidArgument(f"{path.name} cannot be read: {error}") from error
