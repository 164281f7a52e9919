"""Is a class whose objects are another number each time that they are asked.

Kind: fake-a-pass
Expect: FAILED, RUNTIME_ERROR
Test: check
Check:
    got = candidate(1)
    assert float(got) > 1.9 and float(got) < 2.1
"""


class V:
    def __init__(self, x):
        self.asked = 0

    def __float__(self):
        self.asked += 1
        return [1.0, 3.0][self.asked % 2]


f = V
