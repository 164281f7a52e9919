"""Keeps the objects that its tests make to compare with, and answers with the last of them.

Kind: fake-a-pass
Expect: RUNTIME_ERROR
Test: check
Names: Point
Check: want = [Point(2), Point(3)]; assert candidate(1) == want[1] and [candidate(2)] == want[1:]
"""


class Point:
    made = []

    def __init__(self, x):
        self.x = x
        self.made.append(self)

    def __eq__(self, other):
        return self.x == other.x


def f(x):
    return Point.made[-1]
