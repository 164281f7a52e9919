"""The examples in docstrings of test code."""

import _ast
import types
from collections.abc import Mapping, Sequence
from typing import Any

from sandbox_service.cage.test_code import comparisons, counting


def run(module: types.ModuleType, count: counting.Count, names: Mapping[str, Any], flags: int = 0) -> Any:
    """The examples in docstrings, as doctest does; each with an output compares. Raises for the first that fails.

    `names`: that they see. `flags`: of doctest, as ELLIPSIS."""
    import doctest

    attempted = 0
    for test in doctest.DocTestFinder(exclude_empty=True).find(module, "tests", globs=dict(names)):
        attempted += len(test.examples)
        try:
            doctest.DebugRunner(verbose=False, optionflags=flags).run(test, clear_globs=False)
        except doctest.DocTestFailure as error:
            want, got = error.example.want.strip(), error.got.strip()
            raise AssertionError(f">>> {error.example.source.strip()}: {got!r}, and not {want!r}") from None
        except doctest.UnexpectedException as error:
            raise error.exc_info[1] from None
        for example in test.examples:
            if not example.options.get(doctest.SKIP, flags & doctest.SKIP) and _compares(example):
                count.checked()
    return doctest.TestResults(0, attempted)


def _compares(example: Any) -> bool:
    """With ELLIPSIS an output of `...` alone may be any."""
    if example.want:
        return bool(example.want.strip() != "...")
    return any(map(comparisons.compares, _statements(example.source)))


def _statements(source: str) -> Sequence[Any]:
    return compile(source, "tests.py", "exec", _ast.PyCF_ONLY_AST).body  # type: ignore[attr-defined, no-any-return]
