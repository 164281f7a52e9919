"""EvalPlus' rules for an answer (evalplus 0.3.1, evalplus/eval): this file is pasted in front of each task's tests.

It runs in the sandbox, apart from the program, on the standard library alone, and loads what it needs of that when it
needs it: hashlib takes as long as many a program. An answer is right where it equals what the reference gave; where
floats are expected, or the task has a tolerance, also where it is close to it.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

_RELATIVE = 1e-7
_MANY = 64
_EXACT = 1 << 53
_FLOATS = 1e-6


class Digest(str):
    """Stands for an expected value that is long: sha256 of its `canonical` text."""

    __slots__ = ()


def unmarked(found: dict[str, Any]) -> Any:
    """The form of it in JSON, which has no Digest."""
    return Digest(found["digest"]) if found.keys() == {"digest"} else found


def canonical(value: Any) -> str:
    """One text for all values that are equal. Raises TypeError for what is not a plain value, or NaN."""
    if isinstance(value, int):
        return hex(int(value))
    if isinstance(value, float):
        if math.isnan(value):
            raise TypeError("NaN equals nothing")
        return hex(int(value)) if value.is_integer() else repr(float(value))
    if isinstance(value, str):
        return f"{len(value)}:{value}"
    if isinstance(value, (list, tuple)):
        if len(value) > _MANY and (numbers := _numbers(value)):
            return f"{'[' if isinstance(value, list) else '('}{numbers}"
        return ("[{}]" if isinstance(value, list) else "({})").format(",".join(map(canonical, value)))
    if isinstance(value, dict):
        items = sorted(f"{canonical(key)}={canonical(item)}" for key, item in value.items())
        return f"{{{','.join(items)}}}"
    if isinstance(value, (set, frozenset)):
        return f"<{','.join(sorted(map(canonical, value)))}>"
    if value is None:
        return "None"
    raise TypeError(type(value).__name__)


def _numbers(values: Sequence[Any]) -> str:
    """The numbers, of which there may be millions, where floats hold them exactly; else empty."""
    if not set(map(type, values)) <= {int, float, bool} or not -_EXACT < min(values) <= max(values) < _EXACT:
        return ""
    import array
    import hashlib

    doubles = array.array("d", map((0.0).__add__, array.array("d", values)))  # and -0.0 is 0.0
    return "" if any(map(math.isnan, doubles)) else hashlib.sha256(doubles.tobytes()).hexdigest()


def digest(value: Any) -> str:
    import hashlib

    return hashlib.sha256(canonical(value).encode("utf-8", "surrogatepass")).hexdigest()


def floats(value: Any) -> bool:
    """A float, or a list or tuple of nothing else."""
    if isinstance(value, (list, tuple)):
        return bool(value) and all(isinstance(item, float) for item in value)
    return isinstance(value, float)


def equal(got: Any, expected: Any) -> bool:
    if not isinstance(expected, Digest):
        return bool(got == expected)
    try:
        return digest(got) == str(expected)
    except TypeError:
        return False


def close(got: Any, expected: Any, tolerance: float) -> bool:
    """As numpy.allclose with its relative 1e-7, element by element."""
    if isinstance(expected, (list, tuple)) or isinstance(got, (list, tuple)):
        if not (isinstance(expected, (list, tuple)) and isinstance(got, (list, tuple)) and len(got) == len(expected)):
            return False
        return all(close(mine, theirs, tolerance) for mine, theirs in zip(got, expected, strict=True))
    if not (isinstance(got, (int, float, complex)) and isinstance(expected, (int, float, complex))):
        return False
    try:
        return bool(got == expected or abs(got - expected) <= tolerance + _RELATIVE * abs(expected) < math.inf)
    except OverflowError:
        return False


def judge(answers: Iterable[Any], inputs: Sequence[Any], expected: Sequence[Any], tolerance: float,
          exact: Callable[[Any, Any, Any], bool] | None = None, alone: bool = False) -> None:  # fmt: skip
    """Raises AssertionError at the first wrong one of the answers to the inputs. `exact`: whether one to arguments
    is the expected one, for tasks that have a rule of their own; `alone`: nothing but that counts."""
    for arguments, wanted, got in zip(inputs, expected, answers, strict=True):
        right = exact(arguments, got, wanted) if exact else equal(got, wanted)
        if alone:
            assert right, f"{shown(arguments)}: {shown(got)} is wrong"
            continue
        if tolerance == 0 and floats(wanted):
            tolerance = _FLOATS  # and stays so for what follows, as in EvalPlus
        if not right and tolerance and type(got) is type(wanted):
            right = close(got, wanted, tolerance)
        assert right, f"{shown(arguments)}: {shown(got)} is not {shown(wanted)}"


def shown(value: Any) -> str:
    try:
        return repr(value)[:200]
    except ValueError:  # a number of more than 4,300 digits
        return f"a long {type(value).__name__}"
