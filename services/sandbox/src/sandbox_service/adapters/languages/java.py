"""The names that a Java source is compiled and started by. One pass over it, whatever it holds."""

import re
from dataclasses import dataclass

# Each alternative takes what it began with or fails at its first letters, and gives nothing back: the time is linear.
_TOKEN = re.compile(
    r"""
      //[^\n]*+ | /\*(?>[^*]++|\*(?!/))*+(?:\*/)?
    | \"{3}(?>[^"\\]++|\\.|"(?!""))*+(?:\"{3})? | "(?>[^"\\\n]++|\\.)*+"? | '(?>[^'\\\n]++|\\.)*+'?
    | (?P<word>[^\W\d][\w$]*+|\$[\w$]*+) | \d[\w.]*+ | (?P<sign>[{}();.])
    """,
    re.DOTALL | re.VERBOSE,
)
_KINDS = {"class", "interface", "enum", "record"}
_LONGEST_FILE, _MOST_MAINS = 200, 16


@dataclass(frozen=True, slots=True)
class Names:
    """`file`: what javac wants the file to be called. `main`: the class to start, with its package."""

    file: str
    main: str


def read(source: str) -> Names:
    """The public class names the file. Started is the class that has `main`: the public one, or the first that does."""
    package, public = "", ""
    mains: list[str] = []
    enclosing: list[str] = []  # of each open brace: the class whose body it begins, or ""
    words: list[str] = []  # since the last statement, brace or parenthesis; and "."
    declared = ""
    for token in _TOKEN.finditer(source):
        word, sign = token["word"], token["sign"]
        if word:
            if words and words[-1] in _KINDS and words[-2:-1] != ["."] and not declared:
                declared = word
                if "public" in words and not enclosing:
                    public = public or word
            words.append(word)
        elif sign == ".":
            words.append(sign)
        elif sign:
            if sign == "(" and words[-2:] == ["void", "main"] and "static" in words and len(mains) < _MOST_MAINS:
                mains.append("$".join(name for name in enclosing if name))
            if sign == ";" and not enclosing and words[:1] == ["package"]:
                package = "".join(words[1:])
            if sign == "{":
                enclosing.append(declared)
            elif sign == "}" and enclosing:
                enclosing.pop()
            words = []
            if sign in "{};":
                declared = ""
    main = (public if public in mains or not mains else mains[0]) or "Main"
    file = public if len(public.encode()) <= _LONGEST_FILE else ""  # javac says what is wrong with such a name
    return Names(file or "Main", f"{package}.{main}" if package else main)
