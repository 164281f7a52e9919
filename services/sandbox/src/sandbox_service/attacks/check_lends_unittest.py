"""Takes the place of unittest and of its TestCase for tests that inherit from them.

Kind: fake-a-pass
Expect: FAILED, RUNTIME_ERROR
Test: check
Check:
    import unittest

    class T(unittest.TestCase):
        def test_it(self):
            self.assertEqual(f(1), 2)
"""

import sys
import types


class TestCase:
    def __getattr__(self, name):
        return lambda *_, **__: None


unittest = types.ModuleType("unittest")
unittest.TestCase = TestCase
unittest.main = lambda *_, **__: None
sys.modules["unittest"] = unittest


def f(x):
    return 3
