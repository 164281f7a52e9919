"""The tokens that a program is made of: no comments, no layout, no docstrings."""

import io
import tokenize
from collections.abc import Iterator

from ratchet_quality.score import Unreadable

LAYOUT = {tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
UNSEEN = {tokenize.COMMENT, tokenize.NL, tokenize.ENCODING, tokenize.ENDMARKER}


def significant(source: str) -> list[tokenize.TokenInfo]:
    """Raises Unreadable for what can't be divided into tokens."""
    try:
        return list(_significant(source))
    except (tokenize.TokenError, SyntaxError, ValueError) as error:
        raise Unreadable(f"no Python: {str(error)[:100]}") from error


def _significant(source: str) -> Iterator[tokenize.TokenInfo]:
    begins = True
    held: tokenize.TokenInfo | None = None  # a string that begins a line, which may be all of it
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in UNSEEN:
            continue
        if held is not None:
            if token.type != tokenize.NEWLINE:
                yield held
            held = None
        if token.type in LAYOUT:
            begins = True
        elif begins and token.type == tokenize.STRING:
            held, begins = token, False
        else:
            begins = False
            yield token
