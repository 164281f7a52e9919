"""Parts that a program lacks and its prompt, the blocks before it or its judge have: imports, helpers, names."""

import re
from collections.abc import Sequence

from ratchet_problems import outline

_LENT: dict[str, str] = {
    "typing": "Any Callable DefaultDict Deque Dict FrozenSet Generator Iterable Iterator List Literal Mapping "
    "NamedTuple Optional Sequence Set Tuple Type TypeVar Union",
    "collections": "ChainMap Counter OrderedDict defaultdict deque namedtuple",
    "functools": "cache cmp_to_key lru_cache partial reduce",
    "heapq": "heapify heappop heappush heappushpop heapreplace nlargest nsmallest",
    "bisect": "bisect bisect_left bisect_right insort insort_left insort_right",
    "itertools": "accumulate chain combinations combinations_with_replacement count cycle groupby islice pairwise "
    "permutations product repeat starmap takewhile zip_longest",
    "math": "ceil comb factorial floor gcd inf isqrt lcm log log2 log10 perm pi prod sqrt",
    "string": "ascii_letters ascii_lowercase ascii_uppercase digits",
    "operator": "itemgetter xor or_ and_",
    "copy": "deepcopy",
}
"""Names that LeetCode's judge lends to a Solution, by module; the modules themselves, too."""
_MODULES = frozenset({*_LENT, "random", "re", "datetime", "statistics", "sys", "json"})
_FROM = {name: module for module, names in _LENT.items() for name in names.split()}
_CLASSES = {
    "ListNode": "class ListNode:\n    def __init__(self, val=0, next=None):\n        self.val = val\n"
    "        self.next = next\n",
    "TreeNode": "class TreeNode:\n    def __init__(self, val=0, left=None, right=None):\n        self.val = val\n"
    "        self.left = left\n        self.right = right\n",
}
_FUTURE = re.compile(r"from\s+__future__\s+import\b")


def with_prelude(given: str, name: str, code: str) -> str:
    """The code, behind what was given with `name` and it lacks: imports, functions, classes, and values from before."""
    if not given:
        return code
    own, lacking, before = outline.defined(code), [], True
    for part in outline.parts(given):
        if name in part.names:
            before = False
        elif not part.names <= own and (before or part.kind in ("import", "function", "class")):
            lacking.append(given[part.start : part.end])
    return _in_front("".join(map(line, lacking)), code)


def with_used(sources: Sequence[str], code: str) -> str:
    """The code, behind what it uses of `sources`, and what that uses in its turn, the last definition of each name."""
    found: dict[str, tuple[int, str]] = {}
    for source in sources:
        for part in outline.parts(source):
            found |= dict.fromkeys(part.names, (len(found), source[part.start : part.end]))
    if not found:
        return code
    taken: set[tuple[int, str]] = set()
    known, wanted = set(outline.defined(code)), list(outline.words(code))
    while wanted:
        name = wanted.pop()
        if name in found and name not in known:
            known.add(name)
            if found[name] not in taken:
                taken.add(found[name])
                wanted += outline.words(found[name][1])
    return _in_front("".join(line(text) for _, text in sorted(taken)), code)


def with_judges_names(code: str) -> str:
    """The code, behind the imports of what it uses and does not define among the names that LeetCode's judge lends."""
    used, own = outline.words(code), outline.defined(code)
    lines = []
    for word in sorted(used - own):
        if word in _MODULES and re.search(rf"\b{word}\s*\.", code):
            lines.append(f"import {word}\n")
        elif word in _FROM:
            lines.append(f"from {_FROM[word]} import {word}\n")
        elif word in _CLASSES:
            lines.append(_CLASSES[word])
    return _in_front("".join(lines), code)


def without_margin(code: str, margin: int) -> str:
    """Each line loses as much of its margin. `margin`: in columns; a tab counts for up to 8."""
    return "".join(_shifted(line, margin) for line in code.splitlines(keepends=True))


def _shifted(line: str, margin: int) -> str:
    columns = at = 0
    while at < len(line) and line[at] in " \t" and columns < margin:
        columns += 1 if line[at] == " " else 8 - columns % 8
        at += 1
    return line[at:]


def as_body(given: str, name: str, code: str) -> str:
    """The lines of a function's body that stand at the margin, as deep as what was given of the body."""
    inside = [each for part in outline.parts(given) if name in part.names for each in _suite(given, part)]
    begins = bool(inside) and inside[-1].code.endswith(":")
    return _indented(code, inside[-1].indent + 4 * begins if inside else 4)


def _indented(code: str, margin: int) -> str:
    return "".join(" " * margin + line if line.strip() else line for line in code.splitlines(keepends=True))


def with_class(given: str, name: str, method: str, code: str) -> str:
    """A class of that name with the functions of `code` that take `self`, and behind all else that `code` has. What the
    class that was given holds before the method stays, and what was given before the class. A function `method` that
    takes no `self` stays outside, and the class calls it."""
    outside, inside, calls = "", "", True
    for part in outline.parts(code):
        text = line(code[part.start : part.end])
        if part.kind == "function" and re.search(r"\bdef\s+\w+\s*\(\s*self\b", text):
            inside += _indented(text, 4)
            calls = calls and method not in part.names
        else:
            outside += text
    if calls:
        inside += f"    def {method}(self, *values, **named):\n        return {method}(*values, **named)\n"
    before, head, own = "", f"class {name}:\n", outline.defined(code)
    for part in outline.parts(given):
        if name in part.names:
            head = line(_until(given[part.start : part.end], method))
            break
        if not part.names <= own:
            before += line(given[part.start : part.end])
    return _in_front(before, outside) + head + inside


def _until(source: str, method: str) -> str:
    """The text of a class before that method, and the method's decorators."""
    end = 0
    for each in outline.statements(source):
        if re.match(rf"(?:async\s+)?def\s+{re.escape(method)}\b", each.code):
            break
        if not (each.indent and each.code.startswith("@")):
            end = each.end
    return source[:end]


def _suite(source: str, part: outline.Part) -> list[outline.Statement]:
    return [each for each in outline.statements(source[part.start : part.end]) if each.indent]


def _in_front(prelude: str, code: str) -> str:
    """Behind imports of `__future__`, which must come first."""
    if not prelude:
        return code
    last = 0
    if "__future__" in code:
        last = max((each.end for each in outline.statements(code) if _FUTURE.match(each.code)), default=0)
    return code[:last] + prelude + code[last:]


def line(text: str) -> str:
    return text if text.endswith("\n") else text + "\n"
