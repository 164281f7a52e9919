"""How tests in one process use a program in another. The program's side is owner.py; what both have in common, link.py.

Values cross as copies, by their parts: what's compared is the tests' own. Lists and other objects that change in place
are held in common, whichever side made them: each sees what the other changed, at any depth, and one that is given
twice is the same. Objects of classes of the program stay
there, and the tests hold proxies: what those may be used for is in standing.py. Objects of the tests stay here: see
lent.py.
"""

# ruff: noqa: BLE001 (a callback may raise anything, and whatever it raises goes to the program)

import _socket
from collections.abc import Collection
from typing import Any

from sandbox_service.cage.objects import (
    classes,
    details,
    drawn,
    equality,
    lent,
    link,
    methods,
    mirrors,
    moment,
    replay,
    standing,
    surroundings,
    vanished,
)
from sandbox_service.cage.objects.grades import Grade, Standing
from sandbox_service.cage.objects.proxy import Proxy, ProxyClass
from sandbox_service.cage.wire.errors import CannotCross

_TYPES = {
    "builtins",
    "types",
    "collections",
    "datetime",
    "decimal",
    "fractions",
    "pathlib",
    "uuid",
    "array",
    "ipaddress",
}


# What may change things over there.
_ACTS = {
    "call", "make", "method", "function", "setattr", "delattr", "send", "throw", "close", "await", "anext", "asend",
    "aclose", "aenter", "aexit", "series",
}  # fmt: skip


# What it's asked for where the tests stand in for what a program reads.
_READS = {"input", "line"}


_MOST_MADE = 8
# What a failing test does to say so.
_SHOWN = {"__str__", "__repr__", "__format__"}


class ProgramGone(BaseException):
    """The program's process ended: not an Exception, so that no test catches it by chance."""


class Garbled(BaseException):
    """The program's process sent what its own loop never sends."""


def is_plain(item: object) -> bool:
    """Whether it crosses as a copy."""
    return not isinstance(item, Proxy | ProxyClass | type)


