"""Values of numpy: to a caller's expected literal as lists and numbers, to tests as what they are, by their bytes."""

import sys
from collections.abc import Callable
from typing import Any

Encode = Callable[[Any], Any]


def is_of_numpy(value: object) -> bool:
    return "numpy" in sys.modules and any(base.__module__.partition(".")[0] == "numpy" for base in type(value).__mro__)


def is_array(value: object) -> bool:
    return "numpy" in sys.modules and issubclass(type(value), sys.modules["numpy"].ndarray)


def of(value: Any) -> Any:
    """The array that numpy makes of what it compares, be it a list, a range or what calls itself a sequence; None for
    what it can't make one of."""
    numpy: Any = sys.modules["numpy"]
    if is_array(value):
        return value
    try:
        return numpy.asarray(value)
    except Exception:  # noqa: BLE001 (it may be of a class of anybody's)
        return None


def masks_differ(one: Any, other: Any) -> bool:
    """Of two arrays, where masked elements came from the other side: the tests may mask what they don't compare."""
    if not _masked_came:
        return False
    ma: Any = sys.modules["numpy"].ma
    a, b = ma.getmaskarray(one), ma.getmaskarray(other)
    return bool((a != b).any() if a.shape == b.shape else a.any() or b.any())


_masked_came: list[bool] = []


def plain(value: Any, encode: Encode) -> Any:
    """A number as Python's, an array as the list of its items (None for a masked one)."""
    numpy: Any = sys.modules["numpy"]
    if issubclass(type(value), numpy.ndarray):
        return encode(value.tolist())
    if not issubclass(type(value), numpy.generic):
        return None
    item = value.item()
    if issubclass(type(item), numpy.generic):  # longdouble has no counterpart
        item = complex(item) if issubclass(type(item), numpy.complexfloating) else float(item)
    return encode(item)


def form(value: Any, encode: Encode) -> dict[str, Any] | None:
    """`{"l": ["numpy.NAME", part, ...]}`; None for what is no value: a function, a view on a file."""
    numpy: Any = sys.modules["numpy"]
    kind = type(value)
    if value is numpy.ma.masked:
        parts: list[Any] = ["masked", None, True, None]  # there is one, and tests may ask for it by `is`
    elif issubclass(kind, numpy.ma.MaskedArray):
        parts = ["masked", value.data, numpy.ma.getmaskarray(value), value.fill_value]
    elif issubclass(kind, numpy.ndarray):
        name = "matrix" if issubclass(kind, numpy.matrix) else "ndarray"
        parts = [name, *_contents(value), _type(value.dtype), value.shape]
    elif issubclass(kind, numpy.generic):
        parts = ["scalar", *_contents(numpy.asarray(value)), _type(value.dtype)]
    elif issubclass(kind, numpy.dtype):
        parts = ["dtype", _type(value)]
    elif issubclass(kind, numpy.random.Generator):
        parts = ["Generator", value.bit_generator.state]
    elif issubclass(kind, numpy.random.RandomState):
        parts = ["RandomState", value.get_state(legacy=False)]
    else:
        return None
    return {"l": [f"numpy.{parts[0]}", *map(encode, parts[1:])]}


def _type(dtype: Any) -> Any:
    if dtype.names == ():
        return []
    return dtype.descr if dtype.fields else dtype.str


def _contents(array: Any) -> tuple[Any]:
    """Bytes, or items where bytes say nothing: objects, and what takes no room."""
    return (array.ravel().tolist() if array.dtype.hasobject or not array.dtype.itemsize else array.tobytes(),)


MUTABLE = {"numpy.ndarray", "numpy.matrix", "numpy.Generator", "numpy.RandomState"}


def build(name: str, parts: list[Any]) -> Any:
    """Raises what numpy raises for wrong parts, LookupError for an unknown name, ImportError where it's not there."""
    numpy: Any = __import__("numpy")
    if name in ("numpy.ndarray", "numpy.matrix"):
        contents, dtype, shape = parts
        made = _array(numpy, contents, dtype).reshape(shape)
        return numpy.asmatrix(made) if name == "numpy.matrix" else made
    if name == "numpy.scalar":
        return _array(numpy, *parts)[0]
    if name == "numpy.masked":
        data, mask, fill = parts
        _masked_came[:] = [True]
        return numpy.ma.masked if data is None else numpy.ma.MaskedArray(data, mask, fill_value=fill)
    if name == "numpy.dtype":
        return numpy.dtype(*parts)
    if name == "numpy.Generator":
        bits = getattr(numpy.random, _bits(parts[0]))()
        bits.state = parts[0]
        return numpy.random.Generator(bits)
    if name == "numpy.RandomState":
        made = numpy.random.RandomState()
        made.set_state(parts[0])
        return made
    raise LookupError(name)


def _bits(state: Any) -> str:
    name = state["bit_generator"]
    if name not in ("PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64"):
        raise LookupError(name)
    return str(name)


def _array(numpy: Any, contents: Any, dtype: Any) -> Any:
    dtype = numpy.dtype(dtype)
    if not isinstance(contents, list):
        return numpy.frombuffer(contents, dtype).copy()
    made = numpy.empty(len(contents), dtype)
    for place, item in enumerate(contents):
        made[place] = item
    return made


def fill(array: Any, name: str, parts: list[Any]) -> None:
    """Makes one of MUTABLE what `parts` say, in place. Raises ValueError for another shape or type."""
    if name == "numpy.Generator":
        array.bit_generator.state = parts[0]
    elif name == "numpy.RandomState":
        array.set_state(parts[0])
    else:
        new = build(name, parts)
        if new.dtype != array.dtype or new.shape != array.shape:
            array.dtype, array.shape = new.dtype, new.shape
        array[...] = new
