"""Puts modules of its own in the place of those that its surroundings use, in memory and on the path.

Kind: fake-a-pass
Expect: FAILED, RUNTIME_ERROR, TAMPERED
"""

import sys
import types

for name in ("json", "codec", "runner", "tester", "wire", "struct", "builtins"):
    module = types.ModuleType(name)
    module.dumps = module.encode = lambda *_, **__: "2"
    sys.modules[name] = module
sys.path.insert(0, ".")
with open("json.py", "w") as file:
    file.write("dumps = lambda *_, **__: '2'")


def f(x):
    return 3
