"""Is handed a list that holds what is expected of it, and changes what it can reach.

Kind: fake-a-pass
Expect: FAILED, RUNTIME_ERROR
Test: check
Check:
    def check(candidate):
        wanted = [2]
        given = (1, [5])
        assert [candidate(given)] == wanted and given[1] == [5]
"""


def f(given):
    given[1].clear()
    given[1].extend([3])
    return 3
