"""Forms of values for people: as Python would print them, as far as there is room."""

from sandbox_service.domain import forms
from sandbox_service.domain.forms import Form

_OPEN = {"t": ("(", ")"), "s": ("{", "}"), "f": ("frozenset({", "})"), "d": ("{", "}")}
_BY_PAIRS = {"Counter", "OrderedDict", "defaultdict"}


def text(form: Form, limit: int) -> str:
    """At most `limit` characters and a few more. An integer beyond Python's limit for decimal text shows its size."""
    out = _Text(limit)
    _write(form, out)
    return "".join(out.parts)


class _Text:
    def __init__(self, room: int) -> None:
        self.room = room
        self.parts: list[str] = []

    def put(self, text: str) -> None:
        if self.room > 0:
            self.parts.append(text[: self.room])
            self.room -= len(text)


def _write(form: Form, out: _Text) -> None:
    if out.room <= 0:
        return
    if isinstance(form, str):
        out.put(repr(form[: out.room]))
    elif isinstance(form, int):
        out.put(_digits(form))
    elif form is None or isinstance(form, float):
        out.put(repr(form))
    elif isinstance(form, list):
        _write_all("[", form, "]", out)
    else:
        _write_tagged(*forms.tagged(form), out)


def _digits(number: int) -> str:
    try:
        return repr(number)
    except ValueError:
        return f"<int of {number.bit_length()} bits>"


def _write_tagged(tag: str, body: Form, out: _Text) -> None:
    if tag == "i":
        out.put(_digits(int(body, 16)))
    elif tag == "b":
        out.put(repr(bytes.fromhex(body[: 2 * out.room])))
    elif tag == "c":
        out.put(repr(complex(*body)))
    elif tag == "o":
        out.put(body[1])
    elif tag == "d":
        _write_pairs(body, out)
    elif tag in ("s", "f") and not body:
        out.put("set()" if tag == "s" else "frozenset()")
    elif tag in _OPEN:
        start, end = _OPEN[tag]
        _write_all(start, body, ",)" if tag == "t" and len(body) == 1 else end, out)
    elif tag == "l":
        _write_value(body[0], body[1:], out)


def _write_all(start: str, items: list[Form], end: str, out: _Text) -> None:
    out.put(start)
    for place, item in enumerate(items):
        if out.room <= 0:
            return
        if place:
            out.put(", ")
        _write(item, out)
    out.put(end)


def _write_pairs(pairs: list[Form], out: _Text) -> None:
    out.put("{")
    for place, (name, item) in enumerate(pairs):
        if out.room <= 0:
            return
        if place:
            out.put(", ")
        _write(name, out)
        out.put(": ")
        _write(item, out)
    out.put("}")


def _write_value(name: str, parts: list[Form], out: _Text) -> None:
    if name == "namedtuple":
        out.put(str(parts[0]))
        _write(parts[2], out)
    elif name in _BY_PAIRS:
        out.put(f"{name}(")
        _write_pairs(parts[0], out)
        out.put(")")
    else:
        _write_all(f"{name}(", parts, ")", out)
