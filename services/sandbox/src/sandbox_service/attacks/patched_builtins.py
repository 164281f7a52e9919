"""Changes the functions that its surroundings use.

Kind: fake-a-pass
Expect: FAILED, TAMPERED, RUNTIME_ERROR
"""

import builtins
import json

json.dumps = lambda *a, **k: "[true]"
builtins.isinstance = lambda *a: True
builtins.all = lambda *a: True


def f(x):
    return 3
