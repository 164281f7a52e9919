"""Hands out one object under two names, as a function that may be called and as an attribute that may not.

Kind: fake-a-pass
Expect: RUNTIME_ERROR
Test: check
Check: assert candidate(1).startswith("a")
"""


class Agrees:
    def __call__(self, *arguments):
        return True

    def __getattr__(self, name):
        return self


agrees = Agrees()


def f(x):
    return agrees
