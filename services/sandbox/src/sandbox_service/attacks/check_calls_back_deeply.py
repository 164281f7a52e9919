"""Is handed a function that calls it, and recurses between the two without an end.

Kind: deny
Expect: FAILED, RUNTIME_ERROR, TIME_LIMIT, MEMORY_LIMIT
Test: check
Check:
    def check(candidate):
        def back(x):
            return candidate(back)
        assert candidate(back) == 2
"""


def f(back):
    return back(back)
