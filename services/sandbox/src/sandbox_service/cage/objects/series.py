"""Many calls in one exchange, for tests with hundreds of inputs: `from ratchet import answers`.

    for wanted, got in zip(EXPECTED, answers(candidate, INPUTS, seconds)):
        assert got == wanted

Arguments go as copies, answers come as copies, and nothing is held in common: a list that the program changes stays as
it was here. Calls go together in growing numbers, so that a program which fails at the first input costs one.
"""

# ruff: noqa: BLE001 (programs may raise anything, and whatever they raise is an answer)

import signal
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any

_MOST = 64
_LARGE = 1 << 20
"""Answers of about so many characters and items end an exchange."""
_SLOW = "slow"


class TooSlow(BaseException):
    """A call took more CPU time than its tests give it."""


def install(modules: dict[str, types.ModuleType]) -> None:
    """Lends it to tests."""
    module = types.ModuleType("ratchet")
    module.__dict__["answers"] = answers
    modules["ratchet"] = module


def answers(function: Any, inputs: Sequence[Sequence[Any]], seconds: Sequence[float] = ()) -> Iterator[Any]:
    """What the function gives for each of the inputs, in turn. `seconds`: of CPU time that each call may take.

    Raises what the function raises, where it's that input's turn.
    """
    program = getattr(type(function), "__program__", None)
    ask, most = (run, 1) if program is None else (program.series, _MOST)
    place, size = 0, 1
    while place < len(inputs):
        found, ended = ask(function, list(inputs[place : place + size]), list(seconds[place : place + size]))
        yield from found
        if ended == _SLOW:
            raise TooSlow("a call took more CPU time than its test gives it")
        if ended is not None:
            raise ended
        place, size = place + len(found), min(2 * size, most)


def run(
    function: Any, inputs: Sequence[Any], seconds: Sequence[float], keep: Callable[[Any], Any] = lambda answer: answer
) -> tuple[list[Any], Any]:
    """In the program's process: its answers so far, and what ended them before their time: an exception, or "slow".

    At least one answer, unless it was ended. `keep` makes of each, at once, what the next call can't change. A program
    could make itself more time: only up to its limit in all.
    """
    found: list[Any] = []
    size = 0
    handler = signal.signal(signal.SIGPROF, _stop) if seconds else None
    try:
        for place, arguments in enumerate(inputs):
            if seconds:
                signal.setitimer(signal.ITIMER_PROF, seconds[place], 0.1)
            answer = function(*arguments)
            found.append(keep(answer))
            size += _size(answer)
            if size > _LARGE:
                break
    except TooSlow:
        return found, _SLOW
    except BaseException as error:
        return found, error
    finally:
        if seconds:
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.signal(signal.SIGPROF, handler)
    return found, None


def _stop(number: int, frame: Any) -> None:
    raise TooSlow


def _size(value: Any) -> int:
    kind = type(value)
    if kind is str or kind is bytes:
        return len(value)
    if kind is int:
        return int(value.bit_length() // 4)
    if kind is list or kind is tuple:
        return sum(map(_size, value)) + len(value)
    return 64
