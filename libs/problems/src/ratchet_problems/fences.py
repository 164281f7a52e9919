"""A completion as Markdown: its fenced blocks, and what stands outside of them, without the model's thoughts.

By CommonMark's rules: a fence is closed by one of its own kind that is as long or longer. What models do beside them is
taken, too: a fence behind words in a line, one closed at the end of its code's last line, one that the prompt had
opened, in Python a fence that stands within a string of the code and words behind the closing one, and an answer in
`<answer>...</answer>`, which is the last word. Nothing in a block is edited.
"""

import itertools
import re
from dataclasses import dataclass, field

from ratchet_problems import outline, prose
from ratchet_problems.languages import is_language, language_of

SPECIAL = r"(?:<\|[^|<>\s]{1,40}+\|>|<｜[^｜<>\s]{1,40}+｜>|</?s>|<(?:eos|bos|pad|end_of_turn|start_of_turn)>)"
_OUTSIDE = re.compile(
    r"^[ \t]*+(?P<fence>`{3,}+(?=[^`\n]*+$)|~{3,}+)(?P<info>[^\n]*+)$"
    r"|(?<=[^`\n])(?P<inline>```)(?P<tag>python3?|py3?|cpp|c\+\+|java|javascript|js|go|rust|bash)[ \t\r]*+$"
    rf"|^[ \t]*+{SPECIAL}*+(?P<think><(?P<kind>think|thinking|reasoning)>)"
    r"|(?P<thought></(?:think|thinking|reasoning)>)"
    rf"|^[ \t]*+{SPECIAL}*+(?P<answer><answer>)"
    r"|^ {0,3}(?P<quote>>[ \t]{0,3}(?:`{3}|~{3}))",
    re.MULTILINE,
)
_CLOSING = re.compile(rf"^(?P<margin>[ \t]*+)(?P<fence>`{{3,}}+|~{{3,}}+)(?:[ \t\r]|{SPECIAL})*+$", re.MULTILINE)
_CLOSING_WITH_WORDS = re.compile(rf"{_CLOSING.pattern[:-1]}(?:$|(?<=[ \t])(?P<words>[^\s`~][^\n`]*+)$)", re.MULTILINE)
_QUOTED = re.compile(r"(?: {0,3}>[^\n]*+(?:\n|\Z))++")
_QUOTE_MARK = re.compile(r"^ {0,3}> ?", re.MULTILINE)
_ANY_FENCE = re.compile(r"^[ \t]*+(?:`{3,}+(?=[^`\n]*+$)|~{3,}+)[ \t\r]*+(?P<info>[^\n]?)", re.MULTILINE)
_REST_OF_LINE = re.compile(r"[ \t\r]*+(?:\n|\Z)")
_BEGINS = re.compile(rf"(?:\s*+{SPECIAL})*+")
_MOST_MARGIN = 64


@dataclass(frozen=True, slots=True)
class Block:
    """`language` is empty where the fence names none. `closed`: its end is in the text. `leading`: the text began in
    it, as it does where the prompt had opened the fence, or a program comes without one."""

    language: str
    code: str
    closed: bool = True
    leading: bool = False


@dataclass(slots=True)  # mutable: filled as it's read
class Markdown:
    blocks: list[Block] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)


def read(completion: str, language: str) -> Markdown:
    """`language` is that of the problem: in Python, strings are known. Takes time in proportion to the text."""
    return _Reader(without_special_ends(completion), language).read()


def without_special_ends(text: str) -> str:
    """Without the special tokens that a text begins and ends with."""
    begin = _BEGINS.match(text)
    text = text[begin.end() :] if begin else text
    # by steps from the end: a search would try each run of spaces
    end = len(text)
    while True:
        tail = text[max(0, end - 64) : end]
        cut = re.search(rf"{SPECIAL}\s*+\Z", tail)
        if not cut:
            return text[:end]
        end -= len(tail) - cut.start()


