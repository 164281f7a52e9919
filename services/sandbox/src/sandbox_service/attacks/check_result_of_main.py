"""Fails in a class whose result the tests ask unittest.main for, and then ignore.

Kind: fake-a-pass
Expect: FAILED, RUNTIME_ERROR
Test: check
Check:
    import unittest

    class T(unittest.TestCase):
        def test_it(self):
            self.assertEqual(f(1), 2)

        def test_other(self):
            self.assertEqual(f(0), 0)

    print(unittest.main(exit=False).result)
"""


def f(x):
    return 0
