"""Shares its process with the tests, and writes frames of every kind where they answer.

Kind: deny
Expect: FAILED, RUNTIME_ERROR, TAMPERED, OUTPUT_LIMIT
Test: shared
"""

import os


def f(x):
    for kind in ("value", "tests", "error", "loaded", "end", "raised", "zz"):
        for more in ('0, {"i": "zz"}', "[" * 5000, '"\\ud800", null', "1e999"):
            os.write(3, f'["", "{kind}", {more}]\n'.encode())
    os._exit(0)
