"""The operations that composed problems are made of: what each is called in English and what it is in Python.

A problem is a pipeline: a source of elements, filters, maps, one finisher and perhaps a step after it. Templates use
{x} for the element, {v} for the list or value so far and {k} for a constant.
"""

from dataclasses import dataclass
from typing import Literal

Kind = Literal["int", "str"]
"""What the elements of a pipeline are."""
Shape = Literal["int", "str", "list", "dict"]
"""What a finisher returns."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where the elements come from. `complex` ones count as one step of difficulty."""

    name: str
    parameters: tuple[str, ...]
    kind: Kind
    noun: str
    place: str
    iterable: str
    """What a `for` runs over."""
    sequence: str
    """What a finisher takes: has a length and can be sliced where the finisher needs it."""
    variable: str
    complex: bool = False


@dataclass(frozen=True, slots=True)
class Filter:
    """Keeps some elements. English goes before the noun ("even numbers") or after it ("numbers below 5")."""

    name: str
    kind: Kind
    test: str
    before: str = ""
    after: str = ""
    constants: tuple[int | str, ...] = ()


@dataclass(frozen=True, slots=True)
class Map:
    """Replaces each element. `words` is the plural that goes before "of the"."""

    name: str
    kind: Kind
    to: Kind
    expression: str
    words: str
    constants: tuple[int | str, ...] = ()


@dataclass(frozen=True, slots=True)
class Finisher:
    """Makes the result from the list of elements {v}; `twice` ones use it more than once, so it needs a name."""

    name: str
    kind: Kind | None
    shape: Shape
    expression: str
    words: str
    suffix: str = ""
    constants: tuple[int, ...] = ()
    twice: bool = False


@dataclass(frozen=True, slots=True)
class After:
    """A step on the result {v} of a finisher. English goes before "the" and the result, or around it."""

    name: str
    shape: Shape
    expression: str
    words: str
    suffix: str = ""
    constants: tuple[int, ...] = ()


SOURCES = (
    Source("numbers", ("xs",), "int", "numbers", "in xs", "xs", "xs", "x"),
    Source("digits", ("n",), "int", "digits", "of n", "map(int, str(n))", "list(map(int, str(n)))", "x"),
    Source("range", ("n",), "int", "numbers", "from 1 to n", "range(1, n + 1)", "list(range(1, n + 1))", "x"),
    Source("values", ("d",), "int", "values", "of d", "d.values()", "list(d.values())", "x"),
    Source(
        "sums",
        ("xs", "ys"),
        "int",
        "pairwise sums",
        "of xs and ys",
        "map(sum, zip(xs, ys))",
        "list(map(sum, zip(xs, ys)))",
        "x",
        complex=True,
    ),
    Source("characters", ("s",), "str", "characters", "of s", "s", "list(s)", "c"),
    Source("strings", ("ws",), "str", "strings", "in ws", "ws", "ws", "w"),
    Source("words", ("s",), "str", "words", "of s", "s.split()", "s.split()", "w"),
    Source("keys", ("d",), "str", "keys", "of d", "d", "list(d)", "k"),
)

FILTERS = (
    Filter("even", "int", "{x} % 2 == 0", before="even"),
    Filter("odd", "int", "{x} % 2 == 1", before="odd"),
    Filter("positive", "int", "{x} > 0", before="positive"),
    Filter("negative", "int", "{x} < 0", before="negative"),
    Filter("above", "int", "{x} > {k}", after="above {k}", constants=(1, 2, 3, 4, 5)),
    Filter("below", "int", "{x} < {k}", after="below {k}", constants=(5, 6, 7, 8, 9)),
    Filter("divisible", "int", "{x} % {k} == 0", after="divisible by {k}", constants=(3, 4, 5)),
    Filter("uppercase", "str", "{x}.isupper()", before="uppercase"),
    Filter("lowercase", "str", "{x}.islower()", before="lowercase"),
    Filter("numeric", "str", "{x}.isdigit()", before="numeric"),
    Filter("longer", "str", "len({x}) > {k}", after="longer than {k}", constants=(1, 2, 3, 4)),
    Filter("shorter", "str", "len({x}) < {k}", after="shorter than {k}", constants=(3, 4, 5)),
    Filter("starting", "str", "{x}.startswith({k})", after="starting with {k}", constants=("'a'", "'b'", "'c'")),
    Filter("ending", "str", "{x}.endswith({k})", after="ending with {k}", constants=("'a'", "'e'", "'s'")),
    Filter("containing", "str", "{k} in {x}", after="containing {k}", constants=("'a'", "'e'", "'o'")),
)

MAPS = (
    Map("square", "int", "int", "{x} ** 2", "squares"),
    Map("double", "int", "int", "{x} * 2", "doubles"),
    Map("triple", "int", "int", "{x} * 3", "triples"),
    Map("negation", "int", "int", "-{x}", "negations"),
    Map("absolute", "int", "int", "abs({x})", "absolute values"),
    Map("successor", "int", "int", "{x} + 1", "successors"),
    Map("remainder", "int", "int", "{x} % {k}", "remainders by {k}", constants=(3, 4, 5)),
    Map("text", "int", "str", "str({x})", "decimal strings"),
    Map("length", "str", "int", "len({x})", "lengths"),
    Map("upper", "str", "str", "{x}.upper()", "uppercase forms"),
    Map("lower", "str", "str", "{x}.lower()", "lowercase forms"),
    Map("reversal", "str", "str", "{x}[::-1]", "reversals"),
    Map("initial", "str", "str", "{x}[:1]", "first characters"),
    Map("repeat", "str", "str", "{x} * 2", "doubled forms"),
)

FINISHERS = (
    Finisher("sum", "int", "int", "sum({v})", "sum"),
    Finisher("largest", "int", "int", "max({v}, default=0)", "largest", ", or 0 if none"),
    Finisher("smallest", "int", "int", "min({v}, default=0)", "smallest", ", or 0 if none"),
    Finisher(
        "spread",
        "int",
        "int",
        "max({v}) - min({v}) if {v} else 0",
        "gap between the smallest and the largest",
        ", or 0 if none",
        twice=True,
    ),
    Finisher("count", None, "int", "len({v})", "count"),
    Finisher("variety", None, "int", "len(set({v}))", "distinct count"),
    Finisher("list", None, "list", "{v}", "list"),
    Finisher("ascending", None, "list", "sorted({v})", "sorted list"),
    Finisher("descending", None, "list", "sorted({v}, reverse=True)", "descending sorted list"),
    Finisher("unique", None, "list", "sorted(set({v}))", "sorted distinct list"),
    Finisher("backwards", None, "list", "{v}[::-1]", "reversed list"),
    Finisher("tally", None, "dict", "{{y: {v}.count(y) for y in {v}}}", "dictionary of counts", twice=True),
    Finisher("join", "str", "str", "''.join({v})", "concatenation"),
    Finisher("dashed", "str", "str", "'-'.join({v})", "dash-joined string"),
    Finisher("longest", "str", "str", "max({v}, key=len, default='')", "first longest", ", or '' if none"),
)

AFTERS = (
    After("modulo", "int", "{v} % {k}", "the remainder by {k} of", constants=(3, 5, 7)),
    After("twice", "int", "{v} * 2", "twice"),
    After("exceeds", "int", "{v} > {k}", "whether", " exceeds {k}", constants=(2, 5, 9)),
    After("head", "list", "{v}[:{k}]", "the first {k} of", constants=(2, 3)),
    After("tail", "list", "{v}[-{k}:]", "the last {k} of", constants=(2, 3)),
    After("shout", "str", "{v}.upper()", "the uppercase form of"),
)
