"""Is a class whose metaclass answers calls, comparisons and lookups.

Kind: fake-a-pass
Expect: FAILED, RUNTIME_ERROR
Test: check
Check: assert candidate(1) == 2 and candidate.value(1) == 2
"""


class Says(type):
    def __call__(cls, *_, **__):
        return cls

    def __eq__(cls, other):
        return True

    def __getattr__(cls, name):
        return lambda *_: cls

    __hash__ = type.__hash__


class f(metaclass=Says):
    pass