class _Reader:
    def __init__(self, text: str, language: str, *, inner: bool = False) -> None:
        self._text, self._language, self._inner = text, language, inner
        self._found = Markdown()
        # once a string turns out to be unclosed, what follows can't be told from what is in it
        self._knows_strings = language == "python"

    def read(self) -> Markdown:
        at = self._leading()
        while match := _OUTSIDE.search(self._text, at):
            if match["thought"]:
                at = self._end_thought(match, at)
                continue
            self._found.outside.append(self._text[at : match.start()])
            if match["think"]:
                end = self._text.find(f"</{match['kind']}>", match.end())
                at = len(self._text) if end < 0 else end + len(match["kind"]) + 3
            elif match["answer"]:
                at = self._answer(match)
            elif match["quote"]:
                at = self._quoted(match)
            else:
                at = self._block(match)
        self._found.outside.append(self._text[at:])
        return self._found

    def _answer(self, match: re.Match[str]) -> int:
        """What came before one that holds code was on the way to it."""
        if self._inner:
            return match.end()
        end = self._text.find("</answer>", match.end())
        end = len(self._text) if end < 0 else end
        inside = _Reader(self._text[match.end() : end], self._language, inner=True).read()
        if inside.blocks:
            self._found = inside
        else:
            self._found.outside += ["\n", *inside.outside, "\n"]
        return min(end + len("</answer>"), len(self._text))

    def _quoted(self, match: re.Match[str]) -> int:
        """The lines of a block quote from a fence on."""
        quoted = _QUOTED.match(self._text, match.start())
        if self._inner or quoted is None:
            return match.end()
        self._found.blocks += _Reader(_QUOTE_MARK.sub("", quoted[0]), self._language, inner=True).read().blocks
        return quoted.end()

    def _end_thought(self, match: re.Match[str], at: int) -> int:
        """One that the prompt had opened: what came before was the thought."""
        line = self._text.rfind("\n", at, match.start()) + 1
        at_begin = not self._text[max(line, at) : match.start()].strip()
        at_end = _REST_OF_LINE.match(self._text, match.end())
        led = bool(self._found.blocks and self._found.blocks[0].leading)
        if (at_begin or at_end) and not led:
            self._found = Markdown()
        else:
            self._found.outside.append(self._text[at : match.end()])
        return match.end()

    def _leading(self) -> int:
        """Where what is no code begins, in a text that begins as code."""
        if not prose.begins_as_code(self._text, self._language):
            return 0
        strings, at = outline.Strings(self._text), 0
        while match := _OUTSIDE.search(self._text, at):
            end = strings.end_of_string_at(match.start()) if self._knows_strings else 0
            if end:
                at = end
            elif match["thought"]:
                at = match.end()
            else:
                break
        end = match.start() if match else len(self._text)
        self._found.blocks.append(Block("", self._text[:end], closed=bool(match), leading=True))
        if match and match["fence"] and not match["info"].strip() and self._is_closing(match.start()):
            return match.end()
        return end

    def _is_closing(self, start: int) -> bool:
        """Of a bare fence after code: whether those from it on come out even without it."""
        counts = [0, 0]
        for match in _ANY_FENCE.finditer(self._text, start):
            counts[bool(match["info"])] += 1
        return (counts[0] - counts[1]) % 2 == 1

    def _block(self, opening: re.Match[str]) -> int:
        language = language_of((opening["tag"] or opening["info"] or "").strip().partition(" ")[0])
        begin = min(opening.end() + 1, len(self._text))
        closing = self._closing(opening, begin, language in ("", "python"))
        code = self._text[begin : closing.start() if closing else len(self._text)]
        fence = opening["fence"] or opening["inline"]
        closed = bool(closing)
        if not closing and (tail := code.rstrip()).endswith(fence):
            code, closed = tail.removesuffix(fence) + "\n", True
        if opening["fence"]:
            code = _without_margin(code, min(opening.start("fence") - opening.start(), _MOST_MARGIN))
        if language in ("markdown", "md") and not self._inner:
            self._found.blocks += _Reader(code, self._language, inner=True).read().blocks
        else:
            self._found.blocks.append(Block(language, code, closed))
        return closing.end() if closing else len(self._text)

    def _closing(self, opening: re.Match[str], begin: int, is_python: bool) -> re.Match[str] | None:
        fence = opening["fence"] or opening["inline"]
        margin = len(opening[0][: opening.start("fence") - opening.start()].expandtabs(4)) if opening["fence"] else 0
        pattern = _CLOSING_WITH_WORDS if is_python and self._knows_strings else _CLOSING
        closings = (
            match
            for match in pattern.finditer(self._text, begin)
            if match["fence"].startswith(fence) and len(match["margin"].expandtabs(4)) < margin + 4
            if not _opens_another(match)
        )
        first = next(closings, None)
        if first is None or not (is_python and self._knows_strings):
            return first
        strings, end = outline.Strings(self._text, begin), 0
        for closing in itertools.chain([first], closings):
            if closing.start() >= end:
                inside = strings.end_of_string_at(closing.start())
                if inside == 0:
                    return closing
                if inside is None:
                    break
                end = inside
        self._knows_strings = False
        return first


def _opens_another(closing: re.Match[str]) -> bool:
    words = (closing.groupdict().get("words") or "").split()
    return bool(words) and is_language(words[0])


def _without_margin(code: str, margin: int) -> str:
    """CommonMark: the lines in a fence lose as much of their margin as the fence has."""
    return re.sub(rf"^[ \t]{{1,{margin}}}", "", code, flags=re.MULTILINE) if margin else code
