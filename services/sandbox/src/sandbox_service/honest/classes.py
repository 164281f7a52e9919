"""Classes, dataclasses, enums and functions of the program, as tests look at them."""

from sandbox_service.honest import check

PROGRAM = '''
from dataclasses import dataclass, field, asdict
import enum, abc, functools, collections.abc
@dataclass
class Point:
    """A point."""
    x: int
    y: int = 0
    tags: list = field(default_factory=list)
    def norm(self):
        "length"
        return abs(self.x) + abs(self.y)
@dataclass(frozen=True, order=True)
class V:
    a: int
    b: int
@dataclass
class Line:
    start: Point
    end: Point
class Shape(abc.ABC):
    @abc.abstractmethod
    def area(self): ...
class Square(Shape):
    def __init__(self, s): self.s = s
    def area(self): return self.s ** 2
class Bag(collections.abc.Sequence):
    def __init__(self, *xs): self.xs = xs
    def __len__(self): return len(self.xs)
    def __getitem__(self, i): return self.xs[i]
class Map(collections.abc.MutableMapping):
    def __init__(self): self.d = {}
    def __getitem__(self, k): return self.d[k]
    def __setitem__(self, k, v): self.d[k] = v
    def __delitem__(self, k): del self.d[k]
    def __iter__(self): return iter(self.d)
    def __len__(self): return len(self.d)
class Color(enum.Enum):
    RED = 1
    BLUE = 2
    def __str__(self): return self.name.lower()
    def __repr__(self): return f"<{self.name}>"
    @property
    def hexa(self): return "#" + self.name
    @classmethod
    def default(cls): return cls.BLUE
    def describe(self): return self.name + "!"
class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2
    def __str__(self): return "lvl" + str(self.value)
class Perm(enum.Flag):
    R = 1
    W = 2
def f(x):
    """Doc of f."""
    return Point(x, x + 1)
def deco(g):
    @functools.wraps(g)
    def inner(*a, **k):
        "inner doc"
        return g(*a, **k)
    return inner
@deco
def wrapped(a, b=2):
    """Doc of wrapped."""
    return a + b
async def co(x): return x
def gen(n):
    yield from range(n)
async def agen(n):
    for i in range(n): yield i
def sig(a: int, b: str = "x", *args, c, d=4, **kw) -> bool: return True
'''
MORE = """
from abc import ABC, abstractmethod
from typing import Protocol, runtime_checkable, NamedTuple, TypedDict
import numbers
@runtime_checkable
class Quack(Protocol):
    def quack(self) -> str: ...
class Duck:
    def quack(self): return "q"
class P(NamedTuple):
    x: int
    y: int = 0
class Money(numbers.Number):
    def __init__(self, n): self.n = n
class Temp:
    def __init__(self, c): self._c = c
    @property
    def c(self):
        "celsius"
        return self._c
    @c.setter
    def c(self, v):
        if v < -273: raise ValueError("cold")
        self._c = v
    @staticmethod
    def conv(c): return c * 2
    def __repr__(self): return f"Temp({self._c})"
class Slotted:
    __slots__ = ("a",)
    def __init__(self): self.a = 1
class Singleton:
    _i = None
    def __new__(cls):
        if cls._i is None: cls._i = super().__new__(cls)
        return cls._i
class Plugin:
    registry = {}
    def __init_subclass__(cls, **kw):
        super().__init_subclass__(**kw)
        Plugin.registry[cls.__name__] = cls
def f(x): return Duck()
"""
ENUMS = """
import enum
class Color(str, enum.Enum):
    RED = "red"
    BLUE = "blue"
    @classmethod
    def parse(cls, s): return cls(s.lower())
    @staticmethod
    def names(): return ["r", "b"]
class Planet(enum.Enum):
    MERCURY = (3.3, 2.4)
    EARTH = (5.9, 6.3)
    def __init__(self, mass, radius): self.mass, self.radius = mass, radius
    @property
    def density(self): return self.mass / self.radius
class Ordered(enum.Enum):
    LOW = 1
    HIGH = 2
    def __lt__(self, other): return self.value < other.value
    @classmethod
    def _missing_(cls, v):
        for m in cls:
            if m.name.lower() == v: return m
class Op(enum.Enum):
    ADD = "+"
    SUB = "-"
    def __call__(self, a, b): return a + b if self is Op.ADD else a - b
    def apply(self, a, b): return self(a, b)
class Auto(enum.Enum):
    A = enum.auto()
    B = enum.auto()
class Bits(enum.IntFlag):
    X = 1
    Y = 2
    XY = 3
@enum.unique
class Sz(enum.IntEnum):
    S = 1
    M = 2
def f(c): return Color.RED if c else Color.BLUE
def h(c: Color): return c.value, isinstance(c, Color), c is Color.RED
def allc(): return list(Color)
def d(): return {Color.RED: 1}
"""
CASES = (
    check("asdict", PROGRAM, "from dataclasses import asdict\nassert asdict(Point(1, 2)) == {'x': 1, 'y': 2, 'tags': []}\n", names=["Point"]),
    check("asdict of a result", PROGRAM, "from dataclasses import asdict\nassert asdict(f(1)) == {'x': 1, 'y': 2, 'tags': []}\n"),
    check("astuple", PROGRAM, 'from dataclasses import astuple\nassert astuple(Point(1, 2)) == (1, 2, [])\n', names=["Point"]),
    check("is_dataclass", PROGRAM, 'import dataclasses\nassert dataclasses.is_dataclass(Point) and dataclasses.is_dataclass(Point(1)) and not dataclasses.is_dataclass(Square)\nassert f(1) == Point(1, 2)\n', names=["Point", "Square"]),
    check("fields", PROGRAM, "from dataclasses import fields\nassert [x.name for x in fields(Point)] == ['x', 'y', 'tags']\nassert [x.name for x in fields(f(1))] == ['x', 'y', 'tags']\nassert fields(Point)[0].type in (int, 'int') and fields(Point)[1].default == 0\n", names=["Point"]),
    check("replace", PROGRAM, 'from dataclasses import replace\nassert replace(Point(1, 2), x=5) == Point(5, 2)\nassert replace(Point(1, 2), x=5).x == 5\n', names=["Point"]),
    check("replace of a result", PROGRAM, 'import dataclasses\nassert dataclasses.replace(f(1), x=5) == Point(5, 2)\n', names=["Point"]),
    check("asdict within asdict", PROGRAM, "from dataclasses import asdict\nassert asdict(Line(Point(0, 0), Point(1, 1))) == {'start': {'x': 0, 'y': 0, 'tags': []}, 'end': {'x': 1, 'y': 1, 'tags': []}}\n", names=["Point", "Line"]),
    check("frozen, with pytest", PROGRAM, 'import dataclasses, pytest\nv = V(1, 2)\nwith pytest.raises(dataclasses.FrozenInstanceError):\n    v.a = 5\nassert v.a == 1\n', names=["V"]),
    check("frozen, with try", PROGRAM, 'from dataclasses import FrozenInstanceError\ntry:\n    V(1, 2).a = 3\n    assert False\nexcept FrozenInstanceError:\n    pass\n', names=["V"]),
    check("order and hash", PROGRAM, 'assert V(1, 2) < V(2, 1) and sorted([V(2, 1), V(1, 2)]) == [V(1, 2), V(2, 1)] and hash(V(1, 2)) == hash(V(1, 2)) and len({V(1, 2), V(1, 2)}) == 1\n', names=["V"]),
    check("docstrings", PROGRAM, "assert Point.__doc__ == 'A point.' and f.__doc__ == 'Doc of f.' and f.__name__ == 'f' and Point.__name__ == 'Point'\n", names=["Point"]),
    check("docstrings of methods", PROGRAM, "assert Point.norm.__doc__ == 'length' and Point(1, 2).norm.__doc__ == 'length'\nassert Point(3).norm() == 3\n", names=["Point"]),
    check("functools.wraps", PROGRAM, "assert wrapped.__name__ == 'wrapped' and wrapped.__doc__ == 'Doc of wrapped.' and wrapped(1) == 3\n", names=["wrapped"]),
    check("__wrapped__", PROGRAM, "assert wrapped.__wrapped__(1, 5) == 6 and hasattr(wrapped, '__wrapped__')\n", names=["wrapped"]),
    check("signature of a wrapper", PROGRAM, "import inspect\nassert list(inspect.signature(wrapped).parameters) == ['a', 'b'] and wrapped(1) == 3\n", names=["wrapped"]),
    check("signature with annotations", PROGRAM, "import inspect\ns = inspect.signature(sig)\nassert list(s.parameters) == ['a', 'b', 'args', 'c', 'd', 'kw']\nassert s.parameters['b'].default == 'x' and s.parameters['a'].annotation is int and s.return_annotation is bool\nassert s.parameters['c'].kind is inspect.Parameter.KEYWORD_ONLY\n", names=["sig"]),
    check("kinds of functions", PROGRAM, 'import inspect\nassert inspect.iscoroutinefunction(co) and inspect.isgeneratorfunction(gen) and inspect.isasyncgenfunction(agen) and not inspect.iscoroutinefunction(f)\nassert list(gen(2)) == [0, 1]\n', names=["co", "gen", "agen"]),
    check("asyncio.iscoroutinefunction", PROGRAM, 'import asyncio\nassert asyncio.iscoroutinefunction(co)\nassert asyncio.run(co(3)) == 3\n', names=["co"]),
    check("inspect's predicates", PROGRAM, 'import inspect\nassert inspect.isfunction(f) and inspect.isclass(Point) and callable(f) and inspect.isgenerator(gen(2)) and inspect.iscoroutine(co(1)) and f(1).x == 1\n', names=["Point", "co", "gen"]),
    check("types.FunctionType", PROGRAM, 'import types\nassert isinstance(f, types.FunctionType) and isinstance(gen(2), types.GeneratorType) and f(1).x == 1\n', names=["gen"]),
    check("own abstract class", PROGRAM, 'assert isinstance(Square(2), Shape) and issubclass(Square, Shape) and Square(3).area() == 9\n', names=["Shape", "Square"]),
    check("abstract class is not made", PROGRAM, 'import pytest\nwith pytest.raises(TypeError):\n    Shape()\nwith pytest.raises(TypeError, match="abstract"):\n    Shape()\n', names=["Shape"]),
    check("isabstract", PROGRAM, "import inspect\nassert inspect.isabstract(Shape) and not inspect.isabstract(Square)\nassert Shape.__abstractmethods__ == frozenset({'area'}) and Square(2).area() == 4\n", names=["Shape", "Square"]),
    check("abc.ABC", PROGRAM, 'from abc import ABC\nassert issubclass(Shape, ABC) and isinstance(Square(1), ABC) and Square(2).area() == 4\n', names=["Shape", "Square"]),
    check("subclass of an abstract class", PROGRAM, 'class Tri(Shape):\n    def area(self): return 3\nassert Tri().area() == 3 and isinstance(Tri(), Shape)\n', names=["Shape"]),
    check("unfinished subclass", PROGRAM, 'class Bad(Shape):\n    pass\ntry:\n    Bad()\nexcept TypeError:\n    pass\nelse:\n    assert False\nassert Square(2).area() == 4\n', names=["Shape", "Square"]),
    check("classes of collections.abc", PROGRAM, 'from collections.abc import Sequence, Iterable, Sized, MutableMapping, Mapping, Callable, Hashable\nassert isinstance(Bag(1, 2), Sequence) and isinstance(Bag(), Iterable) and issubclass(Bag, Sequence) and isinstance(Map(), MutableMapping) and isinstance(Map(), Mapping)\nassert list(Bag(1, 2)) == [1, 2] and not isinstance(Bag(1), Mapping)\n', names=["Bag", "Map"]),
    check("mixins of Sequence", PROGRAM, 'b = Bag(1, 2, 1)\nassert b.index(2) == 1 and b.count(1) == 2 and 2 in b and list(reversed(b)) == [1, 2, 1]\n', names=["Bag"]),
    check("mixins of MutableMapping", PROGRAM, "m = Map()\nm['a'] = 1\nm.update(b=2)\nassert dict(m) == {'a': 1, 'b': 2} and m.get('z', 7) == 7 and sorted(m.items()) == [('a', 1), ('b', 2)] and m.pop('a') == 1 and 'a' not in m\nassert list(m.keys()) == ['b'] and list(m.values()) == [2]\n", names=["Map"]),
    check("enum with its own __str__", PROGRAM, 'assert str(Color.RED) == \'red\' and repr(Color.BLUE) == \'<BLUE>\' and f"{Color.RED}" == \'red\'\n', names=["Color"]),
    check("enum with methods", PROGRAM, "assert Color.RED.hexa == '#RED' and Color.default() is Color.BLUE and Color.RED.describe() == 'RED!' and Color['RED'] is Color.RED and Color(2) is Color.BLUE\n", names=["Color"]),
    check("IntEnum with its own __str__", PROGRAM, "assert str(Level.LOW) == 'lvl1' and Level.LOW < Level.HIGH and Level.HIGH == 2 and isinstance(Level.LOW, int)\n", names=["Level"]),
    check("Flag", PROGRAM, 'assert (Perm.R | Perm.W).value == 3 and Perm.R in (Perm.R | Perm.W)\n', names=["Perm"]),
    check("an enum's members", PROGRAM, "from enum import Enum\nassert issubclass(Color, Enum) and len(Color) == 2 and [c.name for c in Color] == ['RED', 'BLUE'] and Color.__members__['RED'] is Color.RED and isinstance(Color.RED, Color)\n", names=["Color"]),
    check("no member of an enum", PROGRAM, "try:\n    Color(9)\nexcept ValueError as e:\n    assert '9' in str(e)\nelse:\n    assert False\n", names=["Color"]),
    check("match by names", PROGRAM, 'match Point(1, 2):\n    case Point(x=1, y=y):\n        assert y == 2\n    case _:\n        assert False\n', names=["Point"]),
    check("match by positions", PROGRAM, 'match Point(1, 2):\n    case Point(1, y):\n        assert y == 2\n    case _:\n        assert False\n', names=["Point"]),
    check("annotations of a dataclass", PROGRAM, "assert Point.__annotations__['x'] in (int, 'int') and f(1).x == 1\n", names=["Point"]),
    check("type of a result", PROGRAM, "p = f(1)\nassert type(p).__name__ == 'Point' and p.__class__.__name__ == 'Point' and isinstance(p, Point) and type(p) is Point and type(p) == Point\n", names=["Point"]),
    check("hasattr of a class", PROGRAM, "assert hasattr(Point, 'norm') and callable(getattr(Point, 'norm')) and not hasattr(Point, 'nope') and f(1).x == 1\n", names=["Point"]),
    check("hasattr of a result", PROGRAM, "assert hasattr(f(1), 'x') and not hasattr(f(1), 'zz')\n"),
    check("get_type_hints", PROGRAM, "import typing\nassert typing.get_type_hints(sig)['a'] is int and sig(1, c=2)\n", names=["sig"]),
    check("defaults and annotations", PROGRAM, "assert sig.__annotations__ == {'a': int, 'b': str, 'return': bool} and sig.__defaults__ == ('x',) and sig.__kwdefaults__ == {'d': 4} and sig(1, c=2) is True\n", names=["sig"]),
    check("code of a function", PROGRAM, "assert f.__code__.co_argcount == 1 and f.__code__.co_varnames[:1] == ('x',) and f(1).x == 1\n"),
    check("inspect.getdoc", PROGRAM, "import inspect\nassert inspect.getdoc(f) == 'Doc of f.' and f(1).x == 1\n"),
    check("signatures of methods and classes", PROGRAM, "import inspect\nassert list(inspect.signature(Point.norm).parameters) == ['self'] and list(inspect.signature(Point).parameters) == ['x', 'y', 'tags'] and list(inspect.signature(Point(1).norm).parameters) == [] and f(1).x == 1\n", names=["Point"]),
    check("deepcopy", PROGRAM, 'import copy\np = copy.deepcopy(Point(1, 2))\nassert p == Point(1, 2)\n', names=["Point"]),
    check("copy", PROGRAM, 'import copy\na = Point(1, 2)\nb = copy.copy(a)\nassert b is not a and b.x == 1\n', names=["Point"]),
    check("runtime_checkable protocol", MORE, "assert isinstance(f(1), Quack) and isinstance(Duck(), Quack) and not isinstance(P(1), Quack)\nassert Duck().quack() == 'q'\n", names=["Quack", "Duck", "P"]),
    check("NamedTuple", MORE, "p = P(1)\nassert p == (1, 0) and p.x == 1 and p._asdict() == {'x': 1, 'y': 0} and p._replace(x=3) == P(3, 0) and P._fields == ('x', 'y') and repr(p) == 'P(x=1, y=0)' and isinstance(p, tuple) and isinstance(p, P)\n", names=["P"]),
    check("numbers.Number", MORE, 'import numbers\nassert isinstance(Money(1), numbers.Number) and Money(2).n == 2\n', names=["Money"]),
    check("property with a setter", MORE, "t = Temp(1)\nt.c = 5\nassert t.c == 5 and Temp.conv(2) == 4 and repr(t) == 'Temp(5)'\ntry:\n    t.c = -300\nexcept ValueError as e:\n    assert str(e) == 'cold'\nelse:\n    assert False\n", names=["Temp"]),
    check("__slots__", MORE, "s = Slotted()\ntry:\n    s.b = 1\nexcept AttributeError:\n    pass\nelse:\n    assert False\nassert s.a == 1 and not hasattr(s, '__dict__') and Slotted.__slots__ == ('a',)\n", names=["Slotted"]),
    check("singleton", MORE, 'assert Singleton() is Singleton()\n', names=["Singleton"]),
    check("__init_subclass__", MORE, "class A(Plugin): pass\nassert 'A' in Plugin.registry\n", names=["Plugin"]),
    check("registry of subclasses", MORE, "class A(Plugin): pass\nassert Plugin.registry['A'] is A\n", names=["Plugin"]),
    check("bases and mro", MORE, "assert Duck.__mro__[-1] is object and Duck.__bases__ == (object,) and Duck.__module__ and Duck().quack() == 'q'\n", names=["Duck"]),
    check("__class__", MORE, "d = Duck()\nassert d.__class__ is Duck and d.__class__ == Duck and type(d) is Duck and d.quack() == 'q'\n", names=["Duck"]),
    check("enum of strings", ENUMS, 'assert f(1) == "red" and f(1) is Color.RED and isinstance(f(0), str) and Color.RED.upper() == "RED" and Color("red") is Color.RED\n', names=["Color"]),
    check("enum with parse", ENUMS, 'assert Color.parse("RED") is Color.RED and Color.names() == ["r", "b"]\n', names=["Color"]),
    check("planets", ENUMS, 'assert Planet.EARTH.mass == 5.9 and round(Planet.EARTH.density, 3) == round(5.9/6.3, 3) and Planet.EARTH.value == (5.9, 6.3)\n', names=["Planet"]),
    check("ordered enum, _missing_", ENUMS, 'assert Ordered.LOW < Ordered.HIGH and Ordered("low") is Ordered.LOW and sorted([Ordered.HIGH, Ordered.LOW]) == [Ordered.LOW, Ordered.HIGH]\n', names=["Ordered"]),
    check("enum that is called", ENUMS, 'assert Op.ADD(1, 2) == 3 and Op.SUB.apply(3, 1) == 2 and Op("+") is Op.ADD\n', names=["Op"]),
    check("auto", ENUMS, 'assert [x.value for x in Auto] == [1, 2] and len(Auto) == 2\n', names=["Auto"]),
    check("IntFlag", ENUMS, 'assert Bits.X | Bits.Y == Bits.XY and (Bits.X & Bits.Y) == 0 and Bits.X in Bits.XY\n', names=["Bits"]),
    check("enums handed over", ENUMS, 'assert h(Color.RED) == ("red", True, True) and allc() == [Color.RED, Color.BLUE] and d() == {Color.RED: 1}\n', names=["Color", "h", "allc", "d"]),
    check("no such member", ENUMS, 'import pytest\nwith pytest.raises(ValueError):\n    Color("nope")\nwith pytest.raises(KeyError):\n    Color["nope"]\nwith pytest.raises(AttributeError):\n    Color.RED.value = 3\n', names=["Color"]),
    check("parametrized by members", ENUMS, 'import pytest\n@pytest.mark.parametrize("c,w", [(Color.RED, "red"), (Color.BLUE, "blue")])\ndef test_a(c, w): assert c.value == w\n', names=["Color"]),
    check("IntEnum", ENUMS, "assert Sz.S < Sz.M and Sz.M + 1 == 3 and max(Sz) is Sz.M and int(Sz.M) == 2 and repr(Sz.S) == '<Sz.S: 1>'\n", names=["Sz"]),
    check("text of members", ENUMS, "assert str(Auto.A) == 'Auto.A' and repr(Auto.A) == '<Auto.A: 1>' and Auto.A.name == 'A' and hash(Auto.A) == hash(Auto.A) and {Auto.A: 1}[Auto.A] == 1 and Auto.A != Auto.B and Auto.A in Auto\n", names=["Auto"]),
)  # fmt: skip
