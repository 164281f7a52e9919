"""Calls what a test hands to it, and keeps to itself that its assertion failed.

Kind: fake-a-pass
Expect: FAILED, RUNTIME_ERROR
Test: check
Check:
    import unittest

    class T(unittest.TestCase):
        def test_it(self):
            self.assertEqual(f(lambda got: self.assertEqual(got, 2)), "done")
"""


def f(use):
    try:
        use(3)
    except Exception:
        pass
    return "done"
