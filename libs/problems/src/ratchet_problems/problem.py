"""A problem: a prompt, what judges an answer to it (tests, or the right answer), and references that pass."""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, ClassVar

from ratchet_kit import json_text, syntax
from ratchet_kit.errors import InvalidArgument
from ratchet_kit.text import clip
from ratchet_problems.languages import LANGUAGES, PYTHON
from ratchet_problems.messages import Message, records, under

_OF_JSON = re.compile(r"\b(?:null|true|false|Infinity|NaN)\b")
MIN_DIFFICULTY = 1
MAX_DIFFICULTY = 5
ROLES = ("system", "user", "assistant")
"""Speakers of the messages of a prompt."""


class InvalidProblem(InvalidArgument):
    """A problem that cannot be used, and the reason.

    `where` says what to look at ("set.jsonl line 3", or a problem id), `path` the field in it ("tests[0].args").
    """

    def __init__(self, where: str, path: str, reason: str) -> None:
        self.where = where
        self.path = path
        self.reason = reason
        super().__init__(f"{where}: {path}: {reason}")


@dataclass(frozen=True, slots=True)
class CallTest:
    """Call the entry point and compare what it returns.

    `args` is the Python literal of the list of positional arguments ("[[1, 2], 3]"), `expected` the literal of the
    value. Literals and not JSON, so that tuples, sets and dictionaries with number keys keep their type.
    """

    args: str
    expected: str = ""
    tolerance: float | None = None
    """Where a float is expected: absolute and relative; None is the grader's (1e-6, relative alone), 0 is exact."""
    raises: str = ""
    """The name of the exception expected in place of a value: of its own type, or of one that it's a kind of."""
    unordered: bool = False
    """The elements of the expected list or tuple may come in any order."""
    held_out: bool = False

    @classmethod
    def of(cls, args: Sequence[object], expected: object) -> "CallTest":
        return cls(args=syntax.write(list(args)), expected=syntax.write(expected))

    def to_json(self) -> dict[str, Any]:
        record: dict[str, Any] = {"args": self.args}
        record |= {"raises": self.raises} if self.raises else {"expected": self.expected}
        record |= {} if self.tolerance is None else {"tolerance": self.tolerance}
        more = {"unordered": self.unordered, "held_out": self.held_out}
        return record | {name: value for name, value in more.items() if value}


MOST_TEXT_BYTES = 16 << 20
"""Bytes of a test's standard input, and of the output that it expects."""


@dataclass(frozen=True, slots=True)
class StdioTest:
    """Run the program as a script on `stdin` and compare what it prints, by whitespace-separated tokens."""

    stdin: str
    expected_stdout: str
    held_out: bool = False
    tolerance: float | None = None
    """Where a decimal number is expected: absolute or relative; None compares tokens as they are printed."""

    def to_json(self) -> dict[str, Any]:
        tolerance = {} if self.tolerance is None else {"tolerance": self.tolerance}
        return {"stdin": self.stdin, "expected_stdout": self.expected_stdout} | tolerance | _held_out(self)


@dataclass(frozen=True, slots=True)
class CheckTest:
    """Opaque Python test code: `def check(candidate): ...`, which is given the entry point, plain asserts, tests of
    pytest, unittest or doctest, a script. In another language: code that stands after the program, and fails by its
    exit status."""

    code: str
    held_out: bool = False
    names: tuple[str, ...] = ()
    """Names of the program that it uses beside the entry point; it sees nothing else of it."""
    shared: bool = False
    """It runs in the program's process, for what can't be tested from outside. The program could forge its result."""

    def to_json(self) -> dict[str, Any]:
        names = {"names": list(self.names)} if self.names else {}
        return {"check": self.code} | names | ({"shared": True} if self.shared else {}) | _held_out(self)


MOST_ANSWER = 1_000
"""Characters of a right answer."""
_MOST_ACCEPTED = 100


@dataclass(frozen=True, slots=True)
class AnswerTest:
    """Compare what is answered with the right answer, as mathematics or as words: nothing of it is a program. It is the
    only test of its problem, and is never shown."""

    accepted: tuple[str, ...]
    """Each of them is right: "42", "\\frac{1}{2}", "Paris"."""
    held_out: ClassVar[bool] = False

    def to_json(self) -> dict[str, Any]:
        return {"answer": list(self.accepted) if len(self.accepted) > 1 else self.accepted[0]}


TestCase = CallTest | StdioTest | CheckTest | AnswerTest
"""`held_out`: it counts, and neither the test nor what the program said to it is ever shown."""


def _held_out(test: StdioTest | CheckTest) -> dict[str, Any]:
    return {"held_out": True} if test.held_out else {}


