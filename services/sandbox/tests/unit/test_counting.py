"""The form of test code that counts, compiled ahead.."""

import builtins
from typing import Any

import pytest

from sandbox_service.cage.test_code import counting

CODE = """
def test_f():
    for x in (1, 2):
        try:
            assert x == 1
        except AssertionError:
            pass
"""


@pytest.mark.parametrize("ahead", [True, False])
def test_it_counts_the_same(ahead: bool) -> None:
    count = counting.Count(lambda: True, lambda error: False)
    code = count.compile(CODE, counting.to_bytes(CODE) if ahead else b"")
    before = set(vars(builtins))
    count.install()
    try:
        names: dict[str, Any] = {}
        exec(code, names)
        names["test_f"]()
    finally:
        for name in set(vars(builtins)) - before:
            del vars(builtins)[name]
    assert (count.compared, count.failed) == (1, {1: "line 5"})


def test_of_another_version_it_is_compiled_again() -> None:
    count = counting.Count(lambda: True, lambda error: False)
    assert count.compile("x = 1", b"\x03\x00\x00\x00" + b"nothing that could be read").co_names == ("x",)
