"""The faults of English that a reader pays for: a text begins with its noun or its verb, and says "invalid X"."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from .rules import Fault, Source

BEGINNINGS = re.compile(r"\s*(What|Of|Those|That|Whether)\b")
PHRASES = re.compile(r"\b(so\s+many|(?:is|are)\s+none|of\s+such|be\s+it|none\s+of\s+its)\b")
IN_USERS_TEXTS = re.compile(rf"{PHRASES.pattern}|\bby\s+itself\b")
COMMENT = re.compile(r"(?:^ *//.*\n)+", re.MULTILINE)
HELPS = {"help", "short_help", "epilog"}


def in_proto(path: Path, text: str) -> Iterator[Fault]:
    """In the comments of a proto."""
    for comment in COMMENT.finditer(text):
        line = text.count("\n", 0, comment.start()) + 1
        plain = re.sub(r"^ *// ?", "", comment[0], flags=re.MULTILINE)
        yield from _faults(path, line, plain, IN_USERS_TEXTS)


def in_helps(source: Source) -> Iterator[Fault]:
    """In the help texts of a command: of its options and arguments, and the docstring that typer shows."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.keyword) and node.arg in HELPS:
            yield from _faults(source.path, node.value.lineno, _text(node.value), IN_USERS_TEXTS)
        elif isinstance(node, ast.FunctionDef) and _is_command(node):
            yield from _faults(source.path, node.body[0].lineno, ast.get_docstring(node) or "", IN_USERS_TEXTS)


def in_docstrings(source: Source) -> Iterator[Fault]:
    """In every docstring, also below an assignment."""
    for node in ast.walk(source.tree):
        body = getattr(node, "body", None)
        for statement in body if isinstance(body, list) else []:
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                yield from _faults(source.path, statement.lineno, str(statement.value.value), PHRASES)


def _faults(path: Path, line: int, text: str, phrases: re.Pattern[str]) -> Iterator[Fault]:
    """`line`: the number of the text's first line."""
    begin = BEGINNINGS.match(text)
    for found in [begin] if begin else []:
        yield Fault(path, line, f"begins with {found[1]!r}: begin with the noun or the verb")
    for found in phrases.finditer(text):
        yield Fault(path, line + text.count("\n", 0, found.start()), f"{' '.join(found[0].split())!r}: say it plainly")


def _text(node: ast.expr) -> str:
    """A string, with nothing in place of the values of an f-string."""
    parts = node.values if isinstance(node, ast.JoinedStr) else [node]
    return "".join(str(part.value) for part in parts if isinstance(part, ast.Constant))


def _is_command(function: ast.FunctionDef) -> bool:
    """By its decorator or, where main.py registers it, by the types of its arguments."""
    decorators = [ast.unparse(one) for one in function.decorator_list]
    types = [ast.unparse(one.annotation) for one in function.args.args if one.annotation]
    return any(".command" in one or ".callback" in one for one in decorators) or any(
        "typer." in one or one == "JsonFlag" for one in types
    )