def is_entry_point(name: str) -> bool:
    """`f`, a function or class, or `Solution.f`: the method f of a new Solution."""
    parts = name.split(".")
    return len(parts) <= 2 and all(part.isidentifier() for part in parts)


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem. Raises InvalidProblem when its parts do not make one.

    `references` are complete programs that pass all tests, or solutions that end with a right answer, the preferred one
    first; they may be missing in user sets. So may the tests: a reference can be learned from (SFT), and where there is
    neither, a reward of one's own or a reward model says what an answer is worth.
    `structure` names what the problem is made of; splits never share a structure. Empty: the problem stands alone.
    """

    id: str
    prompt: str
    tests: tuple[TestCase, ...]
    entry_point: str = ""
    references: tuple[str, ...] = ()
    difficulty: int = 1
    source: str = "user"
    licence: str = ""
    structure: str = ""
    tags: tuple[str, ...] = ()
    """Its subjects ("graphs", "pandas"): scores are also given by tag."""
    conversation: tuple[Message, ...] = ()
    """The messages before the prompt, which is the user's last one."""
    language: str = PYTHON
    """One of LANGUAGES."""
    examples: "tuple[Problem, ...]" = field(default=(), compare=False, repr=False)
    """Solved problems that are shown before this one; no part of it. See `examples.before`."""
    digest: str = field(init=False, compare=False)
    """sha256 (hex) over everything above but the examples: two problems with one digest are the same problem."""

    def __post_init__(self) -> None:
        for name in ("id", "prompt"):
            if not getattr(self, name).strip():
                raise InvalidProblem(self.id or "problem", name, "must not be empty")
        for name in ("id", "structure"):
            if "\x00" in getattr(self, name):
                raise InvalidProblem(clip(repr(self.id), 60), name, "must not hold NUL")
        if self.entry_point and not is_entry_point(self.entry_point):
            raise InvalidProblem(
                self.id, "entry_point", f"{self.entry_point!r} is neither a Python name nor Class.method"
            )
        if not MIN_DIFFICULTY <= self.difficulty <= MAX_DIFFICULTY:
            raise InvalidProblem(
                self.id,
                "difficulty",
                f"must be {MIN_DIFFICULTY} to {MAX_DIFFICULTY}",
            )
        if self.language not in LANGUAGES:
            raise InvalidProblem(
                self.id, "language", f"must be one of {', '.join(LANGUAGES)}, not {clip(repr(self.language), 40)}"
            )
        for index, message in enumerate(self.conversation):
            self._check_message(message, index)
        for index, test in enumerate(self.tests):
            self._check_test(test, f"tests[{index}]")
        try:
            object.__setattr__(self, "digest", _sha256(self.to_json()))
        except UnicodeEncodeError as error:
            where = self.id.encode("ascii", "backslashreplace").decode()
            raise InvalidProblem(where, "text", "must not hold an unpaired surrogate") from error

    def _check_message(self, message: Message, index: int) -> None:
        path = f"prompt[{index}]"
        if message.role not in ROLES:
            raise InvalidProblem(
                self.id, f"{path}.role", f"must be one of {', '.join(ROLES)}, not {clip(repr(message.role), 60)}"
            )
        if not message.content.strip():
            raise InvalidProblem(self.id, f"{path}.content", "must not be empty")

    def _check_test(self, test: TestCase, path: str) -> None:
        if self.language != PYTHON:
            self._check_foreign(test, path)
        match test:
            case CallTest():
                if not self.entry_point:
                    raise InvalidProblem(self.id, "entry_point", f"{path} calls a function: name it")
                if fault := _fault_of_literal(test.args, list):
                    raise InvalidProblem(self.id, f"{path}.args", fault)
                if test.raises and test.expected:
                    raise InvalidProblem(self.id, f"{path}.expected", "must be left out where an exception is expected")
                if test.raises and not test.raises.isidentifier():
                    raise InvalidProblem(self.id, f"{path}.raises", f"not the name of a type: {test.raises[:60]!r}")
                if not test.raises and (fault := _fault_of_literal(test.expected, object)):
                    raise InvalidProblem(self.id, f"{path}.expected", fault)
                if test.unordered and _fault_of_literal(test.expected, (list, tuple)):
                    raise InvalidProblem(self.id, f"{path}.unordered", "is for an expected list or tuple")
                self._check_tolerance(test, path)
            case CheckTest():
                if not test.code.strip():
                    raise InvalidProblem(self.id, f"{path}.check", "must not be empty")
                for name in test.names:
                    if not name.isidentifier():
                        raise InvalidProblem(self.id, f"{path}.names", f"not a Python name: {name[:60]!r}")
                if test.shared and test.held_out:
                    raise InvalidProblem(self.id, f"{path}.shared", "a program sees what shares its process")
            case StdioTest():
                for name in ("stdin", "expected_stdout"):
                    text = getattr(test, name)
                    if len(text) * 4 > MOST_TEXT_BYTES and len(text.encode("utf-8", "replace")) > MOST_TEXT_BYTES:
                        raise InvalidProblem(self.id, f"{path}.{name}", f"is longer than {MOST_TEXT_BYTES} bytes")
                self._check_tolerance(test, path)
            case AnswerTest():
                self._check_answer(test)

    def _check_answer(self, test: AnswerTest) -> None:
        if len(self.tests) > 1:
            raise InvalidProblem(self.id, "answer", "must be alone: such a problem has no other test")
        if self.entry_point or self.language != PYTHON:
            field = "entry_point" if self.entry_point else "language"
            raise InvalidProblem(self.id, field, "must be left out: the problem has a right answer, and no program")
        if not 1 <= len(test.accepted) <= _MOST_ACCEPTED:
            raise InvalidProblem(self.id, "answer", f"must be 1 to {_MOST_ACCEPTED} texts, not {len(test.accepted)}")
        for text in test.accepted:
            if not text.strip() or "\x00" in text:
                raise InvalidProblem(self.id, "answer", "must not be empty, nor hold NUL")
            if len(text) > MOST_ANSWER:
                reason = f"has {len(text)} characters, {MOST_ANSWER} at most: give the final answer alone"
                raise InvalidProblem(self.id, "answer", reason)

    def _check_foreign(self, test: TestCase, path: str) -> None:
        """Nothing can be called from outside there."""
        if isinstance(test, CallTest):
            reason = f"is for Python: a problem in {self.language} has tests by stdin, or a check that is shared"
            raise InvalidProblem(self.id, path, reason)
        if isinstance(test, CheckTest) and not test.shared:
            reason = f"must be true: a check in {self.language} is code that stands after the program"
            raise InvalidProblem(self.id, f"{path}.shared", reason)

    def _check_tolerance(self, test: CallTest | StdioTest, path: str) -> None:
        if test.tolerance is not None and not 0 <= test.tolerance < float("inf"):
            raise InvalidProblem(self.id, f"{path}.tolerance", "must be a finite number, 0 or more")

    @property
    def messages(self) -> tuple[Message, ...]:
        """The whole prompt, as a chat."""
        return (*self.conversation, Message("user", self.prompt))

    def under(self, system: str) -> "Problem":
        """The problem with a message of the system first, unless it has one. An empty one changes nothing."""
        conversation = under(system, self.conversation)
        return self if conversation is self.conversation else replace(self, conversation=conversation)

    @property
    def shown(self) -> str:
        """The whole prompt as people read it."""
        said = [f"{message.role}: {message.content}" for message in self.messages]
        return "\n\n".join(said) if self.conversation else self.prompt

    @property
    def answers(self) -> tuple[str, ...]:
        """The right answers of a problem that is judged by its answer; empty where programs are."""
        first = self.tests[0] if self.tests else None
        return first.accepted if isinstance(first, AnswerTest) else ()

    @property
    def forgeable(self) -> bool:
        """True where tests share the program's process, which could forge their results."""
        return any(isinstance(test, CheckTest) and test.shared for test in self.tests)

    def to_json(self) -> dict[str, Any]:
        """The record of one line of JSONL; `ratchet_problems.jsonl` reads it back."""
        # none, and Python: the digest is what it was before there were any
        more: dict[str, Any] = {"tags": list(self.tags)} if self.tags else {}
        more |= {"language": self.language} if self.language != PYTHON else {}
        return {
            "id": self.id,
            "prompt": records(self.messages) if self.conversation else self.prompt,
            "entry_point": self.entry_point,
            "tests": [test.to_json() for test in self.tests],
            "references": list(self.references),
            "difficulty": self.difficulty,
            "source": self.source,
            "licence": self.licence,
            "structure": self.structure,
        } | more


