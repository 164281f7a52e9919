"""What `import pytest` gives to test code: the same on every node, whether pytest is there or not.

The real one takes half a second of CPU time to import, and its runner as much again. Here are raises, approx, warns,
fail, skip, importorskip, param, main, fixture (of the test code's own, without params) and the marks parametrize, skip,
skipif, xfail and usefixtures; other marks say nothing. All else raises Unsupported by its name: pytest's own fixtures,
plugins, hooks. See collect.py for what is run.
"""

import sys
import types
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from sandbox_service.cage.own_pytest import nearness, outcomes
from sandbox_service.cage.own_pytest.outcomes import Failed, Skipped, Unsupported

__all__ = ["Failed", "Skipped", "Unsupported"]


class Mark:
    def __init__(self, name: str, arguments: tuple[Any, ...] = (), keywords: Mapping[str, Any] | None = None) -> None:
        self.name, self.args, self.kwargs = name, arguments, dict(keywords or {})

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """On a test alone it marks it; on anything else it's the mark with these arguments."""
        if len(arguments) == 1 and not keywords and _is_test(arguments[0]):
            _mark(arguments[0], self)
            return arguments[0]
        return Mark(self.name, self.args + arguments, self.kwargs | keywords)


def _is_test(it: object) -> bool:
    return isinstance(it, types.FunctionType | type) and getattr(it, "__name__", "") != "<lambda>"


def _mark(test: Any, mark: Mark) -> None:
    test.pytestmark = [*vars(test).get("pytestmark", ()), mark]


class Fixture:
    """A function whose value tests ask for by its name."""

    def __init__(self, function: Callable[..., Any], keywords: Mapping[str, Any]) -> None:
        self.function = function
        self.name = keywords.get("name") or function.__name__
        self.autouse = bool(keywords.get("autouse"))
        self.cached = keywords.get("scope", "function") != "function"
        params = keywords.get("params")
        self.params = None if params is None else [one.values[0] if isinstance(one, Param) else one for one in params]


def fixture(function: Any = None, **keywords: Any) -> Any:
    return Fixture(function, keywords) if function else lambda function: Fixture(function, keywords)


class _Marks:
    def __getattr__(self, name: str) -> Mark:
        if name.startswith("_"):
            raise AttributeError(name)
        return Mark(name)


class Param:
    def __init__(self, values: tuple[Any, ...], marks: Sequence[Mark]) -> None:
        self.values, self.marks = values, marks


def param(*values: Any, marks: Mark | Sequence[Mark] = (), id: object = None) -> Param:
    return Param(values, [marks] if isinstance(marks, Mark) else list(marks))


def fail(reason: str = "", pytrace: bool = True, msg: str = "") -> NoReturn:
    raise Failed(reason or msg)


def skip(reason: str = "", allow_module_level: bool = False, msg: str = "") -> NoReturn:
    raise Skipped(reason or msg)


def xfail(reason: str = "", *_: Any, **__: Any) -> NoReturn:
    raise Skipped(reason)


def importorskip(name: str, *_: Any, **__: Any) -> Any:
    try:
        __import__(name)
    except ImportError as error:
        raise Skipped(str(error)) from None
    return sys.modules[name]


def main(*_: Any, **__: Any) -> int:
    """Nothing: what the file holds is run when it's read."""
    return 0


class ExceptionInfo:
    """What `raises` gives: value, type, match()."""

    value: Any = None

    @property
    def type(self) -> Any:
        return type(self.value)

    @property
    def typename(self) -> str:
        return type(self.value).__name__

    def match(self, pattern: Any) -> bool:
        import re

        if re.search(pattern, str(self.value)) is None:
            raise Failed(f"the exception says {str(self.value)!r}, and is expected to match {pattern!r}")
        return True

    def __str__(self) -> str:
        return repr(self.value)


class _Raises:
    def __init__(self, expected: Any, match: Any, check: Callable[[Any], bool] | None) -> None:
        self._expected, self._match, self._check = expected, match, check
        self._info = ExceptionInfo()

    def __enter__(self) -> ExceptionInfo:
        return self._info

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> bool:
        if error is None:
            raise Failed(f"did not raise {self._expected}")
        if not isinstance(error, self._expected):
            return False
        self._info.value = error
        if self._match is not None:
            self._info.match(self._match)
        if self._check is not None and not self._check(error):
            raise Failed(f"the check of the exception {error!r} returned False")
        outcomes.forgive(error)
        return True


def raises(
    expected: Any = BaseException, *arguments: Any, match: Any = None, check: Any = None, **keywords: Any
) -> Any:
    context = _Raises(expected, match, check)
    if not arguments:
        return context
    with context as info:
        arguments[0](*arguments[1:], **keywords)
    return info


class _Recorded(list[Any]):
    """The warnings that came."""

    @property
    def list(self) -> Any:
        return self

    def pop(self, expected: Any = Warning) -> Any:
        for place, one in enumerate(self):
            if issubclass(one.category, expected):
                return super().pop(place)
        raise Failed(f"did not warn of {expected}")


class _Recorder:
    def __enter__(self) -> Any:
        self._before = warnings.catch_warnings()
        self._before.__enter__()
        self._seen = _Recorded()
        vars(warnings).update(_showwarnmsg_impl=self._seen.append, showwarning=vars(warnings)["_showwarning_orig"])
        warnings.simplefilter("always")
        return self._seen

    def __exit__(self, *error: Any) -> None:
        self._before.__exit__(*error)


def warnings_recorded() -> Any:
    return _Recorder()


class _Warns(_Recorder):
    def __init__(self, expected: Any, match: Any) -> None:
        super().__init__()
        self._expected, self._match = expected, match

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        if error[0] is not None:
            return
        fitting = [str(one.message) for one in self._seen if issubclass(one.category, self._expected)]
        if self._match is not None:
            import re

            fitting = [text for text in fitting if re.search(self._match, text)]
        if not fitting:
            raise Failed(f"did not warn of {self._expected}")


def warns(expected: Any = Warning, *arguments: Any, match: Any = None, **keywords: Any) -> Any:
    if not arguments:
        return _Warns(expected, match)
    with _Warns(expected, match):
        return arguments[0](*arguments[1:], **keywords)


def deprecated_call(*arguments: Any, **keywords: Any) -> Any:
    return warns((DeprecationWarning, PendingDeprecationWarning, FutureWarning), *arguments, **keywords)


def approx(expected: Any, rel: Any = None, abs: Any = None, nan_ok: bool = False) -> Any:
    return nearness.Approx(expected, rel, abs, nan_ok)


def install(count: Any, more: Sequence[type] = ()) -> types.ModuleType:
    """As the module pytest of this process. `more`: classes of its fixtures."""
    outcomes.record_in(count)
    module = types.ModuleType("pytest", __doc__)
    offered: list[Any] = [
        raises, approx, warns, deprecated_call, fail, skip, xfail, importorskip, param, main, fixture, ExceptionInfo,
        *more,
    ]  # fmt: skip
    vars(module).update({one.__name__: one for one in offered}, mark=_Marks(), __version__="8.0", __getattr__=_refuse)
    fail.Exception, skip.Exception = Failed, Skipped  # type: ignore[attr-defined]
    sys.modules["pytest"] = module
    sys.modules["pytest_asyncio"] = types.ModuleType("pytest_asyncio")
    vars(sys.modules["pytest_asyncio"])["fixture"] = fixture
    return module


def _refuse(name: str) -> NoReturn:
    if name.startswith("__"):
        raise AttributeError(name)
    raise Unsupported(f"pytest.{name} is not offered here: the guide says what is")
