"""Values of the standard library and of numpy, by their parts: `{"l": [name, part, ...]}`, each part a form.

A value is known by its exact type or the nearest of its bases that is of the library. The receiver makes it anew from
its parts by the constructor named here: nothing of the sender's is run, and no other name is ever looked up.
Numbers, dates and the like are VALUES. MUTABLE are those that may change in place: they are made empty and then filled,
so that one can be filled again. codec.py hands its `encode` and `decode` in, bound to what they need.
"""

import sys
from collections.abc import Callable
from typing import Any

Encode = Callable[[Any], Any]


class Unfit(Exception):
    """An object of the library that holds what its kind never does: it has no form."""


class Kind:
    """`module`: where its type is, under `name`; empty if it has none there, and `type_` says it."""

    __slots__ = ("build", "fill", "module", "name", "parts", "type_")

    def __init__(
        self,
        module: str,
        name: str,
        parts: Callable[[Any], tuple[Any, ...]],
        build: Callable[..., Any],
        fill: Callable[..., None] | None = None,
        type_: type | None = None,
    ) -> None:
        self.module, self.name, self.parts, self.build, self.fill, self.type_ = module, name, parts, build, fill, type_

    def is_of(self, base: type) -> bool:
        if self.type_ is not None:
            return base is self.type_
        return getattr(sys.modules.get(self.module), self.name, None) is base


def _load(module: str, name: str) -> Any:
    return getattr(__import__(module, None, None, [name]), name)


def _named(module: str, name: str) -> Callable[..., Any]:
    return lambda *parts: _load(module, name)(*parts)


def _by_text(module: str, *names: str) -> list[Kind]:
    return [Kind(module, name, lambda it: (str(it),), _named(module, name)) for name in names]


def _moment(it: Any) -> tuple[Any, ...]:
    return it.hour, it.minute, it.second, it.microsecond, _zone(it), it.fold


def _zone(it: Any) -> Any:
    """Where it's of a class that isn't the library's, what it comes to at this moment; None where it has no offset."""
    if it.tzinfo is None or kind_of(it.tzinfo) is not None:
        return it.tzinfo
    try:
        offset, name = it.utcoffset(), it.tzname()
    except Exception:  # noqa: BLE001 (its methods may do anything)
        return None
    return None if offset is None else _load("datetime", "timezone")(offset, *([] if name is None else [name]))


def _with_fold(kind: str, *parts: Any) -> Any:
    return _load("datetime", kind)(*parts[:-1], fold=parts[-1])


def _fraction(it: Any) -> tuple[int, int]:
    """A program may write what it likes into one."""
    numerator, denominator = it.numerator, it.denominator
    if type(numerator) is not int or type(denominator) is not int or denominator <= 0:
        raise Unfit
    return numerator, denominator


def _data(it: Any, kind: Any) -> Any:
    """What a UserDict or a UserList holds, as the plain type that it is to be: its own may be an OrderedDict."""
    data = it.data
    if type(data) is kind:
        return data
    if issubclass(type(data), kind):
        return kind(kind.items(data)) if kind is dict else kind.__getitem__(data, slice(None))
    raise Unfit


def _view(of: Any, kind: str) -> Kind:
    return Kind("", type(of).__name__, lambda it: (list(it),), lambda items: _make_view(kind, items), type_=type(of))


def _make_view(kind: str, items: list[Any]) -> Any:
    if kind == "keys":
        return dict.fromkeys(items).keys()
    return dict(items).items() if kind == "items" else dict(enumerate(items)).values()


def _named_tuple(name: str, fields: Any, items: Any) -> Any:
    """Raises ValueError for what is no name; `namedtuple` makes code of them, so they are looked at here, too."""
    made = _NAMED.get((name, *fields))
    if made is None:
        if len(fields) > 256 or not all(isinstance(one, str) and one.isidentifier() for one in (name, *fields)):
            raise ValueError("no named tuple")
        made = _NAMED[name, *fields] = _load("collections", "namedtuple")(name, fields)
    return made._make(items)


