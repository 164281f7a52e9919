"""What a program answered, in the form in which it came (cage/wire/codec.py). Nothing hostile is hashed or rebuilt.

A form is checked once. From then on it can be shown, and compared by `number`, `base` and `key`: each takes time in
proportion to the form's size, whatever the program sent.
"""

import math
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import Any

from sandbox_service.cage.wire.codec import MAX_DEPTH, Malformed

Form = Any
"""JSON as codec.encode makes it; see there for the tags."""

Number = int | float | complex | Decimal


def checked(form: Form, depth: int = 0) -> Form:
    """The form itself. Raises Malformed, and ValueError, TypeError, LookupError or OverflowError for wrong parts."""
    if form is None or isinstance(form, bool | int | float | str):
        return form
    if depth > MAX_DEPTH + 2:
        raise Malformed("nested too deeply")
    if isinstance(form, list):
        for item in form:
            checked(item, depth + 1)
        return form
    tag, body = tagged(form)
    match tag, body:
        case "i", str():
            int(body, 16)
        case "b", str():
            bytes.fromhex(body)
        case "c", [int() | float(), int() | float()]:
            complex(*body)
        case "o", [str(), str()]:
            pass
        case "d", list():
            for pair in body:
                if not isinstance(pair, list) or len(pair) != 2:
                    raise Malformed("a dict holds pairs")
                checked(pair[0], depth + 1)
                checked(pair[1], depth + 1)
        case (("t" | "s" | "f"), list()):
            for item in body:
                checked(item, depth + 1)
        case "l", [str(), *parts]:
            for part in parts:
                checked(part, depth + 1)
            _check_parts(body[0], parts)
        case _:
            raise Malformed(f"no form: {str(tag)[:16]!r}")
    return form


def tagged(form: Form) -> tuple[str, Any]:
    """The tag and the body of a form that isn't a scalar or a list. Raises Malformed."""
    if not isinstance(form, dict) or len(form) != 1:
        raise Malformed("an object has one key")
    return next(iter(form.items()))


def _check_parts(name: str, parts: list[Form]) -> None:
    """Those of the kinds that equal plain values: the others are only shown."""
    if name == "Decimal":
        try:
            Decimal(parts[0])
        except (InvalidOperation, IndexError):
            raise Malformed("no Decimal") from None
    elif name == "Fraction":
        numerator, denominator = (integer(part) for part in parts)
        if denominator is None or numerator is None or denominator <= 0:
            raise Malformed("no Fraction")
    elif name in BASES:
        BASES[name](parts)


def integer(form: Form) -> int | None:
    """The integer or bool that a form is; of any size, in time linear in its text."""
    if isinstance(form, int):
        return form
    if isinstance(form, dict) and "i" in form:
        return int(form["i"], 16)
    return None


def number(form: Form) -> Number | tuple[int, int] | None:
    """What Python's numbers compare with: an exact number, or a fraction as a pair. None for what is no number."""
    if isinstance(form, int | float):
        return form
    if not isinstance(form, dict):
        return None
    tag, body = tagged(form)
    if tag == "i":
        return int(body, 16)
    if tag == "c":
        return complex(*body)
    if tag == "l" and body[0] == "Decimal":
        value = Decimal(body[1])
        return math.nan if value.is_snan() else value  # as comparing that raises
    if tag == "l" and body[0] == "Fraction":
        numerator, denominator = integer(body[1]), integer(body[2])
        assert numerator is not None
        assert denominator is not None
        return numerator if denominator == 1 else (numerator, denominator)
    return None


def base(form: Form) -> Form:
    """The form of the plain value that a value of the library equals in Python, as a Counter does a dict."""
    if isinstance(form, dict):
        tag, body = tagged(form)
        if tag == "l" and body[0] in BASES:
            return BASES[body[0]](body[1:])
    return form


def _body(wanted: str, form: Form) -> Form:
    """That of a form with that tag. Raises Malformed."""
    tag, body = tagged(form)
    if tag != wanted:
        raise Malformed("a part of another kind")
    return body


def _list(form: Form) -> Form:
    if not isinstance(form, list):
        raise Malformed("a part of another kind")
    return form


