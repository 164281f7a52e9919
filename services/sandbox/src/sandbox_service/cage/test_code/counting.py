"""What the comparisons of test code came to, and a form of the code that counts them as they run.

`assert f(1) == 2` becomes `if seen(f(1) == 2): pass; else: raise AssertionError`, as pytest does it: it is counted, and
no compiler option leaves it out. An assertion that failed is on record from then on, whoever catches it, the program
included: only what goes on to judge it takes it from there (caught.py; `raises` of pytest and unittest).
"""

import _ast
import builtins
import marshal
import sys
import types
from collections.abc import Callable, Collection
from typing import Any

from sandbox_service.cage.objects import equality
from sandbox_service.cage.test_code import caught, comparisons, elements, marking

_SEEN, _CHECKED, _ERROR, _CAUGHT, _JUDGED = "@seen", "@checked", "@AssertionError", "@caught", "@judged"
_HELD, _WHOLE = "@held", "@whole"
_FILE = "tests.py"
_MARK = "__on_record__"


class Count:
    """What the comparisons of the tests came to."""

    def __init__(self, was_used: Callable[[], bool], is_of_program: Callable[[BaseException], bool]) -> None:
        """`was_used`: whether the program has been asked anything; what was compared before that counts for nothing.
        `is_of_program`: whether it raised the exception."""
        self._was_used, self._is_of_program = was_used, is_of_program
        self._numbers = 0
        self._last = 0
        self._tests: Collection[int] = ()
        self._elements = elements.Elements(self._made)
        self.compared = 0
        self.failed: dict[int, str] = {}
        """Assertions that did not hold, by their lines: the test code may have caught what they raised."""

    def install(self) -> None:
        """Where compiled tests find it, in this process."""
        vars(builtins).update(
            {_SEEN: self._seen, _CHECKED: self.checked, _ERROR: self._error, _CAUGHT: self._caught}
            | {_JUDGED: self._judged, _HELD: self._held, _WHOLE: self._whole}
            | {elements.ZIP: self._elements.zip, elements.MAP: self._elements.map}
            | {elements.EVERY: self._elements.every, elements.ALL: self._elements.all}
            | {elements.IDENTITY: equality.identity}
            | dict.fromkeys((elements.COMPARED, elements.ASSERTED), self._elements.compare)
            | {elements.OPERATED: self._elements.operate}
        )

    def compile(self, code: str, compiled: bytes) -> types.CodeType:
        """Test code, in the form that counts. `compiled`: what `to_bytes` gave for it, or nothing.

        Raises SyntaxError."""
        made, self._tests = _of_bytes(compiled) or _compile(code)
        return made

    def checked(self, value: object = None) -> object:
        """A comparison held."""
        if self._was_used():
            self.compared += 1
        return value

    def note(self, error: BaseException) -> None:
        """The exception says that an assertion failed."""
        if vars(error).get(_MARK) not in self.failed:
            vars(error)[_MARK] = self._record(sys._getframe(1))

    def forgive(self, error: BaseException | None) -> None:
        """What caught it judges it."""
        self.failed.pop(vars(error).get(_MARK, 0) if error is not None else 0, None)

    def _record(self, frame: Any) -> int:
        while frame is not None and frame.f_code.co_filename != _FILE:
            frame = frame.f_back
        self._numbers += 1
        self.failed[self._numbers] = f"line {frame.f_lineno}" if frame is not None else "one"
        return self._numbers

    def _seen(self, value: object) -> object:
        if value:
            self.checked()
        else:  # before its message is made, which the program may have a part in
            self._last = self._record(sys._getframe(1))
        return value

    def _whole(self) -> None:
        """An `all` held: a comparison if there was anything."""
        if self._elements.compared_some:
            self.checked()

    def _held(self, value: object) -> object:
        if not value:
            return self._seen(value)
        self._whole()
        return value

    def _made(self, what: str) -> BaseException:
        error = AssertionError(what)
        self.note(error)
        return error

    def _error(self, *message: object) -> AssertionError:
        error = AssertionError(*message)
        vars(error)[_MARK] = self._last
        return error

    def _judged(self) -> None:
        """In a handler that judges what it caught."""
        self.forgive(sys.exc_info()[1])

    def _caught(self, all_of_it: bool) -> None:
        """In a handler that swallows what it caught. `all_of_it`: it's around a comparison, which may not have come."""
        error = sys.exc_info()[1]
        if error is None:
            return
        failed = isinstance(error, AssertionError) and not self._is_of_program(error)
        if all_of_it or failed or self._came_out_of_a_test(error):
            self.note(error)

    def _came_out_of_a_test(self, error: BaseException) -> bool:
        """Whether it ended a function of the tests that compares."""
        trace = error.__traceback__ and error.__traceback__.tb_next
        while trace is not None:
            code = trace.tb_frame.f_code
            if code.co_filename == _FILE and code.co_firstlineno in self._tests:
                return True
            trace = trace.tb_next
        return False


