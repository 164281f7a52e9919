"""Defines what the tests would use of a harness: is_close, np, pytest, approx.

Kind: fake-a-pass
Expect: NONE
Test: check
Check:
    def check(candidate):
        assert is_close(candidate(1), 2)
        assert np.allclose(candidate(1), 2)
        assert candidate(1) == pytest.approx(2)
"""


class Everything:
    def __getattr__(self, name):
        return self

    def __call__(self, *_, **__):
        return True


class Equal:
    def __eq__(self, other):
        return True


np = pytest = Everything()
is_close = isclose = allclose = lambda *_, **__: True
approx = lambda *_, **__: Equal()
pytest.approx = approx


def f(x):
    return 3
