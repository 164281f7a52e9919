"""Raises an exception whose name, ancestors and message are huge, and no text.

Kind: deny
Expect: RUNTIME_ERROR, OUTPUT_LIMIT, FAILED
"""

kind = Exception
for i in range(800):
    kind = type("E\ud800" + "x" * 5000, (kind,), {})


class Text(str):
    def __str__(self):
        return self

    def encode(self, *_):
        raise SystemError


kind.__str__ = lambda self: Text("\udfff\0" * 500_000)


def f(x):
    raise kind
