"""An object of the program and its class, as the tests have them: what they do. The rules are in standing.py."""

import types
from typing import Any

from sandbox_service.cage.objects import answers, equality, grades, methods, operators, protocols, standing
from sandbox_service.cage.wire.errors import CannotCross


class ProxyClass(standing.AnyProxyClass):
    # What a class of the program is to the tests: calling it makes an object over there.
    __doc__: Any = property(lambda made: methods.doc_of_class(made))
    __bases__: Any = property(lambda made: methods.bases_of_class(made))
    __mro__: Any = property(lambda made: methods.mro_of_class(made))

    __specials__: frozenset[str]
    __known__: bool
    __of_tests__: bool

    def __new__(mcs, name: str, bases: tuple[Any, ...], namespace: dict[str, Any], **more: Any) -> Any:
        if "_class_place" in namespace:
            return super().__new__(mcs, name, bases, namespace)
        made: Any = super().__new__(mcs, name, bases, {**namespace, "__known__": True, "__of_tests__": True})
        made.__program__.classes.extend(made, bases, namespace)
        return made

    def __call__(cls, /, *arguments: object, **keywords: object) -> Any:
        if cls._class_place is None:
            raise CannotCross("a test calls the class of one of the program's objects without naming the class")
        known = cls if cls.__known__ else None
        equality.read_before(cls.__program__, cls)
        made = cls.__program__.ask_for(grades.Grade(grades.HANDED, known), "make", cls, *arguments, **keywords)
        if isinstance(made, Proxy) and standing.rank_of(made) is grades.MADE:
            standing.set_slot(made, "_made_of", (arguments, keywords))
            cls.__program__.keep_made(made)
        return made

    def __getattr__(cls, name: str) -> Any:
        if name == "__dataclass_fields__":
            cls.__program__.asked = True
            return methods.fields_of(cls)
        if name == "__signature__" and cls._class_place is not None:
            return methods.signature_of(cls)
        if (name.startswith("__") and name not in _OF_KINDS) or cls._class_place is None:
            raise AttributeError(name)
        return cls.__program__.ask_for(grades.OF_METHOD if cls.__known__ else grades.OF_ATTRIBUTE, "getattr", cls, name)

    def __setattr__(cls, name: str, value: object) -> None:
        if name.startswith("__") or name in _OF_CLASSES:
            super().__setattr__(name, value)
        else:
            cls.__program__.ask("setattr", cls, name, value)

    def __instancecheck__(cls, value: object) -> bool:
        if cls.__program__ is None:
            return type.__instancecheck__(cls, value)
        cls.__program__.asked = True
        if type.__instancecheck__(cls, value):
            return True
        if protocol := cls.__facts__.get("protocol"):
            return all(hasattr(value, name) for name in protocol)
        if "checks" in cls.__facts__ and isinstance(value, Proxy):
            return bool(cls.__program__.ask("isinstance", value, cls))
        # a namedtuple crosses by its value
        return isinstance(value, tuple) and hasattr(value, "_fields") and type(value).__name__ == cls.__name__

    def __subclasscheck__(cls, kind: type) -> bool:
        if cls.__program__ is None:
            return type.__subclasscheck__(cls, kind)
        cls.__program__.asked = True
        if type.__subclasscheck__(cls, kind):
            return True
        lent = isinstance(kind, ProxyClass) and kind._class_place is not None
        return bool(lent and "checks" in cls.__facts__ and cls.__program__.ask("issubclass", kind, cls))

    def __eq__(cls, other: object) -> bool:
        if isinstance(other, Proxy):
            return standing.place(other) == cls._class_place
        return cls is other

    def __hash__(cls) -> int:
        return type.__hash__(cls)


# Put there afterwards, as in the body they would be its own.
ProxyClass.__annotations__ = property(lambda made: methods.annotations_of_class(made))  # type: ignore[assignment]
ProxyClass.__slots__ = property(lambda made: methods.slots_of_class(made))  # type: ignore[attr-defined]
_OF_CLASSES = {"__program__", "_class_place", "__specials__", "__known__", "__of_tests__"}
# What classes tell of themselves, beside what Python keeps in them.
_OF_KINDS = {"__match_args__", "__wrapped__"}
_RECORDS = "__records__"  # the names of these, where there are any: ratchet_problems.helpers writes it


