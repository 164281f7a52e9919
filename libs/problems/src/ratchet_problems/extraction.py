"""The program in a completion: what's left without markdown fences, thoughts, special tokens and chat."""

import re

from ratchet_kit import syntax

_SPECIAL = re.compile(r"<\|[^|<>\n]{1,40}\|>|</?s>|<(?:eos|bos|pad)>")
_THOUGHTS = re.compile(r"<think>.*?(?:</think>|\Z)", re.DOTALL)
_FENCE = re.compile(
    r"^[ \t]*(?:```|~~~)[ \t]*([\w+.-]*+)[^\n]*+\n"  # an opening fence, with its language; nothing to try twice
    r"(.*?)"
    r"(?:^[ \t]*(?:```|~~~)[ \t]*$|\Z)",
    re.DOTALL | re.MULTILINE,
)
_PYTHON = frozenset({"", "python", "python3", "py", "py3"})
_CODE_LINE = re.compile(r"(?:def |async def |class |import |from \w[\w.]* import |@\w|if __name__)")
_MOST_TRIMS = 60
_MOST_PARSED = 2 << 20  # characters, over all trims


def extract_code(completion: str, entry_point: str = "") -> str:
    """The program that a model meant, as valid UTF-8. What can't be found is not invented: the text itself comes back.

    In this order:
    1. Thoughts (`<think>...</think>`, also unclosed) and special tokens (`<|im_end|>`, `</s>`) go.
    2. With markdown fences: the last Python block that defines `entry_point`, since a model that corrects itself
       means its last word; if none does, the last Python block; if none is Python, the last block. An unclosed fence
       ends with the text.
    3. Without: a text that parses is the program. Otherwise prose goes from the front, up to the first line that
       looks like code, and from the end, line by line, until the rest parses.
    """
    text = _THOUGHTS.sub("", completion.encode("utf-8", "replace").decode())
    text = _SPECIAL.sub("", text).replace("\r\n", "\n")
    blocks = [(match[1].lower(), match[2]) for match in _FENCE.finditer(text)]
    if blocks:
        return _choose([code for language, code in blocks if language in _PYTHON] or [blocks[-1][1]], entry_point)
    return text if _parses(text) else _without_chat(text)


def source_for(prompt: str, entry_point: str, completion: str) -> str:
    """The program that a completion means. Where the prompt begins it and the completion goes on (as in HumanEval:
    signature and docstring), both together."""
    name = entry_point.partition(".")[0]
    code = extract_code(completion, name)
    if name and not defines(code, name) and defines(prompt, name):
        return extract_code(prompt + code, name)
    return code


def defines(code: str, name: str) -> bool:
    """Whether a top-level line of `code` defines something of that name; the code need not parse."""
    name = re.escape(name)
    return bool(re.search(rf"^(?:(?:async )?def|class) {name}\b|^{name}\s*=[^=]", code, re.MULTILINE))


def _choose(blocks: list[str], entry_point: str) -> str:
    fitting = [code for code in blocks if entry_point and defines(code, entry_point)]
    return (fitting or blocks)[-1]


def _without_chat(text: str) -> str:
    lines = text.split("\n")
    start = next((i for i, line in enumerate(lines) if _CODE_LINE.match(line)), None)
    if start is None:
        return text
    code = lines[start:]
    trims = min(_MOST_TRIMS, _MOST_PARSED // max(1, len(text)))
    for end in range(len(code), max(0, len(code) - trims), -1):
        candidate = "\n".join(code[:end])
        if _parses(candidate):
            return candidate + "\n"
    return "\n".join(code)


def _parses(code: str) -> bool:
    try:
        syntax.compiled(code, "completion")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True
