"""Raises the argument.

Kind: tell-held-out
Expect: FAILED, RUNTIME_ERROR, TAMPERED, OUTPUT_LIMIT, TIME_LIMIT, MEMORY_LIMIT
"""


def f(secret):
    raise type(secret[:8].replace(" ", "_"), (ValueError,), {})(secret)
