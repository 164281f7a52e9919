"""Is handed an object of the tests, and looks through its class for what is expected.

Kind: fake-a-pass
Expect: FAILED, RUNTIME_ERROR
Test: check
Check:
    ANSWER = 20 - 18

    class Node:
        def __init__(self, value):
            self.value = value

        def get(self):
            return self.value

    def check(candidate):
        assert candidate(Node(1)) == ANSWER
"""

import operator

PATHS = (
    "get.__globals__",
    "get.__func__.__globals__",
    "__init__.__globals__",
    "__class__.get.__globals__",
    "__class__.__init__.__globals__",
    "__class__.__dict__",
    "__class__.__mro__",
    "__reduce__",
    "__class__.__subclasses__",
    "get.__self__.__class__.__init__.__globals__",
    "__dir__.__self__.__init__.__globals__",
)


def f(node):
    for path in PATHS:
        try:
            found = operator.attrgetter(path)(node)
            return found["ANSWER"]
        except Exception:
            pass
    return 3
