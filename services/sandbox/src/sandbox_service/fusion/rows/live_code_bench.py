"""The LiveCodeBench form: inputs and outputs, of a script or of a function."""

import base64
import io
import pickle
import re
import zlib
from typing import Any

from ratchet_kit import json_text
from ratchet_problems.problem import CallTest
from sandbox_service.fusion.rows.completions import extract
from sandbox_service.fusion.rows.python_tests import STARS, imports
from sandbox_service.fusion.rows.row import Row
from sandbox_service.fusion.rows.work import Options, Work, by_cases, stdio_case

_MOST_UNPACKED = 64 << 20  # bytes
# As pickle's load() says.
_BAD_PICKLE = (AttributeError, ImportError, IndexError, KeyError, TypeError, MemoryError, OverflowError)


def live_code_bench(row: Row, completion: str, options: Options) -> Work:
    """The LiveCodeBench form: test.input_output holds inputs and outputs, and fn_name where a function is called."""
    code = extract(completion, "python")
    test = (_unpacked(row) if _is_packed(row) else row.row("test")).row("input_output")
    inputs, outputs = test.texts("inputs"), test.texts("outputs")
    if len(inputs) != len(outputs):
        raise test.fault("outputs", f"are {len(outputs)}, and the inputs {len(inputs)}")
    if "fn_name" not in test:
        pairs = zip(inputs, outputs, strict=True)
        cases = [stdio_case(given, want) for given, want in pairs]
        return by_cases(test, "inputs", cases, STARS + code, "python", code)
    name = test.text("fn_name")
    if not name.isidentifier():
        raise test.fault("fn_name", "must be the name of a function")
    source = imports(code) + STARS + code
    if re.search(r"^class Solution\b", code, re.MULTILINE):
        source += f"\n\ndef {name}(*arguments):\n    return Solution().{name}(*arguments)\n"
    source += _AS_A_LIST.format(name)
    try:
        calls = [[json_text.read(line) for line in given.split("\n")] for given in inputs]
        wanted = [json_text.read(want) for want in outputs]
        tests = tuple(CallTest.of(args, want) for args, want in zip(calls, wanted, strict=True))
    except (ValueError, RecursionError):
        raise test.fault("inputs", "arguments, a line each, and outputs must be JSON") from None
    return Work(source, code, tests, f"{name}_as_a_list")


# JSON has no tuples: LiveCodeBench's own harness takes one for a list.
_AS_A_LIST = """

def {0}_as_a_list(*arguments):
    answer = {0}(*arguments)
    return list(answer) if isinstance(answer, tuple) else answer
"""


class _PlainUnpickler(pickle.Unpickler):
    """Texts, numbers and containers: nothing that is found by name, so nothing that runs."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"{module}.{name} is not a plain value")


def _is_packed(row: Row) -> bool:
    return isinstance(row.json_or_text("test"), str)


def _unpacked(row: Row) -> Row:
    """LiveCodeBench's own packing of a row's test: a pickle, compressed, in base64."""
    try:
        packed = zlib.decompressobj()
        data = packed.decompress(base64.b64decode(row.text("test"), validate=True), _MOST_UNPACKED)
        value = _PlainUnpickler(io.BytesIO(data)).load()
        value = json_text.read(value) if isinstance(value, str) else value
    except (ValueError, zlib.error, pickle.UnpicklingError, EOFError, RecursionError, *_BAD_PICKLE) as error:
        raise row.fault("test", f"is neither JSON nor a packed test: {type(error).__name__}") from None
    if packed.unconsumed_tail or not isinstance(value, dict):
        raise row.fault("test", f"unpacks to more than {_MOST_UNPACKED >> 20} MiB, or to no object")
    return row.below("test", value)
