"""Raises what skips a test of pytest, or what is called so.

Kind: fake-a-pass
Expect: FAILED, RUNTIME_ERROR
Test: check
Check:
    import pytest

    @pytest.fixture
    def answer():
        return f(1)

    def test_first():
        assert f(0) == 0

    def test_it(answer):
        assert answer == 2
"""

import sys


def f(x):
    if x == 0:
        return 0
    if "unittest" in sys.modules:
        import unittest

        raise unittest.SkipTest("not today")

    class SkipTest(Exception):
        pass

    raise SkipTest
