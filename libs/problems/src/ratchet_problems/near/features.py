"""The features that problems are compared by: words of the prompt, the shape of the reference, literals of the tests.

None of the three knows the names that a problem was given: a renamed problem has the same features.
"""

import ast
import builtins
import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from ratchet_kit import syntax
from ratchet_problems.problem import AnswerTest, CallTest, CheckTest, Problem, StdioTest, TestCase

VIEWS = ("prompt", "reference", "tests")
_BUILTINS = frozenset(dir(builtins))
_WORD = re.compile(r"[a-z]+(?:_\w+)?|\d+(?:\.\d+)?")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_LITERAL = re.compile(r"\b(?:True|False|None)\b|(?<![\w.])\d+(?:\.\d+)?|'[^'\n]*'|\"[^\"\n]*\"")
_MOST_TESTS = 100
_LEAST_CASE = 5
"""Characters of a case: shorter ones ("4 True") are met by chance."""
_MOST_TEXT = 20_000
"""Characters of a prompt, a reference or a test: what comes after them is not compared."""
_MOST_CONSTANT = 40
_SHINGLE = 4
"""Nodes of a reference's tree."""
# Words that say nothing of a task, as stems.
_COMMON_WORDS = """
a an the and or of to in on is are be by for from with as at that this thes those it its if then than which such
into onto out so do doe does did can will would should must may you your we our i pleas giv given gives provid
suppli some any all each every writ implement creat mak build develop defin design produc python function routin
method program procedur code solution task problem find locat obtain get calculat comput determin evaluat work
return give back output print show display check verify whether test us accept tak receiv input parameter argument
def self optional typ import non none true fals exampl result
"""
# Words of one meaning in tasks; each is taken for the first of its line, as are its forms.
_ALIKE = """
list array sequence series
string text str
number integer value int numeral float
largest biggest maximum max greatest highest
smallest minimum min least lowest
remove delete drop eliminate discard erase
sum total
element item entry member
sort order arrange
convert transform change turn
count tally
first initial
last final
same identical equal alike
different distinct unique
word term
character letter char symbol
length size
occurrence appearance frequency
reverse flip invert
duplicate repeated repeat
common shared
difference gap
greater larger bigger above
less smaller fewer below
index position place
replace substitute
empty blank
consecutive successive adjacent neighbouring neighboring
dictionary mapping map dict
pair couple
match fit
split divide
multiply product
begin start
end finish
combine merge join concatenate
average mean
"""


@dataclass(frozen=True, slots=True)
class Features:
    """Three sets of 32-bit hashes; one is empty where there is nothing to compare."""

    prompt: frozenset[int]
    reference: frozenset[int]
    tests: frozenset[int]

    def __iter__(self) -> Iterator[frozenset[int]]:
        return iter((self.prompt, self.reference, self.tests))


def features(problem: Problem) -> Features:
    return Features(
        _hashes(_words(_said(problem)[:_MOST_TEXT])),
        _hashes(_shape(problem)),
        _hashes(_cases(problem.tests)),
    )


def structure(problem: Problem) -> str:
    """The problem's own, if it names one. A problem with a right answer is made of its numbers and that: "How much is
    2 + 5?" is not "How much is 3 + 4?"."""
    if problem.structure or not problem.answers:
        return problem.structure
    numbers = sorted(_NUMBER.findall(_said(problem)[:_MOST_TEXT]))
    return f"{' '.join(numbers)}: {' '.join(sorted(problem.answers))}"


def _said(problem: Problem) -> str:
    """The prompt; of a conversation all that its user and the assistant say."""
    return "\n".join(message.content for message in problem.messages if message.role != "system")


def _hashes(texts: Iterable[str]) -> frozenset[int]:
    return frozenset([zlib.crc32(text.encode("utf-8", "replace")) for text in texts])


def _words(prompt: str) -> Iterator[str]:
    """Stems of words and numbers, whatever their order. Names are left out: they hold "_"."""
    for word in _WORD.findall(prompt.casefold()):
        if "_" not in word and (stem := _stem(word)):
            yield stem


@lru_cache(maxsize=65536)
def _stem(word: str) -> str:
    """Empty for a word that says nothing of a task."""
    word = _cut(word)
    return "" if word in _COMMON or (len(word) == 1 and word.isalpha()) else _MEANINGS.get(word, word)


def _cut(word: str) -> str:
    for ending in ("ings", "ing", "ies", "es", "ed", "s", "e"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word[: -len(ending)]
    return word


_COMMON = frozenset(_COMMON_WORDS.split())
_MEANINGS = {_cut(word): _cut(line.split()[0]) for line in _ALIKE.strip().splitlines() for word in line.split()}


def _shape(problem: Problem) -> Iterator[str]:
    """Runs of _SHINGLE nodes of the first reference's tree in order, with names as one name; builtins, attributes,
    operators and constants are what they are."""
    nodes: list[str] = []
    for reference in problem.references[:1]:
        tree = _parsed(reference) or _parsed(problem.prompt + reference)  # it may go on with its prompt
        if tree is None:
            return
        try:
            _walk(tree, nodes)
        except RecursionError:
            return
    if not nodes:
        return
    for place in range(max(1, len(nodes) - _SHINGLE + 1)):
        yield " ".join(nodes[place : place + _SHINGLE])


def _parsed(source: str) -> ast.Module | None:
    try:
        return syntax.parse(source) if len(source) <= _MOST_TEXT else None
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


_LEFT_OUT = (ast.expr_context, ast.alias, ast.Import, ast.ImportFrom, ast.arguments)


def _walk(node: ast.AST, found: list[str]) -> None:
    match node:
        case ast.Name():
            found.append(node.id if node.id in _BUILTINS else "name")
            return
        case ast.Constant():
            found.append(repr(node.value)[:_MOST_CONSTANT])
            return
        case ast.Expr(value=ast.Constant()):  # a docstring
            return
        case ast.Attribute():
            found.append(node.attr)
        case ast.FunctionDef():
            found.append("FunctionDef")
            for statement in node.body:
                _walk(statement, found)
            return
        case _:
            found.append(type(node).__name__)
    for name in node._fields:
        value = getattr(node, name, None)
        if isinstance(value, list):
            for one in value:
                if isinstance(one, ast.AST) and not isinstance(one, _LEFT_OUT):
                    _walk(one, found)
        elif isinstance(value, ast.AST) and name not in ("annotation", "returns", "ctx"):
            _walk(value, found)


def _cases(tests: Iterable[TestCase]) -> Iterator[str]:
    """The literals of each case, in order: a call test and an assertion of the same case have the same ones."""
    left = _MOST_TESTS
    for test in tests:
        match test:
            case CallTest():
                lines: Iterable[str] = (f"{test.args} {test.expected or test.raises}",)
            case StdioTest():
                lines = (" ".join(f"{test.stdin[:_MOST_TEXT]} {test.expected_stdout[:_MOST_TEXT]}".split()),)
            case CheckTest():
                lines = (line for line in test.code[:_MOST_TEXT].splitlines() if "assert" in line)
            case AnswerTest():
                lines = ()
        for line in lines:
            if not left:
                return
            left -= 1
            found = line if isinstance(test, StdioTest) else " ".join(map(_plain, _LITERAL.findall(line[:_MOST_TEXT])))
            if len(found) >= _LEAST_CASE:
                yield found


def _plain(literal: str) -> str:
    return literal[1:-1] if literal[0] in "'\"" else literal
