"""The code in a completion, found by SandboxFusion's rules, so that both score a completion alike.

Ratchet's own graders take the last fitting block (ratchet_problems.extraction); here it's the first.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

_CLOSING = re.compile(r"\n[^\S\n]*```")
_TAGS = {
    "python": "python",
    "python3": "python",
    "py": "python",
    "cpp": "cpp",
    "c++": "cpp",
    "c": "c",
    "javascript": "nodejs",
    "js": "nodejs",
    "typescript": "typescript",
    "go": "go",
    "java": "java",
    "bash": "bash",
    "sh": "bash",
    "shell": "bash",
    "rust": "rust",
    "rs": "rust",
}
_MAIN = 'if __name__ == "__main__":'
_EXAMPLE = "# Example usage"


@dataclass(frozen=True, slots=True)
class _Block:
    language: str
    code: str


def extract(completion: str, language: str) -> str:
    """The first fenced block in `language`, or the first of any; else an unclosed one, else a bare definition."""
    blocks = _fenced(completion) or _unclosed(completion) or _bare(completion, language)
    return _first(blocks, language)


def extract_first(completion: str, language: str) -> str:
    """The first fenced block, whatever its language; what follows an example or a main part is left out."""
    blocks = _fenced(completion) or _unclosed(completion) or _bare(completion, language)
    return without_main(blocks[0].code.replace("\r", "")) if blocks else ""


def without_main(code: str) -> str:
    for mark in (_MAIN, _EXAMPLE):
        if mark in code:
            code = code[: code.index(mark)].strip()
    return code


@dataclass(frozen=True, slots=True)
class _Opening:
    """A fence, the tag behind it, and where its line ends."""

    tag: str
    end: int


def _opening(completion: str, start: int) -> _Opening | None:
    """Not by a pattern: one that runs to the end of its line takes quadratic time on a line of fences."""
    fence = completion.find("```", start)
    end = completion.find("\n", fence) if fence >= 0 else -1
    return _Opening(completion[fence + 3 : end].strip().lower(), end) if end >= 0 else None


def _fenced(completion: str) -> list[_Block]:
    """In one pass, also where nothing closes: a completion may be a megabyte of fences."""
    blocks = []
    opening = _opening(completion, 0)
    while opening:
        # an empty block closes with the line break that opens it
        closing = _CLOSING.search(completion, opening.end)
        if not closing:
            break
        blocks.append(_block(completion, opening, closing.start()))
        opening = _opening(completion, closing.end())
    return blocks


def _unclosed(completion: str) -> list[_Block]:
    opening = _opening(completion, 0)
    return [_block(completion, opening, len(completion))] if opening else []


def _block(completion: str, opening: _Opening, end: int) -> _Block:
    return _Block(_TAGS.get(opening.tag, ""), completion[opening.end + 1 : end])


def _bare(completion: str, language: str) -> list[_Block]:
    """Functions and classes, each with the imports and comments right above."""
    if language != "python":
        return []
    lines = [line for line in completion.split("\n") if line.strip()]
    blocks, preface, i = [], 0, 0
    while i < len(lines):
        if not lines[i].startswith(("def ", "class ")):
            preface = preface + 1 if lines[i].startswith(("import", "from", "#")) else 0
            i += 1
            continue
        start = i - preface
        i, preface = i + 1, 0
        body = i
        while i < len(lines) and lines[i][0].isspace():
            i += 1
        if i > body:
            blocks.append(_Block("python", "\n".join(lines[start:i]) + "\n"))
    return blocks


def _first(blocks: Sequence[_Block], language: str) -> str:
    fitting = [block for block in blocks if block.language == language]
    return (fitting or list(blocks) or [_Block("", "")])[0].code
