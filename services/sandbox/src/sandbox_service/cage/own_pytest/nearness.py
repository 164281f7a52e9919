"""What pytest.approx gives to test code."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from sandbox_service.cage.own_pytest.outcomes import Failed


class Approx:
    """Equal to what is near: numbers, and lists, tuples, mappings and arrays of them."""

    __array_ufunc__ = None
    __array_priority__ = 100
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, expected: Any, rel: Any = None, abs: Any = None, nan_ok: bool = False) -> None:
        self._expected, self._rel, self._abs, self._nan_ok = expected, rel, abs, nan_ok

    def __repr__(self) -> str:
        return f"approx({self._expected!r})"

    def __eq__(self, got: Any) -> bool:
        return self._near(got, self._expected)

    def __ne__(self, got: Any) -> bool:
        return not self == got

    def __bool__(self) -> bool:
        raise Failed("compare approx() with ==: alone it is neither true nor false")

    def _near(self, got: Any, expected: Any) -> bool:
        if hasattr(expected, "tolist"):
            expected = expected.tolist()
        if hasattr(got, "tolist"):
            got = got.tolist()
        if isinstance(expected, Mapping):
            return (
                isinstance(got, Mapping)
                and got.keys() == expected.keys()
                and all(self._near(got[key], value) for key, value in expected.items())
            )
        if isinstance(expected, Sequence) and not isinstance(expected, str | bytes):
            return (
                isinstance(got, Sequence)
                and not isinstance(got, str | bytes)
                and len(got) == len(expected)
                and all(map(self._near, got, expected))
            )
        return self._number_near(got, expected)

    def _number_near(self, got: Any, expected: Any) -> bool:
        import cmath
        import numbers  # here, as each fork inherits what is loaded before

        number = isinstance(expected, numbers.Complex) or type(expected).__name__ == "Decimal"
        if not number or isinstance(expected, bool) or isinstance(got, bool):
            return bool(got == expected)
        if got == expected:
            return True
        try:
            if cmath.isnan(expected):
                return self._nan_ok and cmath.isnan(got)
            if cmath.isinf(expected) or cmath.isinf(got):
                return False
            return bool(abs(got - expected) <= self._tolerance(expected))
        except (TypeError, ValueError, OverflowError):
            return False

    def _tolerance(self, expected: Any) -> Any:
        """As pytest: 1e-6 of what is expected or 1e-12, whichever is more; with abs alone, that."""
        kind = type(expected) if type(expected).__name__ == "Decimal" else float
        least = kind("1e-12") if self._abs is None else kind(self._abs)
        if least < 0 or math.isnan(least):
            raise ValueError("approx: abs must be 0 or more")
        if self._rel is None and self._abs is not None:
            return least
        relative = kind("1e-6") if self._rel is None else kind(self._rel)
        return max(relative * abs(expected), least)