def _pairs(form: Form) -> Form:
    pairs = _list(form)
    if not all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
        raise Malformed("pairs are lists of two")
    return pairs


BASES: dict[str, Callable[[list[Form]], Form]] = {
    "bytearray": lambda parts: {"b": _body("b", parts[0])},
    "memoryview": lambda parts: {"b": _body("b", parts[0])},
    "Counter": lambda parts: {"d": _pairs(parts[0])},
    "OrderedDict": lambda parts: {"d": _pairs(parts[0])},
    "defaultdict": lambda parts: {"d": _pairs(parts[0])},
    "UserDict": lambda parts: {"d": _body("d", parts[0])},
    "UserList": lambda parts: _list(parts[0]),
    "mappingproxy": lambda parts: {"d": _body("d", parts[0])},
    "dict_keys": lambda parts: {"s": _list(parts[0])},
    "dict_items": lambda parts: {"s": _list(parts[0])},
    "namedtuple": lambda parts: {"t": _body("t", parts[2])},
}


def key(form: Form) -> str:
    """A text that two forms share exactly if their values are equal in Python: it sorts, and its hash is seeded."""
    out: list[str] = []
    _write_key(form, out)
    return "".join(out)


def _write_key(form: Form, out: list[str]) -> None:
    if isinstance(form, str):
        out.append(f"{len(form)}:{form}")
    elif isinstance(form, int | float):
        out.append(number_key(form))
    elif form is None:
        out.append("N")
    elif isinstance(form, list):
        _write_keys("[", form, out)
    elif (value := number(form)) is not None:
        out.append(number_key(value))
    elif isinstance(form := base(form), list):
        _write_keys("[", form, out)
    else:
        tag, body = tagged(form)
        if tag in ("s", "f"):
            out += ["{", *(f"{len(text)},{text}" for text in sorted({key(item) for item in body})), "}"]
        elif tag == "d":
            found = {key(name): item for name, item in body}
            out.append("d")
            for text in sorted(found):
                out += [f"{len(text)},{text}", "="]
                _write_key(found[text], out)
            out.append("}")
        elif tag == "t":
            _write_keys("(", body, out)
        elif tag == "o":
            out.append(f"o{id(form)};")  # equal to nothing but itself
        elif tag == "l":
            out.append(f"l{body[0]}")
            _write_keys("(", body[1:], out)
        else:
            out.append(f"{tag}{body.lower()}")


def _write_keys(start: str, items: list[Form], out: list[str]) -> None:
    out.append(start)
    for item in items:
        _write_key(item, out)
        out.append(",")
    out.append("]")


def number_key(value: Number | tuple[int, int]) -> str:
    """One text for 1, True, 1.0, 1+0j and Decimal("1.00")."""
    if isinstance(value, int):
        return f"i{value:x};"
    if isinstance(value, float):
        return f"i{int(value):x};" if value.is_integer() else f"f{value!r};"
    if isinstance(value, complex):
        return f"c{number_key(value.real)}{number_key(value.imag)};" if value.imag else number_key(value.real)
    if isinstance(value, Decimal):
        exact = _of_decimal(value)
        return f"D{exact};" if isinstance(exact, str) else number_key(exact)
    numerator, denominator = value
    if denominator == 1:
        return f"i{numerator:x};"
    if denominator.bit_length() < 1100 and (near := _over(numerator, denominator)).as_integer_ratio() == value:
        return f"f{near!r};"
    return f"q{numerator:x}/{denominator:x};"


def _over(numerator: int, denominator: int) -> float:
    try:
        return numerator / denominator
    except OverflowError:
        return 0.0


_MOST_DIGITS = 5000


def _of_decimal(value: Decimal) -> str | float | tuple[int, int]:
    """As a fraction; one that would take too many digits stays a text, and equals no other kind of number."""
    if not value.is_finite():
        return math.nan if value.is_nan() else float(value)
    sign, digits, exponent = value.as_tuple()
    if abs(value.adjusted()) <= _MOST_DIGITS and len(digits) <= _MOST_DIGITS:
        return value.as_integer_ratio()
    text = "".join(map(str, digits)).lstrip("0")
    exact = text.rstrip("0")
    return f"{sign}{exact}e{int(exponent) + len(text) - len(exact)}" if exact else (0, 1)
