"""SandboxFusion's data sets: what a row and a completion come to, as programs with tests that ours grades.

There the tests are pasted below the completion and the exit status decides, so `os._exit(0)` passes. Here the tests
run in a process of their own, or outside the cage altogether; what can't be graded that way is refused.
"""

import ast
import base64
import builtins
import contextlib
import io
import json
import pickle
import re
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ratchet.sandbox.v1 import sandbox_pb2 as pb
from ratchet_kit import syntax
from ratchet_kit.errors import FieldViolation, InvalidArgument, Unimplemented
from sandbox_service.fusion.extraction import extract, extract_first, without_main
from sandbox_service.fusion.shapes import TestConfig

RUN_TIMEOUT = 20.0
COMPILE_TIMEOUT = 10.0
_MOST_CASES = 1000
_MOST_UNPACKED = 64 << 20
_BAD_PICKLE = (
    AttributeError,
    ImportError,
    IndexError,
    KeyError,
    TypeError,
    MemoryError,
    OverflowError,
)  # as load() says
# What the pasted code could count on. A module is imported where its name is used.
_MODULES: tuple[str, ...] = ("math", "re", "sys", "copy", "datetime", "itertools", "collections", "heapq")
_MODULES += ("statistics", "functools", "hashlib", "string", "numpy")
_STARS = "from typing import *\nfrom collections import *\n"
_NEW_STATEMENT = re.compile(r"\n(?=\S)")
_MAIN = "if __name__ =="
_INSERT = "#<INSERT>"


@dataclass(frozen=True, slots=True)
class Case:
    """One run on `stdin`, whose output is compared here by SandboxFusion's rule."""

    stdin: str
    expected: str
    row: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Work:
    """What to run. Without cases, `program` holds its tests and is run once; with cases, once for each."""

    program: pb.Program
    extracted: str
    test_code: str = ""
    cases: tuple[Case, ...] = ()


class Row:
    """One row of a data set, read with the field named in every fault. Objects may also be JSON in a text."""

    def __init__(self, data: Mapping[str, Any], path: str) -> None:
        self._data, self._path = data, path

    def __contains__(self, name: str) -> bool:
        return self._data.get(name) is not None

    def fault(self, name: str, description: str) -> InvalidArgument:
        field = f"{self._path}.{name}"
        return InvalidArgument(f"{field}: {description}", [FieldViolation(field, description)])

    def text(self, name: str, default: str | None = None) -> str:
        value = self._data.get(name, default)
        if not isinstance(value, str):
            raise self.fault(name, "a text is needed")
        return self._clean(name, value)

    def json_or_text(self, name: str) -> Any:
        value = self._data.get(name)
        if isinstance(value, str):
            with contextlib.suppress(ValueError, RecursionError):
                return json.loads(value)
        return value

    def below(self, name: str, data: Mapping[str, Any]) -> "Row":
        return Row(data, f"{self._path}.{name}")

    def json(self, name: str) -> Any:
        value = self._data.get(name)
        if isinstance(value, str):
            try:
                return json.loads(value)
            except (ValueError, RecursionError):
                raise self.fault(name, "is a text that holds no JSON") from None
        return value

    def row(self, name: str) -> "Row":
        value = self.json(name)
        if not isinstance(value, dict):
            raise self.fault(name, "an object is needed")
        return Row(value, f"{self._path}.{name}")

    def rows(self, name: str) -> list["Row"]:
        value = self.json(name)
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            raise self.fault(name, "a list of objects is needed")
        return [Row(item, f"{self._path}.{name}[{i}]") for i, item in enumerate(value)]

    def texts(self, name: str) -> list[str]:
        value = self.json(name)
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self.fault(name, "a list of texts is needed")
        return [self._clean(name, item) for item in value]

    def _clean(self, name: str, value: str) -> str:
        try:
            value.encode()
        except UnicodeEncodeError:
            raise self.fault(name, "is no Unicode text") from None
        return value


Reader = Callable[[Row, str, TestConfig], Work]
"""Raises InvalidArgument for a row that isn't in the form, Unimplemented for what isn't graded here."""


