"""Trees of Python source, built by several threads."""

import ast
import gc
import math
import sys
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from ratchet_kit import syntax


@pytest.fixture
def threads_that_meet() -> Iterator[None]:
    """Lets Python change threads while a tree is built: in a collection, of which prometheus-client is told."""
    threshold, interval = gc.get_threshold(), sys.getswitchinterval()

    def pause(*_: object) -> None:
        sum(range(200))

    gc.callbacks.append(pause)
    gc.set_threshold(50)
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)
    gc.set_threshold(*threshold)
    gc.callbacks.remove(pause)


@pytest.mark.usefixtures("threads_that_meet")
def test_threads_build_trees_at_once() -> None:
    source = "def f(x):\n" + "    return [x, (x, {x: [1, 2, 3, (4, 5)]})]\n" * 200
    with ThreadPoolExecutor(4) as pool:
        trees = list(pool.map(syntax.parse, [source] * 200))
    assert all(len(tree.body) == 1 for tree in trees)


def test_an_expression_and_its_value() -> None:
    assert syntax.literal(" [1, {'a': (2.5, None)}]\n") == [1, {"a": (2.5, None)}]
    with pytest.raises(ValueError, match="malformed"):
        syntax.literal("f(1)")
    with pytest.raises(SyntaxError):
        syntax.parse_expression("x = 1")


def test_numbers_are_longer_than_python_reads() -> None:
    digits = "9" * 5_000
    number = 10**5_000 - 1
    assert syntax.literal(f"[{digits}, -{digits}, '{digits}', {{{digits}: 1.5}}]") == [
        *(number, -number, digits, {number: 1.5}),
    ]
    assert syntax.literal(f"{digits}.5e-4990") == 1e10
    value = {"a": [number, {"b": -number}], "c": math.inf}
    assert syntax.value(syntax.write(value)) == value
    assert syntax.write([1, "a"]) == "[1, 'a']"
    with pytest.raises(ValueError, match="of 200000 digits; at most 100000 are allowed"):
        syntax.literal("9" * 200_000)


def test_a_source_may_hold_such_numbers() -> None:
    digits = "9" * 5_000
    source = f"x = {digits}; assert f('{digits}') == x"
    assigned, asserted = syntax.parse(source).body
    assert isinstance(assigned, ast.Assign)
    assert ast.literal_eval(assigned.value) == 10**5_000 - 1
    assert ast.get_source_segment(source, asserted) == f"assert f('{digits}') == x"
    assert {symbol.get_name() for symbol in syntax.symbols(source).get_symbols()} == {"x", "f"}


def test_a_value_may_be_infinite() -> None:
    assert repr(syntax.value("[inf, -inf, (nan,)]")) == "[inf, -inf, (nan,)]"
    for name in ("[inf]", "nan"):
        with pytest.raises(ValueError, match="malformed"):
            syntax.literal(name)


def test_what_warns_is_silent() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        syntax.parse("'\\d' is 1")


def test_what_takes_the_square_of_its_length_is_refused() -> None:
    assert syntax.parse("f'" + "{a}" * 1000 + "'")
    assert syntax.literal("[" + "{}, " * 100_000 + "]")
    assert syntax.parse("word = f'{a}'\ntable = '" + "{}" * 100_000 + "'"), "the braces are in another string"
    for parse in (syntax.parse, syntax.symbols, syntax.literal):
        with pytest.raises(ValueError, match="too many braces"):
            parse("f'" + "{a}" * 100_000 + "'")
        with pytest.raises(ValueError, match="too many braces"):
            parse("[\n'''it's''' # it's\n, Rf'" + "{a}" * 100_000)  # which has no end, either