class Proxy(standing.AnyProxy, metaclass=ProxyClass):
    """An object in the program's process."""

    _class_place = None
    # without annotations of its own: those are the object's
    __annotations__ = property(lambda self: methods.annotations_of(self))
    __specials__ = frozenset[str](())
    __facts__ = types.MappingProxyType[str, Any]({})
    __known__ = __of_tests__ = False
    __program__ = None
    __slots__ = ()

    @property
    def __dict__(self) -> Any:  # type: ignore[override]
        if "slots" in type(self).__facts__:
            raise AttributeError("__dict__")
        return standing.held(self)

    @property  # type: ignore[misc] # nobody sets it
    def __class__(self) -> Any:
        """A record of the problem's prompt is the tests' and the program's, and isinstance must know one by the other.
        What the object holds is compared all the same. No other class of the tests can be had by its name."""
        kind: Any = type(self)
        name, tests = kind.__name__, kind.__program__.tests
        if name in tests.get(_RECORDS, ()):
            return tests.get(name, kind)
        python, base = kind.__facts__.get("python"), kind.__facts__.get("base")
        if python is not None:
            return methods.PYTHONS[python]
        return methods.class_over(kind, base) if base and standing.rank_of(self) is grades.MADE else kind

    @property
    def __doc__(self) -> Any:  # type: ignore[override]
        kind: Any = type(self)
        return kind.__program__.ask_for(grades.OF_ATTRIBUTE, "getattr", self, "__doc__")

    def __getattr__(self, name: str) -> Any:
        kind, rank = type(self), standing.rank_of(self)
        if rank is grades.MADE and standing.slot_of(self, "_came_back") and name in standing.PREDICATES:
            raise CannotCross(f"a test reads {name} of one of the program's objects")
        if name == "__dataclass_fields__":
            return getattr(kind, name)
        if name == "__annotations__":
            return methods.annotations_of(self)
        if name == "__code__" and "python" in kind.__facts__:
            return methods.code_of(kind.__program__, self)
        if name.startswith("__") and name not in methods.OF_FUNCTIONS:
            raise AttributeError(name)
        if name in ("send", "throw", "close") and kind.__facts__.get("python") == "generator":
            return protocols.of_generator(self, name)
        if rank in (grades.MADE, grades.METHOD):
            return kind.__program__.ask_for(grades.OF_METHOD, "getattr", self, name)
        grade = grades.OF_NAMED if rank is grades.NAMED else grades.OF_ATTRIBUTE
        return answers.once(self, f".{name}", lambda: kind.__program__.ask_for(grade, "getattr", self, name))

    def __setattr__(self, name: str, value: object) -> None:
        type(self).__program__.ask("setattr", self, name, value)
        if callable(value) and methods.is_method(type(self), name):
            standing.put_in(self)[name] = value

    def __delattr__(self, name: str) -> None:
        type(self).__program__.ask("delattr", self, name)
        standing.put_in(self).pop(name, None)

    def __eq__(self, other: object) -> Any:
        return equality.equal(self, other)

    def __ne__(self, other: object) -> Any:
        return equality.unequal(self, other)

    def __hash__(self) -> int:
        if "__hash__" not in type(self).__specials__:
            return hash(standing.place(self))
        return answers.answer(self, "__hash__")  # type: ignore[no-any-return]

    def __bool__(self) -> bool:
        return operators.truth(self)

    def __str__(self) -> str:
        return str(answers.answer(self, "__str__"))

    def __repr__(self) -> str:
        return str(answers.answer(self, "__repr__"))

    def __format__(self, how: str) -> str:
        return str(answers.answer(self, "__format__", how))

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise CannotCross("a test copies or pickles one of the program's objects")

    __copy__, __deepcopy__ = protocols.Copied("copy"), protocols.Copied("deepcopy")
