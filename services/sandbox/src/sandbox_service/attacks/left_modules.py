"""Leaves modules that the next program would import in place of the library's.

Kind: leave-behind
Expect: FAILED, RUNTIME_ERROR
Runs: 3
"""

import importlib
import os


def f(x):
    importlib.invalidate_caches()
    try:
        importlib.import_module("left_module")
        return 2
    except ImportError:
        pass
    for folder in (".", os.path.expanduser("~/.local/lib/python3.11/site-packages")):
        os.makedirs(folder, exist_ok=True)
        for name in ("sitecustomize", "usercustomize", "left_module", "json"):
            with open(f"{folder}/{name}.py", "w") as file:
                file.write("raise SystemExit(0)")
    return 3
