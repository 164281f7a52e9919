"""Which lines of a text are code and which are words, where no fence says so: by words and signs alone, in linear time.

Only what can't be Python is words for certain. A text without such a line is a program as it stands.
"""

import itertools
import keyword
import re
from typing import NamedTuple

from ratchet_problems import outline

# What no line of Python holds outside of its strings and comments.
_FOREIGN = re.compile(r"[?$`]|!(?!=)|[^\x00-\x7f\w]|^\d+[.)](?:\s|$)")
_NEVER_FIRST = (*"<>=/|%,;&^", "**", "[/", "~~~")
_TOKENS = re.compile(r"\w+|\S")
_OPENS = frozenset({"if", "while", "for", "with", "try:", "match"})
_CALL = re.compile(r"[^\W\d][\w.]*+\(")
_MARK = re.compile(r"[-*+>]+[ \t]|\[/?[A-Z]+\]$|\d+$|[A-Z]\w*+(?:$| (?![^\w\s]*=)|:(?!.*=))")
_LINE = re.compile(r"^[^\r\n]*\S[^\r\n]*(?:\r\n|\r|\n|\Z)", re.MULTILINE)
_OTHER_LANGUAGES = re.compile(r"#|//|/\*|(?:import|package|using|use|fn|func|public|class|const|let|var|int|void)\b")


def begins_as_code(text: str, language: str) -> bool:
    """Whether its first line is one of a program; comments tell nothing."""
    for line in _LINE.finditer(text):
        if language != "python":
            return bool(_OTHER_LANGUAGES.match(line[0].strip()))
        if code := _code_of(line[0]):
            return not (is_prose(code) or _is_doubtful(code))
    return False


def programs(text: str) -> list[str]:
    """What stands between the words of a text, each a program or a piece of one. A text that holds no words for certain
    comes back as it is; one that holds no code gives none."""
    found: list[str] = []
    at = 0 if begins_as_code(text, "python") else _next_code(text, 0)
    while at is not None:
        piece = _piece(text, at)
        found.append(text[at : piece.end])
        at = _next_code(text, piece.next) if piece.next < len(text) else None
    return found


class _Piece(NamedTuple):
    """Where it ends, and where to read on."""

    end: int
    next: int


def _piece(text: str, at: int) -> _Piece:
    last, doubtful, where = at, False, at
    while line := _LINE.search(text, where):
        code, where = _code_of(line[0]), line.end()
        if not code:
            continue
        at_margin = not line[0][0].isspace()
        if at_margin and is_prose(code):
            return _Piece(last if doubtful else line.start(), where)
        # the line may go on in those below
        where = next(outline.statements(text, line.start())).end
        doubtful = at_margin and last > at and _is_doubtful(code)
        last = last if doubtful else where
    return _Piece(last if doubtful else len(text), len(text))


def is_prose(code: str) -> bool:
    """Of a statement without its strings and comments: whether it can be no Python, but words."""
    if _FOREIGN.search(code) or code.startswith(_NEVER_FIRST) or '"' in code.replace('""', ""):
        return True
    if code.endswith(".") and not code.endswith("..."):
        return True
    tokens = _TOKENS.findall(code)
    if tokens[-1] == ":" and len(tokens) == 2 and not keyword.iskeyword(tokens[0]) and tokens[0].isidentifier():
        return True
    if tokens[0] in ("print", "exec", "match", "type"):  # of Python 2, and words that are keywords in their place only
        return False
    return any(_is_operand(a) and _is_operand(b) for a, b in itertools.pairwise(tokens))


def _is_operand(token: str) -> bool:
    return token.isdigit() or (token.isidentifier() and not keyword.iskeyword(token))


def _is_doubtful(code: str) -> bool:
    """Python that nobody writes at the margin: a word, a list's item, `Time: O(n)`."""
    return bool(_MARK.match(code)) or (code.isidentifier() and not keyword.iskeyword(code))


def _is_code(code: str) -> bool:
    if not code or is_prose(code) or _is_doubtful(code):
        return False
    if code.startswith(('""', "@")) or outline.kind(code):
        return True
    word = code.split(None, 1)[0]
    return (word in _OPENS and code.endswith(":")) or (bool(_CALL.match(code)) and code.endswith(")"))


def _next_code(text: str, at: int) -> int | None:
    """Where the next line at the margin begins that is code for certain."""
    for line in _LINE.finditer(text, at):
        if not line[0][0].isspace() and _is_code(_code_of(line[0])):
            return line.start()
    return None


def _code_of(line: str) -> str:
    statement = next(outline.statements(line), None)
    return statement.code if statement else ""
