"""The rules of single tasks (evalplus 0.3.1, evalplus/eval): pasted behind judge.py in front of the tests of those."""

import math
from typing import Any


def root(arguments: Any, got: Any, wanted: Any) -> bool:
    """HumanEval/32: any root of the polynomial."""
    (coefficients,) = arguments
    return bool(abs(sum(factor * math.pow(got, power) for power, factor in enumerate(coefficients))) <= 1e-4)


def anything(arguments: Any, got: Any, wanted: Any) -> bool:
    """Mbpp/164."""
    return True


def or_zero(arguments: Any, got: Any, wanted: Any) -> bool:
    """Mbpp/295."""
    return bool(got == wanted or got == 0)


def pyramid(arguments: Any, got: Any, wanted: Any) -> bool:
    """Mbpp/581: the height may be that of the pyramid, where the reference takes that of a side."""
    base, height = arguments
    return bool(got == wanted or got == round(base * base + 2 * base * math.hypot(base / 2, height)))


def digits_apart(arguments: Any, got: Any, wanted: Any) -> bool:
    """Mbpp/558: of the two numbers, filled with zeros to one length."""
    one, other = map(str, arguments)
    length = max(len(one), len(other))
    pairs = zip(one.zfill(length), other.zfill(length), strict=True)
    return bool(got == wanted or got == sum(abs(int(mine) - int(theirs)) for mine, theirs in pairs))


def same_set(arguments: Any, got: Any, wanted: Any) -> bool:
    return set(got) == set(wanted)


def something(arguments: Any, got: Any, wanted: Any) -> bool:
    """True where there is an answer: the original asserts of these tasks look at that alone."""
    return bool(got == wanted if isinstance(got, bool) else (got is not None) == wanted)
