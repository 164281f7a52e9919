"""Leaves marks in modules and types for the next program in the same lane.

Kind: leave-behind
Expect: FAILED, RUNTIME_ERROR
Runs: 3
"""

import builtins
import json
import os
import sys


def f(x):
    if hasattr(builtins, "left") or hasattr(json, "left") or "LEFT" in os.environ or "left" in sys.modules:
        return 2
    builtins.left = json.left = 2
    os.environ["LEFT"] = "2"
    sys.modules["left"] = sys
    return 3
