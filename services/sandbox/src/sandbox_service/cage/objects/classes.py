"""The classes that the tests hold in place of the program's: each is made when it's first mentioned. See owner.py."""

from collections.abc import Callable
from typing import Any

from sandbox_service.cage.objects import lent, making, mirrors
from sandbox_service.cage.objects.grades import Standing
from sandbox_service.cage.objects.proxy import Proxy, ProxyClass


class Classes:
    def __init__(self, program: Any, decode: Callable[[object], Any], errors: dict[str, type[BaseException]]) -> None:
        """`errors`: the classes of exceptions that the tests know, by kind: those of the program are added."""
        self._program, self._decode, self._errors = program, decode, errors
        self._by_place: dict[int, Any] = {}
        self._of_objects: dict[int, type[Proxy]] = {}  # by the number of their type
        self._by_name: dict[str, Any] = {}

    def of_object(self, number: int, *traits: Any) -> type[Proxy]:
        if traits:
            kinds, specials, functions, facts = traits
            parents = self._parents(kinds)
            made = parents[0]
            if made is Proxy or made.__name__ != kinds[0]:
                facts = self._facts(facts)
                made = making.make_class(
                    kinds[0], parents, self._program, None, made.__known__, specials, functions, facts
                )
            self._of_objects[number] = made
        return self._of_objects[number]

    def lent(self, rank: Standing, place: int, *traits: Any) -> Any:
        """A class that the tests get: to be called as it was called for."""
        made = self.at(place, *traits)
        if rank is Standing.ATTRIBUTE or (rank is Standing.HANDED and isinstance(made, ProxyClass)):
            return making.class_as_object(self._program, place, rank)
        if isinstance(made, ProxyClass) and rank in (Standing.NAMED, Standing.METHOD):
            made.__known__ = made.__known__ or made.__name__.lstrip("_")[:1].isupper()
        if mirrors.place_of_enum(made) is not None and rank in (Standing.NAMED, Standing.METHOD):
            mirrors.know(made)
        return made

    def at(self, place: int, *traits: Any) -> Any:
        if not traits:
            return self._by_place[place]
        kinds, specials, functions, facts, members = traits
        if members is not None:
            made = mirrors.make_enum(self._program, place, kinds[0], *members)
        elif "BaseException" in kinds:
            made = lent.error_class(kinds, self._errors)
        else:
            parents, facts = self._parents(kinds[1:]), self._facts(facts)
            made = making.make_class(kinds[0], parents, self._program, place, False, specials, functions, facts)
            self._by_name[kinds[0]] = made
        self._by_place[place] = made
        return made

    def _parents(self, kinds: list[str]) -> tuple[Any, ...]:
        """Of the known classes by these names, those that no other of them is a kind of."""
        known = [self._by_name[kind] for kind in kinds if kind in self._by_name]
        nearest: list[Any] = []
        for one in known:
            if not any(type.__subclasscheck__(one, other) for other in nearest):
                nearest.append(one)
        return tuple(nearest) or (Proxy,)

    def _facts(self, facts: dict[str, Any]) -> dict[str, Any]:
        fields = facts.get("fields")
        return facts if fields is None else {**facts, "fields": [self._decode(field) for field in fields]}

    def extend(self, made: Any, bases: tuple[Any, ...], namespace: dict[str, Any]) -> None:
        """A class of the tests over one of the program: it's made over there, too, where its objects are."""
        place = self._program.ask("subclass", made.__name__, bases, lent.attributes_of(namespace))
        type.__setattr__(made, "_class_place", place)
        self._by_place[place] = self._by_name[made.__name__] = made
