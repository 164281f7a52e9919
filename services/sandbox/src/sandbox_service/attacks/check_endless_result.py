"""Returns a generator that never ends, and a list that holds itself.

Kind: deny
Expect: FAILED, RUNTIME_ERROR, TIME_LIMIT, MEMORY_LIMIT, OUTPUT_LIMIT
Test: check
Check: assert list(candidate(1)) == [2]
"""


def f(x):
    while True:
        yield 2