def human_eval(row: Row, completion: str, config: TestConfig) -> Work:
    """The HumanEval form: prompt, test with `check(candidate)`, entry_point; in older tables content and
    labels.entry_point. The completion goes on from the prompt, or, with extra.is_freeform, is an answer that holds the
    whole function."""
    if config.extra.get("is_freeform"):
        extracted = extract(completion, "python")
        return _human_eval(row, extracted, extracted)
    # up to the first line that begins something new
    extracted = _NEW_STATEMENT.split(completion, maxsplit=1)[0]
    return _human_eval(row, f"{_prompt(row)}\n{extracted}", extracted)


def evo_eval(row: Row, completion: str, config: TestConfig) -> Work:
    """As HumanEval, but that the prompt opens the fence which the completion closes."""
    if config.extra.get("is_freeform"):
        return human_eval(row, completion, config)
    return _human_eval(row, extract_first(f"{_prompt(row)}\n{completion}", "python"), completion)


def _human_eval(row: Row, code: str, extracted: str) -> Work:
    if "tests" in row:
        raise Unimplemented(
            "MultiPL-E rows (other languages) are not graded here: their tests run in the program itself"
        )
    entry_point = row.text("entry_point") if "entry_point" in row else row.row("labels").text("entry_point")
    return _checked(_imports(code) + _STARS + code, entry_point, row.text("test"), extracted)


def _prompt(row: Row) -> str:
    return row.text("prompt" if "prompt" in row else "content")


def mbpp(row: Row, completion: str, config: TestConfig) -> Work:
    """The MBPP form: test_list of asserts, labels.test_setup_code. Few-shot completions face the last assert alone."""
    setup = row.row("labels").text("test_setup_code", "")
    extracted = extract_first(completion.split("[DONE]")[0], "python")
    for end in ("\nassert", '\n"""', _MAIN):
        extracted = extracted.split(end)[0]
    code = f"{setup}\n{extracted}"
    tests = row.texts("test_list")
    if not tests:
        raise row.fault("test_list", "holds no test")
    asserts = "\n".join(tests[-1:] if config.is_fewshot else tests)
    return _checked(code, _entry_point(asserts, code), f"{setup}\n{asserts}\n", code)


def mhpp(row: Row, completion: str, config: TestConfig) -> Work:
    """The MHPP form: `test` is a text of asserts."""
    code = extract(completion, "python")
    if not code.strip():
        code = extract(f"{row.text('content', '')}\n{completion}", "python")
    test = row.text("test")
    return _checked(code, _entry_point(test, code), test, code)


def auto_eval(row: Row, completion: str, config: TestConfig) -> Work:
    """The AutoEval form: test.code is a script that comes after the program, in Python."""
    labels, test = row.row("labels"), row.row("test")
    language = labels.text("programming_language")
    ran_as = labels.text("execution_language", language)
    if (language, ran_as) != ("python", "python"):
        raise Unimplemented(f"AutoEval rows in {language} (run as {ran_as}) are not graded here, those in python are")
    if "asset" in test and test.json("asset"):
        raise Unimplemented("AutoEval rows with files (test.asset) are not graded here")
    tests = test.text("code")
    if _INSERT in tests:
        raise Unimplemented(f"test code with the program inside ({_INSERT}) is not graded: they would share a process")
    code = without_main(extract(completion, "python")).split(_MAIN)[0]
    return _checked(code, _entry_point(tests, code), tests, code)


def common_oj(row: Row, completion: str, config: TestConfig) -> Work:
    """The CommonOJ form: test is a list of {input: {stdin}, output: {stdout}}, in any language of this node."""
    if config.language is None:
        raise InvalidArgument(
            "config.language must be set for CommonOJDataset", [FieldViolation("config.language", "must be set")]
        )
    code = extract(completion, config.language)
    cases = []
    for case in row.rows("test"):
        entered, expected = case.row("input").text("stdin", ""), case.row("output").text("stdout", "")
        cases.append(Case(entered, expected, {"input": {"stdin": entered}, "output": {"stdout": expected}}))
    return _by_cases(row, "test", cases, code, config.language)


