"""Answers in forms that no value has.

Kind: deny
Expect: TAMPERED, FAILED, RUNTIME_ERROR, OUTPUT_LIMIT
"""

import os
import sys


def frames():
    frame = sys._getframe()
    while frame:
        for value in list(frame.f_locals.values()):
            if type(value).__name__ == "Frames":
                return value
        frame = frame.f_back


def raw(text):
    data = (frames()._start + text).encode("utf-8", "surrogatepass")
    while data:
        data = data[os.write(3, data) :]


FORMS = (
    '{"i": "zz"}',
    '{"i": 5}',
    '{"t": 5}',
    '{"t": null}',
    '{"d": [[1]]}',
    '{"d": [1]}',
    '{"s": [[1]]}',
    '{"s": [{"d": []}]}',
    '{"b": "0g"}',
    '{"c": [1]}',
    '{"c": ["x", "y"]}',
    '{"a": ["O", []]}',
    '{"a": [[], 5]}',
    '{"o": [5, {}]}',
    '{"r": 5}',
    "{}",
    '{"t": [], "s": []}',
    "NaN",
    "-Infinity",
    "1e400",
    '"\\ud800"',
    '{"d": [[{"s": []}, 1]]}',
    '{"f": [{"t": [[]]}]}',
    '{"x": 1}',
    '{"i": "' + "f" * 200000 + '"}',
)


def f(x):
    for form in FORMS:
        raw(f'value", 0, {form}]\n')
    os._exit(0)