def _match(it: Any) -> tuple[Any, ...]:
    """What finds it again: from where it begins, or between its two ends."""
    for how, end in (("match", it.endpos), ("fullmatch", it.end())):
        again = getattr(it.re, how)(it.string, it.start(), end)
        if again is not None and again.regs == it.regs:
            return it.re, how, it.string, it.start(), end
    raise Unfit


def _find(pattern: Any, how: str, *found: Any) -> Any:
    return pattern.match(*found) if how == "match" else pattern.fullmatch(*found)


def _element(it: Any) -> tuple[Any, ...]:
    return ((it.tag, it.text, it.tail, tuple(it.attrib.items()), tuple(it)),)


def _set_element(it: Any, parts: Any) -> None:
    it.clear()
    it.tag, it.text, it.tail, attributes, children = parts
    it.attrib.update(attributes)
    it.extend(children)


_NAMED: dict[tuple[str, ...], Any] = {}
_MAPPING_PROXY: Any = type(vars(type))

_VALUES = [
    *_by_text("decimal", "Decimal"),
    *_by_text("pathlib", "PosixPath", "PurePosixPath", "PureWindowsPath"),
    *_by_text("ipaddress", *(f"IPv{v}{kind}" for v in (4, 6) for kind in ("Address", "Network", "Interface"))),
    *_by_text("zoneinfo", "ZoneInfo"),
    Kind("fractions", "Fraction", _fraction, _named("fractions", "Fraction")),
    Kind("datetime", "timedelta", lambda it: (it.days, it.seconds, it.microseconds), _named("datetime", "timedelta")),
    Kind("datetime", "timezone", lambda it: it.__getinitargs__(), _named("datetime", "timezone")),
    Kind("datetime", "time", _moment, lambda *parts: _with_fold("time", *parts)),
    Kind("datetime", "datetime", lambda it: (it.year, it.month, it.day, *_moment(it)),
         lambda *parts: _with_fold("datetime", *parts)),
    Kind("datetime", "date", lambda it: (it.year, it.month, it.day), _named("datetime", "date")),
    Kind("uuid", "UUID", lambda it: (it.int,), lambda number: _load("uuid", "UUID")(int=number)),
    Kind("builtins", "range", lambda it: (it.start, it.stop, it.step), range),
    Kind("builtins", "slice", lambda it: (it.start, it.stop, it.step), slice),
    Kind("builtins", "memoryview", lambda it: (it.tobytes(),), memoryview),
    Kind("", "mappingproxy", lambda it: (dict(it),), _MAPPING_PROXY, type_=_MAPPING_PROXY),
    Kind("re", "Pattern", lambda it: (it.pattern, it.flags), lambda text, flags: _load("re", "compile")(text, flags)),
    Kind("re", "Match", _match, _find),
    Kind("xml.etree.ElementTree", "ElementTree", lambda it: (it.getroot(),),
         _named("xml.etree.ElementTree", "ElementTree")),
    Kind("collections", "ChainMap", lambda it: (it.maps,), lambda maps: _load("collections", "ChainMap")(*maps)),
    Kind("statistics", "NormalDist", lambda it: (it.mean, it.stdev), _named("statistics", "NormalDist")),
    _view({}.keys(), "keys"), _view({}.items(), "items"), _view({}.values(), "values"),
]  # fmt: skip


def _refill(it: Any, items: Any) -> None:
    it.clear()
    it.update(items)


def _extend(it: Any, items: Any, _: int | None) -> None:
    it.clear()
    it.extend(items)


def _set_slice(it: Any, items: Any) -> None:
    it[:] = items


def _set_array(it: Any, data: bytes, _: str) -> None:
    del it[:]
    it.frombytes(data)


def _set_text(it: Any, text: Any, position: int) -> None:
    it.seek(0)
    it.truncate()
    it.write(text)
    it.seek(position)


def _set_dict(it: Any, items: Any) -> None:
    it.__dict__.clear()
    it.__dict__.update(items)


def _set_ordered(it: Any, pairs: Any) -> None:
    it.clear()
    for key, item in pairs:
        it[key] = item


