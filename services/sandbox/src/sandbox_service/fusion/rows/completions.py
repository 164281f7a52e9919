"""The code in a completion, chosen by SandboxFusion's rules: the first fitting block, where ours is the last.

How a completion is read is the same: ratchet_problems.extraction.
"""

from ratchet_problems.extraction import first_block

_MAIN = 'if __name__ == "__main__":'
_EXAMPLE = "# Example usage"


def extract(completion: str, language: str) -> str:
    """The first fenced block in `language`, or the first of any; else an unclosed one, else the program without one."""
    return first_block(completion, language)


def extract_first(completion: str, language: str) -> str:
    """The first fenced block, whatever its language; what follows an example or a main part is left out."""
    return without_main(first_block(completion, language, any_language=True).replace("\r", ""))


def without_main(code: str) -> str:
    for mark in (_MAIN, _EXAMPLE):
        if mark in code:
            code = code[: code.index(mark)].strip()
    return code
