"""Raises what is no Exception, so that a broad handler misses it.

Kind: fake-a-pass
Expect: RUNTIME_ERROR
"""


class Passed(BaseException):
    code = 0


def f(x):
    raise Passed("all tests passed")
