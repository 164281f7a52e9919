"""Raises what skips a test.

Kind: fake-a-pass
Expect: FAILED, RUNTIME_ERROR
Test: check
Check:
    import unittest

    class T(unittest.TestCase):
        def test_it(self):
            self.assertEqual(f(1), 2)

        def test_other(self):
            self.assertTrue(True)
"""

import unittest


def f(x):
    raise unittest.SkipTest("not today")
