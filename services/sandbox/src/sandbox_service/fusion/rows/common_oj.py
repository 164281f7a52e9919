"""The CommonOJ form: inputs and outputs, in any language."""

from sandbox_service.fusion.rows.completions import extract
from sandbox_service.fusion.rows.row import Row
from sandbox_service.fusion.rows.work import Options, Work, by_cases, stdio_case


def common_oj(row: Row, completion: str, options: Options) -> Work:
    """The CommonOJ form: test is a list of {input: {stdin}, output: {stdout}}, in any language of this node."""
    code = extract(completion, options.language)
    cases = [
        stdio_case(case.row("input").text("stdin", ""), case.row("output").text("stdout", ""))
        for case in row.rows("test")
    ]
    return by_cases(row, "test", cases, code, options.language, code)
