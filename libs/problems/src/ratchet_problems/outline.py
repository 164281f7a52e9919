"""Python source, read without a parser: its statements, what they define and import, and where its strings are.

A parser's cost is its input's to choose: a few hundred bytes take seconds of some, and gigabytes of a compiler. This
reads any text, Python or not, in time and memory in proportion to its length, and never raises.
"""

import functools
import keyword
import re
from collections.abc import Iterator
from dataclasses import dataclass

MOST = 1 << 16
"""Characters of a source that is read for what is in it. A microsecond or so goes for each."""

_TOKEN = re.compile(r"'''|\"\"\"|['\"]|#[^\r\n]*+|[(\[{]++|[)\]}]++|\\(?:\r\n|\r|\n)|\r\n|\r|\n")
_REST = {quote: re.compile(rf"(?:[^{quote}\\\r\n]|\\(?:\r\n|.))*+", re.DOTALL) for quote in "'\""}
_PREFIX = re.compile(r"(?<!\w)[rRbBuUfF]{1,2}\Z")
_MARGIN = re.compile(r"[ \t\f]*+")
_DEFINITION = re.compile(r"(?:async\s+)?def\s+(\w+)|class\s+(\w+)")
_IMPORT = re.compile(r"import\s+(.*)")
_FROM = re.compile(r"from\s+(\S+)\s+import\b(.*)")
_TARGETS = re.compile(r"[\w\s,()\[\]*.]+(?::[^=]*)?")
_EQUALS = re.compile(r"(?<![=!<>+\-*/%&|^@:])=(?!=)")
_WORD = re.compile(r"[^\W\d]\w*")
_GOES_ON = ("else", "elif", "except", "finally")
_COMPOUND = frozenset({"if", "try", "with", "for", "while", "async", "match"})
_HALF = (*tuple("+-*/%=<>&|^~."), " and", " or", " not", " in", " is", " if", " else", " import")
_TAB = 8


@dataclass(frozen=True, slots=True)
class Statement:
    """A logical line. `start` and `end` are offsets of its text with its margin and its line break; `code` is it in one
    line, with its strings empty and its comments gone; a string that its line tears is one quote. `torn`: it ends
    within a bracket or a string."""

    start: int
    end: int
    indent: int
    code: str
    torn: bool

    @property
    def word(self) -> str:
        """Its first word, if it begins with one."""
        match = _WORD.match(self.code)
        return match[0] if match else ""


@dataclass(frozen=True, slots=True)
class Part:
    """A part that begins at the margin, with body and decorators. `names`: what it binds; "*" for all of a module."""

    start: int
    end: int
    kind: str
    """import, function, class, assignment; "" for what else there is."""
    names: frozenset[str]
    torn: bool
    """It ends within a bracket or a string, or before its body."""


def statements(source: str, start: int = 0) -> Iterator[Statement]:
    """From the line that begins at `start`, one by one: what isn't asked for isn't read."""
    begin, at, depth, torn = start, start, 0, False
    code: list[str] = []
    while at < len(source):
        match = _TOKEN.search(source, at)
        code.append(source[at : match.start() if match else len(source)])
        if not match:
            break
        token, at = match[0], match.end()
        if token[0] in "'\"":
            code[-1] = _PREFIX.sub("", code[-1])
            at, closed = _skip_string(source, at, token)
            torn = torn or not closed
            code.append('""' if closed or len(token) == 3 else '"')
        elif token[0] in "([{)]}":
            depth = max(0, depth + (len(token) if token[0] in "([{" else -len(token)))
            code.append(token)
        elif token[0] == "\\" or (token[0] in "\r\n" and depth):
            code.append(" ")
        elif token[0] in "\r\n":
            if statement := _statement(source, begin, at, code, torn):
                yield statement
            begin, code, torn = at, [], False
    if statement := _statement(source, begin, len(source), code, torn or depth > 0):
        yield statement


def _statement(source: str, start: int, end: int, code: list[str], torn: bool) -> Statement | None:
    text = "".join(code).strip()
    margin = _MARGIN.match(source, start)
    indent = len(margin[0].rpartition("\f")[2].expandtabs(_TAB)) if margin else 0
    return Statement(start, end, indent, text, torn) if text else None


