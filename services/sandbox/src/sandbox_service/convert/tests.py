"""Tests of a program: from protobuf, with their literals parsed and their code read."""

import ast
import builtins
import keyword
from collections import Counter

from ratchet.common.v1 import problem_pb2
from ratchet_kit import syntax
from ratchet_problems import MOST_TEXT_BYTES
from ratchet_problems.languages import PYTHON
from sandbox_service.cage.wire import codec
from sandbox_service.convert.reading import Reading
from sandbox_service.domain.grading import clip
from sandbox_service.domain.program import CallTest, CheckTest, StdioTest, Test
from sandbox_service.domain.test_code import TestCode

_NO_ARGS: object = ()
_MOST_OF_ONE_HASH = 100
# Builtins that programs write anew as an exercise. With any other a program could make tests agree that do not mean it.
_WRITTEN_ANEW = {"divmod", "filter", "format", "hash", "input", "map", "open", "pow", "print", "range", "reversed"}
# What codec writes for a value that can't reach a program; within a text these quotes are escaped.
_OPAQUE = '{"o": ['


def test_from_proto(message: problem_pb2.Test, entry_point: str, path: str, reading: Reading, language: str) -> Test:
    kind, held_out = message.WhichOneof("kind"), message.held_out
    if kind == "call":
        return _call_test(message.call, held_out, f"{path}.call", reading)
    if kind == "stdio":
        reading.fits(f"{path}.stdio.stdin", message.stdio.stdin, MOST_TEXT_BYTES)
        reading.fits(f"{path}.stdio.expected_stdout", message.stdio.expected_stdout, MOST_TEXT_BYTES)
        tolerance = message.stdio.tolerance if message.stdio.HasField("tolerance") else None
        reading.faults.bounds(f"{path}.stdio.tolerance", tolerance or 0.0, at_least=0.0)
        return StdioTest(message.stdio.stdin, message.stdio.expected_stdout, held_out, tolerance)
    if kind == "check" and language != PYTHON:
        reading.fits(f"{path}.check.code", message.check.code)
        return CheckTest(
            message.check.code,
            held_out=held_out,
            names=tuple(message.check.names),
            shared=message.check.grading == problem_pb2.CheckTest.GRADING_SHARED,
        )
    if kind == "check":
        return _check_test(message.check, entry_point, held_out, f"{path}.check", reading)
    reading.faults.add(path, "holds no test")
    return StdioTest("", "")


def _call_test(message: problem_pb2.CallTest, held_out: bool, path: str, reading: Reading) -> CallTest:
    args = reading.take(f"{path}.args", reading.literal, message.args, _NO_ARGS)
    if not isinstance(args, list | tuple):
        reading.faults.add(f"{path}.args", f"is a {type(args).__name__}, and must be the list of the arguments")
        args = ()
    expected = None
    if not message.raises:
        expected = reading.take(f"{path}.expected", reading.literal, message.expected, None)
    elif message.expected:
        reading.faults.add(f"{path}.expected", "must be empty where an exception is expected")
    elif not message.raises.isidentifier():
        reading.faults.add(f"{path}.raises", "must be the name of an exception's type, as ValueError")
    if message.unordered and not isinstance(expected, list | tuple):
        reading.faults.add(f"{path}.unordered", "is for an expected list or tuple")
    tolerance = message.tolerance if message.HasField("tolerance") else None
    reading.faults.bounds(f"{path}.tolerance", tolerance or 0.0, at_least=0.0)
    size = len(message.args) + len(message.expected)
    return CallTest(tuple(args), expected, tolerance, message.raises, message.unordered, held_out, size)


def literal(text: str) -> object:
    """The value of a Python literal; inf, nan and -inf count as one. Raises ValueError, whatever the text."""
    if not text.strip():
        raise ValueError("is not a Python literal: it is empty")
    try:
        tree = syntax.parse_value(text)
        _refuse_one_hash(tree)
        value: object = ast.literal_eval(tree)  # noqa: TID251 (a tree)
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError) as error:
        reason = str(error) or type(error).__name__
        reason = "it holds more than values" if reason.startswith("malformed node") else clip(reason)
        raise ValueError(f"is not a Python literal: {reason}") from None
    if (sum(map(text.count, "([{")) > codec.MAX_DEPTH or "..." in text) and _OPAQUE in codec.dumps(value):
        raise ValueError(f"holds an Ellipsis, or is nested more than {codec.MAX_DEPTH} deep")
    return value


def _refuse_one_hash(tree: ast.AST) -> None:
    """Of a set or a dict, many keys with one hash: to build it takes quadratic time, here and in the program."""
    for node in ast.walk(tree):
        keys = node.elts if isinstance(node, ast.Set) else node.keys if isinstance(node, ast.Dict) else []
        if len(keys) > _MOST_OF_ONE_HASH:
            hashes = Counter(hash(ast.literal_eval(key)) for key in keys if key is not None)  # noqa: TID251 (a tree)
            if max(hashes.values()) > _MOST_OF_ONE_HASH:
                raise ValueError(f"it holds more than {_MOST_OF_ONE_HASH} keys of one hash")


def _check_test(
    message: problem_pb2.CheckTest, entry_point: str, held_out: bool, path: str, reading: Reading
) -> CheckTest:
    shared = message.grading == problem_pb2.CheckTest.GRADING_SHARED
    if message.grading not in problem_pb2.CheckTest.Grading.values():
        reading.faults.add(f"{path}.grading", f"must be a known grading, not {message.grading}")
    if shared and held_out:
        reading.faults.add(
            f"{path}.grading", "must be strict for a held-out test: a program sees what shares its process"
        )
    for name in message.names:
        if not name.isidentifier() or keyword.iskeyword(name):
            reading.faults.add(f"{path}.names", f"must be names other than keywords, not {clip(name)!r}")
        elif hasattr(builtins, name) and name not in _WRITTEN_ANEW:
            remedy = "tests judge by it. To use the program's, import it in the code, from solution"
            reading.faults.add(f"{path}.names", f"must not hold {clip(name)!r}, a builtin: {remedy}")
    names = tuple(message.names)
    fallback = TestCode(False, names)
    code = reading.take(
        f"{path}.code", lambda text: reading.test_code(text, entry_point, names, shared), message.code, fallback
    )
    return CheckTest(
        message.code, code.calls_check, held_out, code.names, code.modules, shared, code.unknown, code.asserted
    )
