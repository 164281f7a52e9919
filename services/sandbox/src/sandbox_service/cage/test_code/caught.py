"""Which handlers of test code swallow an assertion that fails, and which go on to judge it, as Python would.

It is judged if

- the handler itself compares, raises, fails or exits
- its `try` keeps how it ended (in a variable, a list, by a break), and code after it in that function compares
- its `try` returns how it ended from a helper, and code outside of that function compares
- its `try` raises or fails where nothing was caught (`else: raise AssertionError`): the failure is what's wanted

Only statements are looked at, as in comparisons.py.
"""

import _ast
from typing import Any

from sandbox_service.cage.test_code import comparisons

# What catches an AssertionError, by the names that a handler has for it.
_BROAD = {"Exception", "BaseException", "AssertionError", "failureException"}
_SHOWN = {
    "print", "pprint", "print_exc", "format_exc", "write", "debug", "info", "warn", "warning", "error", "exception",
    "critical", "log",
}  # fmt: skip
_TESTS = ("test", "check", "main")  # nobody looks at what these return
_FUNCTIONS = (_ast.FunctionDef, _ast.AsyncFunctionDef)
_LOOPS = (_ast.For, _ast.AsyncFor, _ast.While)


class Handlers:
    """Those of one text of test code: the ids of `judging` ones, and of `swallowing` ones."""

    def __init__(self, body: list[Any]) -> None:
        self._comparing: set[str] = set()
        self.tests: set[int] = set()
        """The functions that compare: the line that each begins on."""
        for one in comparisons.walk(body, scopes=True):
            if isinstance(one, _FUNCTIONS) and any(map(comparisons.compares, comparisons.walk(one.body, scopes=False))):
                self._comparing.add(one.name)
                self.tests.add(min([one.lineno, *(decorator.lineno for decorator in one.decorator_list)]))
        self.judging: set[int] = set()
        self.swallowing: set[int] = set()
        self._returning: list[tuple[Any, int]] = []  # with the function that they are in
        self._judging_scopes: set[int] = set()
        self._scan(body, False, 0, True)
        for handler, scope in self._returning:
            self._put(handler, bool(self._judging_scopes - {scope}))

    def _scan(self, body: list[Any], later: bool, scope: int, is_test: bool) -> bool:
        """Whether one of these statements judges. `later`: whether one after them in the same function does."""
        found = False
        for statement in reversed(body):
            after = later or found
            if isinstance(statement, comparisons.SCOPES):
                self._scan(statement.body, False, id(statement), statement.name.startswith(_TESTS))
                continue
            if isinstance(statement, _ast.Try):
                judges = self._scan_try(statement, after, scope, is_test)
            else:
                judges = _judges(statement)
                for block in reversed(list(comparisons.blocks(statement))):
                    inside = self._scan(block, after, scope, is_test)
                    judges = judges or inside
                    after = after or (inside and isinstance(statement, _LOOPS))  # its `else`
            if judges:
                found = True
                self._judging_scopes.add(scope)
        return found

    def _scan_try(self, statement: Any, after: bool, scope: int, is_test: bool) -> bool:
        last = self._scan(statement.finalbody, after, scope, is_test)
        after = after or last
        judges = self._scan(statement.orelse, after, scope, is_test)
        tail = [*self._tail(statement.body), *statement.orelse]
        wanted, swallows = comparisons.gives_up(statement.orelse), False
        for handler in statement.handlers:
            does = list(comparisons.walk([*handler.body, *tail], scopes=False))
            returns = any(isinstance(one, _ast.Return) and one.value for one in does)
            judges_itself = self._scan(handler.body, after, scope, is_test)
            if judges_itself or wanted or (after and (returns or any(map(_keeps, does)))):
                self._put(handler, True)
                continue
            swallows = swallows or _is_broad(handler)
            if returns and not is_test:
                self._returning.append((handler, scope))
            else:
                self._put(handler, False)
        judges = self._scan(statement.body, after, scope, is_test) or judges or comparisons.compares(statement)
        return last or (judges and not swallows)

    def hold_a_comparison(self, body: list[Any]) -> bool:
        """Whether one of these statements compares, or calls a function of the tests that does."""
        return any(
            comparisons.compares(one)
            or (isinstance(one, _ast.Expr) and comparisons.called(one.value) in self._comparing)
            for one in comparisons.walk(body, scopes=False)
        )

    def _tail(self, body: list[Any]) -> list[Any]:
        """What is done only once the comparisons before it have held."""
        places = [place for place, one in enumerate(body) if self.hold_a_comparison([one])]
        return body[places[-1] + 1 :] if places else []

    def _put(self, handler: Any, judges: bool) -> None:
        if not judges:
            if _is_broad(handler):
                self.swallowing.add(id(handler))
        elif not any(isinstance(one, _ast.Raise) for one in handler.body):  # what it raises is caught in its turn
            self.judging.add(id(handler))


def _judges(statement: Any) -> bool:
    return comparisons.compares(statement) or comparisons.gives_up([statement])


def _is_broad(handler: Any) -> bool:
    kinds = handler.type.elts if isinstance(handler.type, _ast.Tuple) else [handler.type]
    return any(one is None or (getattr(one, "id", "") or getattr(one, "attr", "")) in _BROAD for one in kinds)


def _keeps(statement: Any) -> bool:
    if isinstance(statement, _ast.Expr):
        return comparisons.called(statement.value) not in {"", *_SHOWN}
    return isinstance(statement, _ast.Assign | _ast.AugAssign | _ast.AnnAssign | _ast.Break)
