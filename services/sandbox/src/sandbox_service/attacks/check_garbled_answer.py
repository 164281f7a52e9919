"""Answers the tests with what is no value: too long, too deep, of no kind that is.

Kind: fake-a-pass
Expect: TAMPERED, FAILED, RUNTIME_ERROR, TIME_LIMIT
Test: check
"""

import os


def f(x):
    os.write(4, b'{"value": ' + b"[" * 100000 + b"\n" + b'{"value": {"zzz": 1}}\n')
    return 3
