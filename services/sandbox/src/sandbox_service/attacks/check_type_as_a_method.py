"""An object whose methods are types of Python's own: called, they give something true.

Kind: fake-a-pass
Expect: RUNTIME_ERROR
Test: check
Check: assert candidate(1).startswith("a") and candidate(1).issubset({1})
"""


class Agrees:
    startswith = str
    issubset = list


def f(x):
    return Agrees()
