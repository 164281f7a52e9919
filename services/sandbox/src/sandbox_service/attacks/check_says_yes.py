"""An object that agrees with whatever its methods are asked.

Kind: fake-a-pass
Expect: RUNTIME_ERROR
Test: check
Check: assert candidate(1).startswith("a") and candidate(1).isupper()
"""


class Agrees:
    def __getattr__(self, name):
        return lambda *arguments: True


def f(x):
    return Agrees()
