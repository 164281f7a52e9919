"""Returns a set and a dict whose keys hash and compare as they are asked.

Kind: fake-a-pass
Expect: FAILED, RUNTIME_ERROR
Test: check
Check: assert 2 in candidate(1) and candidate(1) >= {2} and candidate(2).get(2) == 2
"""


class Key(int):
    def __hash__(self):
        return hash(2)

    def __eq__(self, other):
        return True


def f(x):
    return {Key(3)} if x == 1 else {Key(3): Key(3)}
