"""What an object of the program answers about itself: the same until something is done. See standing.py."""

from collections.abc import Callable
from typing import Any

from sandbox_service.cage.objects import standing
from sandbox_service.cage.wire.errors import CannotCross

REFUSED_WORD = "only the program's object itself could answer"
_SHOWN = ("__str__", "__repr__", "__format__", "__hash__")


def ask(proxy: Any, name: str, *arguments: Any) -> Any:
    grade = standing.grade_within(proxy)
    return type(proxy).__program__.ask_for(grade, "special", proxy, name, *arguments)


def answer(proxy: Any, name: str, *arguments: Any) -> Any:
    """What an object is as a value of Python's own."""
    if standing.slot_of(proxy, "_is_difference") and name not in _SHOWN:
        raise CannotCross(f"a test takes the difference of an object and a number, and {REFUSED_WORD}")
    return once(proxy, (name, *arguments), lambda: ask(proxy, name, *arguments))


def once(proxy: Any, question: Any, ask: Callable[[], Any]) -> Any:
    """The same answer for as long as nothing is done with the program's objects, and the tests don't wait."""
    program = type(proxy).__program__
    if program.moment.is_over():
        program.epoch += 1
    kept = standing.slot_of(proxy, "_answers")
    if kept is None or kept[0] != program.epoch:
        kept = (program.epoch, {})
        standing.set_slot(proxy, "_answers", kept)
    if question not in kept[1]:
        kept[1][question] = ask()
    return kept[1][question]
