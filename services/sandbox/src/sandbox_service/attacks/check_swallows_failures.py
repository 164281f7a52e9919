"""A context manager that swallows whatever is raised within it: the test's own failure, too.

Kind: fake-a-pass
Expect: FAILED, RUNTIME_ERROR
Test: check
Check: with candidate(1) as x: assert x == 2
"""


class Swallows:
    def __enter__(self):
        return 3

    def __exit__(self, *raised):
        return True


def f(x):
    return Swallows()