def data_digest(problems: Iterable[Problem]) -> str:
    """`sha256:<hex>` of a set of problems, whatever their order: what a run's lineage records as its data."""
    return digest_of(problem.digest for problem in problems)


def digest_of(digests: Iterable[str]) -> str:
    """`data_digest` of the problems with these digests."""
    lines = "".join(f"{digest}\n" for digest in sorted(digests))
    return f"sha256:{hashlib.sha256(lines.encode()).hexdigest()}"


@lru_cache(maxsize=65536)  # sets repeat their tests
def _fault_of_literal(text: str, kind: type | tuple[type, ...]) -> str:
    """Empty for the literal of such a value."""
    try:
        if isinstance(syntax.value(text), kind):
            return ""
    except json_text.NotJson as error:  # of a number's length
        return str(error)
    except (MemoryError, RecursionError):
        return "is nested too deeply"
    except (ValueError, SyntaxError, TypeError) as error:
        if "nested parentheses" in str(error):
            return "is nested too deeply"
    named = _OF_JSON.search(text)
    hint = f" (Python has no {named[0]}: it writes None, True, False, inf and nan)" if named else ""
    return f"not {'a Python literal' if kind is object else 'the literal of a list'}: {clip(repr(text), 60)}{hint}"


def _sha256(record: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(record, sort_keys=True, ensure_ascii=False).encode()).hexdigest()