def live_code_bench(row: Row, completion: str, config: TestConfig) -> Work:
    """The LiveCodeBench form: test.input_output holds inputs and outputs, and fn_name where a function is called."""
    code = extract(completion, "python")
    test = (_unpacked(row) if _is_packed(row) else row.row("test")).row("input_output")
    inputs, outputs = test.texts("inputs"), test.texts("outputs")
    if len(inputs) != len(outputs):
        raise test.fault("outputs", f"are {len(outputs)}, and the inputs {len(inputs)}")
    if "fn_name" not in test:
        pairs = zip(inputs, outputs, strict=True)
        cases = [Case(given, want, {"input": {"stdin": given}, "output": {"stdout": want}}) for given, want in pairs]
        return _by_cases(test, "inputs", cases, _STARS + code, "python", code)
    name = test.text("fn_name")
    if not name.isidentifier():
        raise test.fault("fn_name", "must be the name of a function")
    source = _imports(code) + _STARS + code
    if re.search(r"^class Solution\b", code, re.MULTILINE):
        source += f"\n\ndef {name}(*arguments):\n    return Solution().{name}(*arguments)\n"
    try:
        calls = [[json.loads(line) for line in given.split("\n")] for given in inputs]
        wanted = [json.loads(want) for want in outputs]
        tests = [
            pb.Test(call=pb.CallTest(args=repr(args), expected=repr(want)))
            for args, want in zip(calls, wanted, strict=True)
        ]
    except (ValueError, RecursionError):
        raise test.fault("inputs", "arguments, a line each, and outputs must be JSON") from None
    return Work(pb.Program(source=source, entry_point=name, tests=tests, language="python"), code)


class _PlainUnpickler(pickle.Unpickler):
    """Texts, numbers and containers: nothing that is found by name, so nothing that runs."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"{module}.{name} is no plain value")


def _is_packed(row: Row) -> bool:
    return isinstance(row.json_or_text("test"), str)


def _unpacked(row: Row) -> Row:
    """LiveCodeBench's own packing of a row's test: a pickle, compressed, in base64."""
    try:
        packed = zlib.decompressobj()
        data = packed.decompress(base64.b64decode(row.text("test"), validate=True), _MOST_UNPACKED)
        value = _PlainUnpickler(io.BytesIO(data)).load()
        value = json.loads(value) if isinstance(value, str) else value
    except (ValueError, zlib.error, pickle.UnpicklingError, EOFError, RecursionError, *_BAD_PICKLE) as error:
        raise row.fault("test", f"is neither JSON nor a packed test: {type(error).__name__}") from None
    if packed.unconsumed_tail or not isinstance(value, dict):
        raise row.fault("test", f"unpacks to more than {_MOST_UNPACKED >> 20} MiB, or to no object")
    return row.below("test", value)


# The class that reads each data set, by SandboxFusion's names for both.
CLASSES: Mapping[str, Reader] = {
    "HumanEvalDataset": human_eval,
    "EvoEvalDataset": evo_eval,
    "MBPPDataset": mbpp,
    "MHPPDataset": mhpp,
    "CommonOJDataset": common_oj,
    "LiveCodeBenchDataset": live_code_bench,
    "AutoEvalDataset": auto_eval,
    "AutoEvalV4Dataset": auto_eval,
    "AutoEvalV5Dataset": auto_eval,
    "AutoEvalV6Dataset": auto_eval,
}
DATASETS: Mapping[str, str] = {
    "humaneval_python": "HumanEvalDataset",
    "shadow_humaneval_python": "HumanEvalDataset",
    "evoeval": "EvoEvalDataset",
    "mbpp": "MBPPDataset",
    "mhpp": "MHPPDataset",
    "code_contests": "CommonOJDataset",
    "live_code_bench_v1": "LiveCodeBenchDataset",
}

_NOT_GRADED: Mapping[str, str] = {
    "bigcodebench": "its tests patch modules of the program's own process, where it could patch them as well",
}


def reader(dataset: str, dataset_type: str | None) -> Reader:
    """Raises InvalidArgument for a data set without a class, Unimplemented for a class that isn't offered."""
    if dataset in _NOT_GRADED:
        raise Unimplemented(f"{dataset} is not graded here: {_NOT_GRADED[dataset]}")
    name = DATASETS.get(dataset, dataset_type)
    if name is None:
        known = ", ".join(DATASETS)
        raise InvalidArgument(
            f"dataset: no data set {dataset!r}; set config.dataset_type to its class, or take one of {known}",
            [FieldViolation("dataset", f"is none of {known}, and config.dataset_type is not set")],
        )
    if name not in CLASSES:
        raise Unimplemented(f"data sets of class {name!r} are not offered here: {', '.join(CLASSES)} are")
    return CLASSES[name]


