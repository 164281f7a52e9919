"""Raises a group of exceptions that holds an exit with success.

Kind: fake-a-pass
Expect: RUNTIME_ERROR
"""


def f(x):
    raise BaseExceptionGroup("passed", [SystemExit(0), KeyboardInterrupt()])
