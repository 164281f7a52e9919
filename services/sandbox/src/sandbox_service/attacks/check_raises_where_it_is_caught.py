"""Raises where the test code catches whatever a comparison comes to, and answers the one that nobody catches.

Kind: fake-a-pass
Expect: FAILED, RUNTIME_ERROR
Test: check
Check:
    import unittest

    class T(unittest.TestCase):
        def test_it(self):
            self.assertEqual(f(0), 1)
            for x in (1, 2):
                try:
                    self.assertEqual(f(x), x + 1)
                except Exception:
                    print("wrong")
"""


def f(x):
    if x == 0:
        return 1
    if x == 1:
        raise ValueError
    return 7