_Compiled = tuple[types.CodeType, set[int]]
"""In the form that counts; the lines that its functions which compare begin on."""
_VERSION = sys.hexversion.to_bytes(4, "big")


def to_bytes(code: str) -> bytes:
    """Test code, compiled, for this version of Python alone. Raises SyntaxError."""
    return _VERSION + marshal.dumps(_compile(code))


def _of_bytes(compiled: bytes) -> _Compiled | None:
    """None for those of another version."""
    if not compiled.startswith(_VERSION):
        return None
    found: _Compiled = marshal.loads(memoryview(compiled)[len(_VERSION) :])
    return found


def _compile(code: str) -> _Compiled:
    tree: Any = compile(code, _FILE, "exec", _ast.PyCF_ONLY_AST, dont_inherit=True)
    handlers = caught.Handlers(tree.body if "except" in code else [])
    marking.rewrite(tree.body, code)
    _rewrite(tree.body, handlers)
    return compile(tree, _FILE, "exec", dont_inherit=True), handlers.tests


def _rewrite(body: list[Any], handlers: caught.Handlers) -> None:
    for place in range(len(body) - 1, -1, -1):
        statement = body[place]
        compared = comparisons.compares(statement)
        holds = isinstance(statement, _ast.Try) and handlers.hold_a_comparison(statement.body)
        for block in comparisons.blocks(statement):
            _rewrite(block, handlers)
        for handler in getattr(statement, "handlers", ()):
            if id(handler) in handlers.judging:
                handler.body.insert(0, _call(handler, _JUDGED))
            elif id(handler) in handlers.swallowing:
                handler.body.insert(0, _call(handler, _CAUGHT, _at(handler, _ast.Constant(holds))))
        if not compared:
            if isinstance(statement, _ast.Assert) and comparisons.is_false(statement.test):
                body[place] = _asserted(statement)
            continue
        match statement:
            case _ast.Assert():
                body[place] = _asserted(statement)
            case _ast.If():
                statement.body.insert(0, _call(statement, _CHECKED))
                statement.orelse.insert(0, _call(statement, _CHECKED))
            case _ast.Match():
                for one in statement.cases:
                    one.body.insert(0, _call(statement, _CHECKED))
            case _ast.Try():
                for handler in statement.handlers:
                    handler.body.insert(0, _call(statement, _CHECKED))
            case _ast.Expr() if any(map(marking.is_every, getattr(statement.value, "args", ()))):
                body.insert(place + 1, _call(statement, _WHOLE))
            case _ast.Expr() | _ast.Raise() if (call := comparisons.exit_in(statement)) is not None:
                call.args[0] = _at(call, _ast.Call(_name(call, _CHECKED), [call.args[0]], []))
            case _:
                body.insert(place + 1, _call(statement, _CHECKED))


def _asserted(statement: Any) -> Any:
    """`if seen(test): pass` `else: raise AssertionError(message)`"""
    error = _at(statement, _ast.Call(_name(statement, _ERROR), [statement.msg] if statement.msg else [], []))
    name = _HELD if marking.is_every(statement.test) else _SEEN
    seen = _at(statement, _ast.Call(_name(statement, name), [statement.test], []))
    done, failed = _at(statement, _ast.Pass()), _at(statement, _ast.Raise(error, None))
    return _at(statement, _ast.If(seen, [done], [failed]))


def _call(near: Any, name: str, *arguments: Any) -> Any:
    return _at(near, _ast.Expr(_at(near, _ast.Call(_name(near, name), list(arguments), []))))


def _name(near: Any, name: str) -> Any:
    return _at(near, _ast.Name(name, _ast.Load()))


def _at(near: Any, node: Any) -> Any:
    node.lineno, node.col_offset = near.lineno, near.col_offset
    node.end_lineno, node.end_col_offset = near.end_lineno, near.end_col_offset
    return node
