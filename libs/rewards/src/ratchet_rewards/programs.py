"""A problem and a completion to the program that the sandbox grades."""

import ast
import functools
import sys
from datetime import timedelta

from ratchet.sandbox.v1 import sandbox_pb2 as pb
from ratchet_kit import syntax
from ratchet_kit.times import duration_to_proto
from ratchet_problems.problem import CallTest, CheckTest, Problem, StdioTest
from ratchet_rewards.extraction import defines, extract_code


def program_for(
    problem: Problem, completion: str, *, program_id: str = "", cpu_time: timedelta | None = None, memory_bytes: int = 0
) -> pb.Program:
    """The completion's code with the problem's tests. Limits that aren't given are the sandbox's defaults.

    Where the prompt is itself the beginning of the program (as in HumanEval: signature and docstring) and the
    completion doesn't define the entry point anew, the program is both together.
    """
    limits = pb.Limits(memory_bytes=memory_bytes)
    if cpu_time is not None:
        limits.cpu_time.CopyFrom(duration_to_proto(cpu_time))
    return pb.Program(
        id=program_id or problem.id,
        source=source_for(problem.prompt, problem.entry_point, completion),
        entry_point=problem.entry_point,
        tests=[_test(test, problem) for test in problem.tests],
        limits=limits,
    )


def source_for(prompt: str, entry_point: str, completion: str) -> str:
    """The program that a completion means. Where the prompt begins it and the completion goes on, both together."""
    name = entry_point.partition(".")[0]
    code = extract_code(completion, name)
    if name and not defines(code, name) and defines(prompt, name):
        return extract_code(prompt + code, name)
    return code


def with_helpers(check: str, prompt: str, entry_point: str) -> str:
    """The test code, with the functions that the prompt gives beside the one to be written.

    HumanEval/32 is checked by the `poly` of its prompt. The program could bring another one, that agrees to anything.
    """
    helpers = _helpers(prompt, entry_point)
    return f"{helpers}\n\n{check}" if helpers and "__future__" not in check else check


@functools.lru_cache(maxsize=1024)
def _helpers(prompt: str, entry_point: str) -> str:
    if prompt.count("def ") < 2:
        return ""
    try:
        body = syntax.parse(prompt).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ""
    functions = [node for node in body if isinstance(node, ast.FunctionDef) and node.name != entry_point]
    if not functions:
        return ""
    imports = [node for node in body if isinstance(node, ast.Import | ast.ImportFrom) and _from_library(node)]
    return "\n".join(ast.unparse(node) for node in [*imports, *functions])


def _from_library(node: ast.Import | ast.ImportFrom) -> bool:
    names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
    return all(name.partition(".")[0] in sys.stdlib_module_names - {"__future__"} for name in names)


def _test(test: CallTest | StdioTest | CheckTest, problem: Problem) -> pb.Test:
    match test:
        case CallTest():
            call = pb.CallTest(
                args=test.args,
                expected=test.expected,
                tolerance=test.tolerance,
                raises=test.raises,
                unordered=test.unordered,
            )
            return pb.Test(call=call, held_out=test.held_out)
        case StdioTest():
            stdio = pb.StdioTest(stdin=test.stdin, expected_stdout=test.expected_stdout)
            return pb.Test(stdio=stdio, held_out=test.held_out)
        case CheckTest():
            code = with_helpers(test.code, problem.prompt, problem.entry_point)
            return pb.Test(check=pb.CheckTest(code=code), held_out=test.held_out)
