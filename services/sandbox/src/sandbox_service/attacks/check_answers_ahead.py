"""Answers on the channel to the tests before it is asked, so that a later answer is taken for this one.

Kind: fake-a-pass
Expect: TAMPERED, FAILED, RUNTIME_ERROR
Test: check
"""

import os

for number in range(3, 8):
    try:
        os.write(number, b'{"functions": ["f"], "constants": {}, "modules": []}\n{"value": true}\n["passed"]\n')
    except OSError:
        pass


def f(x):
    return 3