def _set_default(it: Any, pairs: Any, factory: Any) -> None:
    _set_ordered(it, pairs)
    it.default_factory = factory


# The parts are what `fill` takes.
_MUTABLES = [
    Kind("builtins", "bytearray", lambda it: (bytes(it),), bytearray, _set_slice),
    Kind("collections", "Counter", lambda it: ([[k, v] for k, v in dict.items(it)],), _named("collections", "Counter"),
         _set_ordered),
    Kind("collections", "OrderedDict", lambda it: ([[k, v] for k, v in it.items()],),
         _named("collections", "OrderedDict"), _set_ordered),
    Kind("collections", "defaultdict", lambda it: ([[k, v] for k, v in dict.items(it)], it.default_factory),
         _named("collections", "defaultdict"), _set_default),
    Kind("collections", "UserDict", lambda it: (_data(it, dict),), _named("collections", "UserDict"), _refill),
    Kind("collections", "UserList", lambda it: (_data(it, list),), _named("collections", "UserList"), _set_slice),
    Kind("types", "SimpleNamespace", lambda it: (it.__dict__,), _named("types", "SimpleNamespace"), _set_dict),
    Kind("io", "StringIO", lambda it: (it.getvalue(), it.tell()), lambda: _load("io", "StringIO")(newline=""),
         _set_text),
    Kind("io", "BytesIO", lambda it: (it.getvalue(), it.tell()), _named("io", "BytesIO"), _set_text),
    Kind("random", "Random", lambda it: (it.getstate(),), _named("random", "Random"),
         lambda it, state: it.setstate(state)),
    Kind("xml.etree.ElementTree", "Element", _element,
         lambda: _load("xml.etree.ElementTree", "Element")(""), _set_element),
    # these two are made by something of them that never changes
    Kind("collections", "deque", lambda it: (list(it), it.maxlen), _named("collections", "deque"),
         _extend),
    Kind("array", "array", lambda it: (it.tobytes(), it.typecode), _named("array", "array"),
         _set_array),
]  # fmt: skip

VALUES = {kind.name: kind for kind in _VALUES}
MUTABLES = {kind.name: kind for kind in _MUTABLES}


def kind_of(value: object) -> Kind | None:
    """That of its type, or of the nearest of its bases."""
    for base in type(value).__mro__:
        kind = VALUES.get(base.__name__) or MUTABLES.get(base.__name__)
        if kind is not None and kind.is_of(base):
            return kind
    return None


def form(value: Any, encode: Encode) -> dict[str, Any] | None:
    """None: it is of no kind that is known here."""
    kind = kind_of(value)
    if kind is not None:
        try:
            parts = kind.parts(value)
        except Unfit:
            return None
        return {"l": [kind.name, *map(encode, parts)]}
    if issubclass(type(value), tuple) and isinstance(fields := getattr(type(value), "_fields", None), tuple):
        return {"l": ["namedtuple", type(value).__name__, encode(fields), encode(tuple(tuple.__iter__(value)))]}
    if value is Ellipsis or value is NotImplemented:
        return {"l": ["builtins", repr(value)]}
    return None


def build(name: str, parts: list[Any]) -> Any:
    """Of decoded parts. Raises whatever wrong parts make a constructor raise; LookupError for an unknown name."""
    if name == "namedtuple":
        return _named_tuple(*parts)
    if name == "builtins":
        return {"Ellipsis": Ellipsis, "NotImplemented": NotImplemented}[parts[0]]
    kind = VALUES.get(name)
    if kind is not None:
        return kind.build(*parts)
    kind = MUTABLES[name]
    made = empty(name, parts[1:])
    assert kind.fill is not None
    kind.fill(made, *parts)
    return made


def empty(name: str, fixed: list[Any]) -> Any:
    """One of MUTABLES with nothing in it. `fixed`: the parts after the first, of which two kinds need one."""
    if name == "deque":
        return _load("collections", "deque")((), fixed[0])
    if name == "array":
        return _load("array", "array")(fixed[0])
    return MUTABLES[name].build()
