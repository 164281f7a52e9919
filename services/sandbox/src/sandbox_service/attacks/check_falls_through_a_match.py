"""Answers with what no case of a `match` is for.

Kind: fake-a-pass
Expect: FAILED, RUNTIME_ERROR
Test: check
Check:
    match f(1):
        case 2:
            pass
        case int():
            raise AssertionError("wrong")
"""


def f(x):
    class Anything:
        def __eq__(self, other):
            return True

    return Anything()
