"""Exceptions of the program that nobody in the tests caught, and that didn't end them: they ended a loop of theirs.

`for got, want in zip(map(f, [1, 2]), [1, 4])` ends, and compares nothing, where f raises StopIteration, and a loop over
an object with `__getitem__` where that raises IndexError. Whatever handles an exception in Python is in its traceback,
which begins with the frame that it got to. Where that is one of ours, the interpreter dropped it. (So it is in CPython
3.11; from 3.12 on a traceback has frames that handled nothing, too, so that there a function of the tests between the
program and the loop hides it.)
"""

from typing import Any

_ENDS = (StopIteration, StopAsyncIteration, IndexError)
_CALLS = ("call", "method", "function", "make", "await")
_ITERATING = ("__next__", "__anext__")
_ASKING = ("proxies", "proxy", "operators", "methods", "standing", "answers")
_OURS = {__file__.replace("vanished", name) for name in _ASKING}
_MANY = 100


class Vanished:
    """What the program raised out of calls that the tests made, if it could end a loop."""

    def __init__(self) -> None:
        self._raised: list[BaseException] = []
        self._found = False

    def keep(self, do: str, arguments: Any, error: BaseException) -> None:
        """What the tests had it `do` raised this. What an iterator of the program raises is its honest end."""
        named = arguments[1] if do in ("method", "function") else ""
        if do not in _CALLS or not isinstance(error, _ENDS) or named in _ITERATING:
            return
        if len(self._raised) >= _MANY:
            self._found, self._raised = self.any(), []
        self._raised.append(error)

    def any(self) -> bool:
        """Whether one vanished. Asked while none is on its way."""
        return self._found or any(map(_vanished, self._raised))


def _vanished(error: BaseException) -> bool:
    trace = error.__traceback__
    if trace is None:
        return False
    if trace.tb_frame.f_code.co_filename in _OURS:
        return True
    if isinstance(error, StopAsyncIteration):  # the loop that it ended looks like a handler
        while trace := trace.tb_next:
            if trace.tb_frame.f_code.co_name == "__anext__":
                return True
    return False
