"""The script that the last of several blocks means: one that uses what blocks before it define, or an excerpt of one.

As in outline.py, nothing is parsed, and reading takes time in proportion to the text.
"""

import builtins
import keyword
import re
from collections.abc import Sequence

from ratchet_problems import outline, preludes

_TOKEN = re.compile(r"[^\W\d]\w*|\d[\w.]*|:=|[=!<>]=|->|[+\-*/%&|^@<>]+=|\S")
_COMPOUND = frozenset(
    {"if", "elif", "else", "for", "while", "with", "try", "except", "finally", "def", "class", "async", "match"}
)
_GIVEN = frozenset(dir(builtins)) | set(keyword.kwlist) | {"__name__", "__file__", "__doc__", "match", "case", "_"}
_READS = frozenset({"input", "stdin", "open"})
_SHOWS = frozenset({"print", "stdout"})


def with_needed(sources: Sequence[str], code: str) -> str:
    """The script, behind those definitions of `sources` that it lacks. Where it lacks more, or reads nothing, as an
    excerpt does: the last whole script of `sources`, or all of them and it, if they have what it lacks."""
    lacking = lacks(code)
    if not lacking:
        return code
    whole = next((source for source in reversed(sources) if _is_whole(source)), "")
    if whole and not outline.words(code) & _READS:
        return whole
    defined = "".join(preludes.line(text) for source in sources for text in _definitions(source))
    behind = preludes.with_used([defined], code)
    if not lacks(behind):
        return behind
    joined = "".join(map(preludes.line, [*sources, code]))
    return whole or (code if lacks(joined) else joined)


def _is_whole(source: str) -> bool:
    acts = any(part.kind not in ("import", "function", "class") for part in outline.parts(source))
    return acts and bool(outline.words(source) & _SHOWS) and not lacks(source)


def _definitions(source: str) -> list[str]:
    """Those, and constants: what reads nothing and nothing else in the source changes."""
    parts = outline.parts(source)
    acts = any(not part.kind for part in parts)
    texts = []
    for part in parts:
        text = source[part.start : part.end]
        constant = part.kind == "assignment" and not lacks(text) and not outline.words(text) & _READS
        stays = not acts or all(map(str.isupper, part.names))
        if part.kind in ("import", "function", "class") or (constant and stays):
            texts.append(text)
    return texts


def lacks(source: str) -> frozenset[str]:
    """The names that it uses and binds nowhere: fewer rather than more. None of what is longer than outline.MOST."""
    if len(source) > outline.MOST:
        return frozenset()
    names = _Names()
    for statement in outline.statements(source):
        names.read(_TOKEN.findall(statement.code))
    return frozenset() if names.any else frozenset(names.used - names.bound - _GIVEN)


class _Names:
    """What statements use and bind, in any scope."""

    def __init__(self) -> None:
        self.used: set[str] = set()
        self.bound: set[str] = set()
        self.any = False
        """A star: it may bind any name."""

    def read(self, tokens: list[str]) -> None:
        while tokens:
            if tokens[0] in ("import", "from", "global", "nonlocal", "case"):
                self.any = self.any or tokens[-1] == "*" or tokens[-2:] == ["*", ")"]
                colon = _end(tokens, ":") if tokens[0] == "case" else len(tokens)
                end = min(_end(tokens, ";"), colon)
                self.bound.update(filter(str.isidentifier, tokens[:end]))
            else:
                compound = tokens[0] in _COMPOUND
                end = _end(tokens, ":" if compound else ";")
                self._simple(tokens[:end], is_header="def" in tokens[:2])
            tokens = tokens[end + 1 :]

    def _simple(self, tokens: list[str], *, is_header: bool) -> None:
        """A statement, or the head of a compound one."""
        targets = _last_equals(tokens)
        if len(tokens) > 1 and tokens[1] == ":":
            targets = max(targets, 1)  # an annotation
        brackets: list[bool] = []  # whether each is a subscript or a call
        loop = parameters = -1  # the depth at which the targets of a `for`, or parameters of a lambda, stand
        for place, token in enumerate(tokens):
            before, after = tokens[place - 1] if place else "", tokens[place + 1] if place + 1 < len(tokens) else ""
            depth = len(brackets)
            if token in "([{":
                brackets.append(before in (")", "]") or (before.isidentifier() and not keyword.iskeyword(before)))
            elif token in ")]}":
                del brackets[-1:]
            elif token == "for":
                loop = depth
            elif token == "in" and loop == depth:
                loop = -1
            elif token == "lambda":
                parameters = depth
            elif token == ":" and parameters == depth:
                parameters = -1
            elif not token.isidentifier() or before == ".":
                continue
            else:
                named = before in ("def", "class", "as") or after == ":="
                first = before in ("(", ",", "*", "**", "lambda")
                parameter = first and ((is_header and depth == 1) or parameters >= 0)
                target = (loop >= 0 or place < targets) and not any(brackets[max(loop, 0) :])
                if named or parameter or (target and after not in (".", "[", "(")):
                    self.bound.add(token)
                elif not (depth and after == "=" and first):  # of a call, by name
                    self.used.add(token)


def _end(tokens: list[str], sign: str) -> int:
    """Where the first such sign stands in no bracket and is no lambda's; else the end."""
    depth = lambdas = 0
    for place, token in enumerate(tokens):
        depth += (token in ("(", "[", "{")) - (token in (")", "]", "}"))
        if depth == 0 and token == "lambda":
            lambdas += 1
        elif depth == 0 and token == sign:
            if sign != ":" or not lambdas:
                return place
            lambdas -= 1
    return len(tokens)


def _last_equals(tokens: list[str]) -> int:
    depth = found = lambdas = 0
    for place, token in enumerate(tokens):
        depth += (token in ("(", "[", "{")) - (token in (")", "]", "}"))
        lambdas += depth == 0 and token == "lambda"
        if depth == 0 and token == "=" and not lambdas:
            found = place
    return found
