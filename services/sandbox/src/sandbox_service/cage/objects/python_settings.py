"""What tests set in Python itself and a program computes by: seeds, the limit on recursion, decimal's context, and what
numpy does with errors. Each of the two processes has its own, so what the tests set goes along with what they ask next.

The state of a generator goes when the tests have sown a seed, or kept the state to come back to, as it's by then: what
they drew since is drawn.
"""

import sys
from collections.abc import Callable
from typing import Any

# Of Python's own, whatever a program or its tests put there.
_get_limit, _set_limit = sys.getrecursionlimit, sys.setrecursionlimit
_OF_CONTEXTS = ("prec", "rounding", "Emin", "Emax", "capitals", "clamp")
_UNCHANGED = {
    "decimal": [[28, "ROUND_HALF_EVEN", -999999, 999999, 1, 0], ["DivisionByZero", "InvalidOperation", "Overflow"]],
    "numpy": {"divide": "warn", "over": "warn", "under": "ignore", "invalid": "warn"},
}


class Settings:
    """Of the tests' process, as the program's was last told."""

    def __init__(self, code: str) -> None:
        """`code`: of the tests, which says whether they sow any seed."""
        self._sown: set[str] = set()
        self._numpy_state: Callable[[], Any] = lambda: None
        self._known = {"recursion": _get_limit(), **_UNCHANGED}
        if "seed" in code or "state" in code:
            self._notice(_random(), "seed", "getstate", "setstate")
            if "numpy" in code:
                try:
                    __import__("numpy.random")
                except ImportError:
                    return
                self._numpy_state = sys.modules["numpy.random"].get_state
                self._notice(sys.modules["numpy.random"], "seed", "get_state", "set_state")

    def _notice(self, module: Any, *functions: str) -> None:
        def noticed(sow: Callable[..., Any]) -> Callable[..., Any]:
            def sown(*arguments: Any, **keywords: Any) -> Any:
                result = sow(*arguments, **keywords)
                self._sown.add(module.__name__)
                return result

            return sown

        for name in functions:
            setattr(module, name, noticed(getattr(module, name)))

    def changes(self) -> dict[str, Any]:
        now = {"recursion": _get_limit(), **_loaded()}
        found = {name: item for name, item in now.items() if item != self._known[name]}
        self._known |= found
        if "random" in self._sown:
            found["seed"] = _random().getstate()
        if "numpy.random" in self._sown:
            _, keys, *rest = self._numpy_state()
            found["numpy_seed"] = [keys.tolist(), *rest]
        self._sown.clear()
        return found


def _random() -> Any:
    """Not loaded with this module: start.py has to load it first, in a way of its own."""
    return __import__("random")


def _loaded() -> dict[str, Any]:
    """The settings of modules that the tests have loaded."""
    found: dict[str, Any] = {}
    decimal, numpy = sys.modules.get("decimal"), sys.modules.get("numpy")
    if decimal is not None:
        context = decimal.getcontext()
        traps = sorted(kind.__name__ for kind, is_set in context.traps.items() if is_set)
        found["decimal"] = [[getattr(context, name) for name in _OF_CONTEXTS], traps]
    if numpy is not None and hasattr(numpy, "geterr"):
        found["numpy"] = numpy.geterr()
    return found


def take_over(changes: dict[str, Any]) -> None:
    """In the program's process. What is numpy's only where that is loaded."""
    if "recursion" in changes:
        try:
            _set_limit(changes["recursion"])
        except RecursionError:  # fewer than there are by now
            pass
    if "decimal" in changes:
        decimal: Any = __import__("decimal")
        values, traps = changes["decimal"]
        context = decimal.Context(**dict(zip(_OF_CONTEXTS, values, strict=True)))
        for kind in context.traps:
            context.traps[kind] = kind.__name__ in traps
        decimal.setcontext(context)
    if "seed" in changes:
        version, state, gauss = changes["seed"]
        _random().setstate((version, tuple(state), gauss))
    numpy = sys.modules.get("numpy")
    if "numpy" in changes and numpy:
        numpy.seterr(**changes["numpy"])
    if "numpy_seed" in changes and numpy:
        numpy.random.set_state(("MT19937", *changes["numpy_seed"]))
