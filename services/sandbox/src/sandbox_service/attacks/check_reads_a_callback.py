"""Is handed a function of the tests, and reads what it and its module know.

Kind: fake-a-pass
Expect: FAILED, RUNTIME_ERROR
Test: check
Check:
    ANSWER = 20 - 18

    def ask(x):
        return x

    def check(candidate):
        assert candidate(ask) == ANSWER
"""

import operator

PATHS = (
    "__globals__",
    "__closure__",
    "__code__.co_consts",
    "__code__",
    "__defaults__",
    "__module__",
    "__self__",
    "__func__.__globals__",
    "__builtins__",
    "__wrapped__",
    "__dict__",
    "gi_frame.f_globals",
    "__class__.__init__.__globals__",
)


def f(ask):
    for path in PATHS:
        try:
            found = operator.attrgetter(path)(ask)
        except Exception:
            continue
        for take in (lambda: found["ANSWER"], lambda: found.get("ANSWER"), lambda: getattr(found, "ANSWER")):
            try:
                return take()
            except Exception:
                pass
    return 3