def lines_match(got: str, expected: str) -> bool:
    """SandboxFusion's rule: the same lines but for case and space at their ends; numbers to a relative 1e-5."""
    mine, theirs = got.strip().lower().split("\n"), expected.strip().lower().split("\n")
    return len(mine) == len(theirs) and all(map(_line_matches, mine, theirs))


def _line_matches(got: str, expected: str) -> bool:
    if got.strip() == expected.strip():
        return True
    try:
        mine, theirs = float(got), float(expected)
    except ValueError:
        return False
    return abs(mine - theirs) / max(abs(theirs), 1e-10) < 1e-5


def _checked(source: str, entry_point: str, test: str, extracted: str) -> Work:
    _require_a_test(test)
    # behind its own imports the tests may use what the pasted code could: not over a name of the program
    defined = _defined(source)
    helpers = "".join(line for line in _imports(test).splitlines(True) if line.split()[-1] not in defined)
    tests = [pb.Test(check=pb.CheckTest(code=helpers + test))]
    program = pb.Program(source=source, entry_point=entry_point, tests=tests, language="python")
    return Work(program, extracted, test_code=test)


def _require_a_test(tests: str) -> None:
    """Code that only defines things passes whatever it's run against."""
    with contextlib.suppress(SyntaxError, ValueError, RecursionError, MemoryError):
        statements = syntax.parse(tests).body
        idle = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef, ast.Assign, ast.AnnAssign)
        checks = any(isinstance(each, ast.FunctionDef) and each.name == "check" for each in statements)
        if not checks and all(isinstance(each, idle) for each in statements):
            raise Unimplemented("the test code neither defines check(candidate) nor asserts or calls anything")


def _by_cases(row: Row, name: str, cases: list[Case], source: str, language: str, extracted: str | None = None) -> Work:
    if not 0 < len(cases) <= _MOST_CASES:
        raise row.fault(name, f"{len(cases)} cases, and 1 to {_MOST_CASES} are taken")
    return Work(
        pb.Program(source=source, language=language), source if extracted is None else extracted, "", tuple(cases)
    )


def _imports(code: str) -> str:
    used = [name for name in _MODULES if re.search(rf"\b{name}\.", code)]
    lines = [f"import {name}\n" for name in used]
    return "".join(lines) + ("import numpy as np\n" if re.search(r"\bnp\.", code) else "")


def _entry_point(tests: str, code: str) -> str:
    """The function that the tests are about: the first that they call and the code defines, or the first they call."""
    try:
        nodes = list(ast.walk(syntax.parse(tests)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        nodes = []  # the tests are parsed again, and their fault told, where the program is taken in
    called = [node.func.id for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
    local = {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    called = [name for name in called if not hasattr(builtins, name) and name not in local]
    defined = _defined(code)
    return next((name for name in called if name in defined), called[0] if called else "candidate")


def _defined(code: str) -> set[str]:
    found = re.findall(r"^(?:(?:async )?def|class) (\w+)|^(\w+)\s*=[^=]", code, re.MULTILINE)
    return {name for pair in found for name in pair if name}