class Program(link.Link):
    """The program, as far as a test can see it."""

    def __init__(self, connection: _socket.socket, code: str = "", seconds: float = 1e9) -> None:
        """`code`: of the tests. `seconds`: of CPU time that the program may take."""
        super().__init__(connection, 1)
        self.entry: Any = None
        self._proxies: dict[tuple[int, Standing], Proxy] = {}
        self._first: dict[int, Proxy] = {}  # of those that stand for one object
        self._made: dict[type[Proxy], list[Proxy]] = {}
        self.unread: dict[type[Proxy], list[Proxy]] = {}  # objects that came since the tests made one of their class
        self.deeds = 0  # of the tests, but for the making of objects
        self._given: Any = ()
        self._standing = Grade(Standing.HANDED)
        self.tests: dict[str, Any] = {}  # what they define
        self.asked = False  # for anything that it computes
        self.lends_types = False  # exceptions, enums, classes of the library: used without a question
        self.epoch, self.moment = 0, moment.Moment()
        self._lent: dict[int, Any] = {}
        self._lent_numbers: dict[int, int] = {}  # by id
        self._errors: dict[str, type[BaseException]] = {}
        self.classes = classes.Classes(self, self._decode, self._errors)
        self._doubt: BaseException | None = None
        self._replay = replay.Replay(self._errors, self._decode, self._error)
        self._surroundings = surroundings.Surroundings(code)
        self.vanished, self.orders = vanished.Vanished(), equality.Orders()
        self._drawn = drawn.Drawn(seconds)

    def names(self, entry_point: str, wanted: Collection[str]) -> dict[str, object]:
        """The entry point, and what is wanted of the program's functions, classes and plain constants (as copies).

        Nothing else is the program's: a name that the tests count on, of a module or of a builtin, is their own.
        """
        self._standing = Grade(Standing.NAMED)
        sought = tuple(sorted(name for name in wanted if not name.startswith("__")))
        answer = self._exchange("names", (sought,), {})
        self._standing = Grade(Standing.HANDED)
        try:
            found, self.entry = answer
            names = {name: item for name, item in found.items() if name in sought}
        except (ValueError, TypeError, AttributeError):
            raise Garbled from None
        # What crosses as it is, whatever the tests do with it, is the program's: they use it without asking.
        given = [item for item in (self.entry, *names.values()) if not isinstance(item, Proxy | ProxyClass)]
        self.asked = any(item is self.entry or not isinstance(item, type) for item in given)
        self.lends_types = bool(given)
        if entry_point.isidentifier():
            names[entry_point] = self.entry
        return names

    def constant(self, name: str) -> dict[str, object]:
        """What the program has under the name now, if that's a plain value. Raises AttributeError where it's gone."""
        self._standing, before = Grade(Standing.NAMED), self._standing
        answer = self._exchange("names", ((name,),), {})
        self._standing = before
        if not (isinstance(answer, list) and answer and isinstance(answer[0], dict)):
            raise Garbled
        if name not in answer[0]:
            raise AttributeError(f"module 'solution' has no attribute {name!r}")
        item = answer[0][name]
        return {name: item} if is_plain(item) else {}

    def identity(self, proxy: Proxy) -> Proxy:
        """The same for all that stand for one object, however it came. One that the tests made, and gave to nobody, is
        no answer."""
        made = self._proxies.get((standing.place(proxy), Standing.MADE))
        if made is not None and made is not proxy and equality.is_unseen(made):
            return proxy
        return self._first[standing.place(proxy)]

    def keep_made(self, proxy: Proxy) -> None:
        """An object that the tests made: a few of each class are kept, to tell others from."""
        known = self._made.setdefault(type(proxy), [])
        if len(known) < _MOST_MADE:
            known.append(proxy)

    def keep_unread(self, proxy: Proxy) -> None:
        self.unread.setdefault(type(proxy), []).append(proxy)

    def made(self, kind: type[Proxy]) -> list[Proxy]:
        return self._made.get(kind, [])

    def ask(self, do: str, /, *arguments: object, **keywords: object) -> Any:
        """What comes of it over there, or raised. References in the answer are handed out: see standing.py."""
        return self.ask_for(Grade(Standing.HANDED), do, *arguments, **keywords)

    def ask_for(self, grade: Grade, do: str, /, *arguments: object, **keywords: object) -> Any:
        """As `ask`. `grade` says what stands a proxy in the answer has."""
        if do in _ACTS:
            self.epoch += 1
            self.deeds += do != "make"
            equality.note_given((arguments, keywords))
        self.asked = self.asked or do != "special" or arguments[1] not in _SHOWN
        before, self._standing = self._standing, grade
        given, self._given = self._given, (arguments, keywords)
        if do in drawn.OPERATIONS:
            self._drawn.begin()
        try:
            return self._exchange(do, arguments, keywords)
        finally:
            self._standing, self._given = before, given
            if do in drawn.OPERATIONS:
                self._drawn.end()

    def series(self, function: Any, inputs: list[Any], seconds: list[float]) -> tuple[list[Any], Any]:
        """As series.run, over there: arguments and answers are copies."""
        sharing, self._sharing = self._sharing, False
        try:
            found = self.ask("series", function, inputs, seconds)
        finally:
            self._sharing = sharing
        if type(found) is not tuple or len(found) != 2 or type(found[0]) is not list:
            raise Garbled
        values, ended = found
        is_end = ended is None or ended == "slow" or isinstance(ended, BaseException)
        if not is_end or len(values) > len(inputs) or not (values or ended is not None):
            raise Garbled
        return values, ended

    def _exchange(self, do: str, arguments: Any, keywords: Any) -> Any:
        request = self._pack(do, arguments, keywords)
        try:
            answer = self._request(request)
        except (EOFError, OSError):
            raise ProgramGone from None
        except Exception:
            raise Garbled from None
        if self._doubt is not None:
            raise self._doubt
        self._replay.play()
        try:
            if "raised" in answer:
                raised = self._error(answer["raised"])
            else:
                return self._decode(answer["value"])
        except Exception:
            raise Garbled from None
        finally:
            self._forget(answer)
            self.moment.answered()
        self.vanished.keep(do, arguments, raised)
        raise raised

    def _send(self, message: dict[str, Any]) -> None:
        if changes := self._surroundings.changes():
            message["surroundings"] = changes
        super()._send(message)

    def _receive(self) -> dict[str, Any]:
        try:
            message = super()._receive()
            self._replay.take(message.pop("seen", ()))
            return message
        except (EOFError, OSError):
            raise ProgramGone from None
        except Exception:
            raise Garbled from None

    def _forget(self, message: dict[str, Any]) -> None:
        try:
            super()._forget(message)
        except Exception:
            raise Garbled from None

    # --- what the program asks

    def _answer(self, request: dict[str, Any]) -> dict[str, Any]:
        before, self._standing = self._standing, Grade(Standing.HANDED)
        try:
            do, number = request["do"], request["on"]
            target = None if do in _READS else self._lent[number]
            arguments, keywords = self._unpack(request)
            self._forget(request)
        except Exception:
            raise Garbled from None
        try:
            return self._outcome(do, target, arguments, keywords)
        except (ProgramGone, Garbled):
            raise
        except BaseException as error:
            self._doubt = error  # the program may catch what it gets for this: the tests have ended all the same
            return {"raised": {"kinds": ["RuntimeError"], "message": "the tests have ended"}}
        finally:
            self._standing = before

    def _outcome(self, do: str, target: Any, arguments: list[Any], keywords: dict[str, Any]) -> dict[str, Any]:
        try:
            self._replay.play()
            if do in _READS:
                return {"value": self._encode(self._replay.read(do, arguments))}
            found = _do(do, target, arguments, keywords)
            self._note_changes()
            return {"value": self._encode(found)}
        except Exception as error:
            return {"raised": self._raised(error)}

    # --- what crosses

    def _own(self, value: Any) -> Any:
        if isinstance(value, Proxy):
            return {"r": standing.place(value)}
        if isinstance(value, ProxyClass):
            return {"r": standing.class_place(value)}
        kind = type(value)
        place = mirrors.place_of_enum(value if isinstance(value, type) else kind)
        if place is not None:
            return {"r": place} if isinstance(value, type) else {"v": [place, value.name]}
        number = self._lent_numbers.get(id(value))
        if number is not None:
            return {"m": number}
        if not isinstance(value, type) and not callable(value):
            return None
        name = link.name_of(value)
        if name is not None:
            return {"g": name}
        if isinstance(value, type) and issubclass(value, BaseException):
            return {"e": [self._number(value), link.kinds(value)]}
        return None

    def _lend(self, value: Any) -> Any:
        """Raises CannotCross for what a program may not have."""
        try:
            described = lent.describe(value)
        except lent.NotLent as error:
            raise CannotCross(f"a test passes {error} to the program") from None
        of_tests = described[0] == "object" and lent.is_of_the_tests(type(value))
        kind = self._encode(type(value)) if of_tests else None
        words = self._encode(lent.words_of(value)) if described[0] == "function" else None
        return {"q": [self._number(value), *described, kind, words]}

    def _number(self, value: Any) -> int:
        number = self._lent_numbers[id(value)] = len(self._lent) + (1 << 40)
        self._lent[number] = value
        return number

    def _raised(self, error: BaseException) -> dict[str, Any]:
        number = self._lent_numbers.get(id(error))
        if number is not None:
            return {"m": number}
        place = getattr(error, "place_in_program", None)
        form = super()._raised(error)
        return {**form, "number": self._number(error)} if place is None else {**form, "place": place}

    def _found(self, number: int) -> Any:
        return self._lent[number] if number in self._lent else self._shared[number]

    def _theirs(self, tag: str, body: Any) -> Any:
        if tag == "r":
            return self._object(*body)
        if tag == "k":
            return self.classes.lent(self._standing.rank, *body)
        if tag == "v":
            return self.classes.at(*body[0]).__members__[body[1]]
        if tag == "x":
            return self._error(body)
        if tag == "p":
            gets, sets, deletes, doc = map(self._decode, body)
            of = methods.of_property
            return property(of(gets), of(sets), of(deletes), doc)
        if tag == "g" and (body[0] in _TYPES or body[0].partition(".")[0] == "numpy"):
            found = link.find(*body)
            if isinstance(found, type):
                return mirrors.NotCalled(found) if self._standing.rank is Standing.ATTRIBUTE else found
        raise ValueError(tag)

    def _object(self, place: int, number: int, *traits: Any) -> Any:
        kind = self.classes.of_object(number, *traits)
        if kind.__name__ == "coroutine":
            return mirrors.coroutine(self, self._proxy(kind, place, Standing.HANDED))
        if kind.__name__ == "async_generator":
            return mirrors.async_generator(self, self._proxy(kind, place, Standing.HANDED))
        return self._proxy(kind, place, self._standing.of(kind))

    def _proxy(self, kind: type[Proxy], place: int, rank: Standing) -> Proxy:
        """What the tests gave along comes back as what it was."""
        made = self._proxies.get((place, Standing.MADE))
        if made is not None and rank is not Standing.ATTRIBUTE and standing.is_in(self._given, made):
            standing.came_back(made)
            return made
        known = self._proxies.get((place, rank))
        if known is None or type(known) is not kind:
            known = self._proxies[place, rank] = standing.make_proxy(kind, place, rank)
            self._first.setdefault(place, known)
            if "__eq__" in kind.__specials__:
                self.keep_unread(known)
        elif standing.slot_of(known, "_made_of") is not None:
            standing.came_back(known)
        return known

    def _error(self, raised: Any) -> BaseException:
        """The program's exception class, the builtin one of that name, or a new class of it."""
        if "m" in raised:
            error: BaseException = self._lent[raised["m"]]
            return error
        kinds, message = [str(kind) for kind in raised["kinds"]], str(raised["message"])
        kind = self._lent[raised["of"]] if "of" in raised else lent.error_class(kinds, self._errors)
        if not issubclass(kind, Exception | SystemExit):
            kind = type(kinds[0], (Exception,), {})
        arguments = self._decode(raised["args"]) if "args" in raised else (message,)
        if "group" in raised:
            arguments = str(raised["group"][0]), [self._error(one) for one in raised["group"][1]]
        if kind.__module__ != "builtins":
            kind = self._errors.setdefault(kinds[0], type(kind.__name__, (kind,), {})) if ":" in kinds[0] else kind
            error = mirrors.make_error(self, kind, arguments, message, raised.get("place"))
        else:
            error = mirrors.make_builtin_error(kind, arguments, message)
        details.give(error, raised.get("held", {}))
        if "cause" in raised:
            error.__cause__ = self._error(raised["cause"])
        error.from_program = True  # type: ignore[attr-defined]
        return error


def _do(do: str, target: Any, arguments: list[Any], keywords: dict[str, Any]) -> Any:
    if do == "call":
        return target(*arguments, **keywords)
    if do == "getattr":
        return lent.attribute(target, *arguments)
    if do == "setattr":
        return lent.set_attribute(target, *arguments)
    if do == "delattr":
        return lent.delete_attribute(target, *arguments)
    if do == "special":
        return lent.special(target, arguments[0], arguments[1:])
    if do == "await":
        return lent.run(target)
    raise AttributeError(do)
