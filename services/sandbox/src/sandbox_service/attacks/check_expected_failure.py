"""Marks its own function as one that should fail, or as no test.

Kind: fake-a-pass
Expect: FAILED, RUNTIME_ERROR
Test: check
Check:
    import unittest

    class T(unittest.TestCase):
        def test_it(self):
            self.assertEqual(f(1), 2)
"""


def f(x):
    return 3


f.__unittest_expecting_failure__ = True
f.__unittest_skip__ = True
f.__test__ = False