class Strings:
    """Those in triple quotes, of source that begins at `start`: what may hold whole lines of another kind.

    It reads as far as it's asked, and goes forward only.
    """

    def __init__(self, source: str, start: int = 0) -> None:
        self._source = source
        self._next = _TOKEN.search(source, start)
        self._start = self._end = start
        self._closed = True

    def end_of_string_at(self, offset: int) -> int | None:
        """Of the string that an offset is in: where it ends. 0 where it is in none, None where nothing closes it."""
        while self._next and self._next.start() < offset:
            token, end = self._next[0], self._next.end()
            if token[0] in "'\"":
                self._start = self._next.start()
                end, self._closed = _skip_string(self._source, end, token)
                self._end = end
            self._next = _TOKEN.search(self._source, end)
        if not self._start < offset < self._end:
            return 0
        return self._end if self._closed else None


def _skip_string(source: str, at: int, quote: str) -> tuple[int, bool]:
    """Where the string that was opened before `at` ends, and whether a quote ends it, or else its line or the text."""
    if len(quote) == 1:
        match = _REST[quote].match(source, at)
        end = match.end() if match else at
        return end + source.startswith(quote, end), source.startswith(quote, end)
    begin = at
    while (found := source.find(quote, at)) >= 0:
        slashes = found
        while slashes > begin and source[slashes - 1] == "\\":
            slashes -= 1
        if (found - slashes) % 2 == 0:
            return found + 3, True
        at = found + 1
    return len(source), False


@functools.lru_cache(maxsize=8)
def parts(source: str) -> tuple[Part, ...]:
    """In their order; none of what is longer than MOST. What stands before the first line at the margin is in none."""
    return tuple(_parts(source)) if len(source) <= MOST else ()


def _parts(source: str) -> Iterator[Part]:
    held: list[Statement] = []
    for statement in statements(source):
        begins = statement.indent == 0 and statement.word not in _GOES_ON
        if begins and held and not held[-1].code.startswith("@"):
            yield _part(held)
            held = []
        if begins or held:
            held.append(statement)
    if held:
        yield _part(held)


def _part(held: list[Statement]) -> Part:
    head = next((each for each in held if not each.code.startswith("@")), held[0])
    sort, names = kind(head.code), _names(head.code)
    if not sort and head.word in _COMPOUND:
        # of a compound statement; what a function or a class in it defines is its own
        inside: int | None = None
        for each in held:
            if inside is None or each.indent <= inside:
                inside = each.indent if _DEFINITION.match(each.code) else None
                names |= _names(each.code)
    unfinished = held[-1].code.endswith((":", *_HALF)) or held[-1].code.startswith("@")
    return Part(held[0].start, held[-1].end, sort, frozenset(names), any(each.torn for each in held) or unfinished)


def kind(code: str) -> str:
    """Of a statement's code: as a part's."""
    if match := _DEFINITION.match(code):
        return "function" if match[1] else "class"
    if _IMPORT.match(code) or _FROM.match(code):
        return "import"
    return "assignment" if _names(code) else ""


def _names(code: str) -> set[str]:
    """The names that a statement binds in its own scope."""
    if match := _DEFINITION.match(code):
        return {match[1] or match[2]}
    return {name for simple in code.split(";") for name in _bound(simple.strip())}


def _bound(code: str) -> set[str]:
    if match := _FROM.match(code):
        return {(each.split() or [""])[-1] for each in match[2].strip(" ()").split(",")} - {""}
    if match := _IMPORT.match(code):
        names = (each.split() for each in match[1].split(","))
        return {each[-1] if "as" in each else each[0].partition(".")[0] for each in names if each}
    *targets, _ = _EQUALS.split(code)
    if all(map(_is_target, targets)):
        return {name for target in targets for name in _WORD.findall(target.partition(":")[0])}
    return set()


def _is_target(code: str) -> bool:
    word = _WORD.match(code)
    if word and keyword.iskeyword(word[0]):
        return False
    return bool(_TARGETS.fullmatch(code)) and code.count("(") == code.count(")")


def defined(source: str) -> frozenset[str]:
    """The names that the source binds at its top level; none where it is longer than MOST."""
    return frozenset(name for part in parts(source) for name in part.names)


def imported(source: str) -> frozenset[str]:
    """The top-level names of the modules that it imports anywhere."""
    names: set[str] = set()
    for statement in statements(source):
        if "import" not in statement.code:
            continue
        for piece in re.split(r"[;:]", statement.code):
            if match := _FROM.match(code := piece.strip()):
                names.add(match[1].partition(".")[0])
            elif match := _IMPORT.match(code):
                names.update((each.split() or [""])[0].partition(".")[0] for each in match[1].split(","))
    return frozenset(name for name in names if name.isidentifier())


def words(source: str) -> frozenset[str]:
    """The names and keywords in it, strings and comments left out; none of what is longer than MOST."""
    if len(source) > MOST:
        return frozenset()
    return frozenset(word for statement in statements(source) for word in _WORD.findall(statement.code))
