"""The MBPP form, and MHPP's: asserts that call the function."""

from ratchet_problems.entry_points import entry_point_of
from sandbox_service.fusion.rows.completions import extract, extract_first
from sandbox_service.fusion.rows.python_tests import MAIN, checked
from sandbox_service.fusion.rows.row import Row
from sandbox_service.fusion.rows.work import Options, Work


def mbpp(row: Row, completion: str, options: Options) -> Work:
    """The MBPP form: test_list of asserts, labels.test_setup_code. Few-shot completions face the last assert alone."""
    setup = row.row("labels").text("test_setup_code", "")
    extracted = extract_first(completion.split("[DONE]")[0], "python")
    for end in ("\nassert", '\n"""', MAIN):
        extracted = extracted.split(end)[0]
    code = f"{setup}\n{extracted}"
    tests = row.texts("test_list")
    if not tests:
        raise row.fault("test_list", "holds no test")
    asserts = "\n".join(tests[-1:] if options.is_fewshot else tests)
    return checked(code, entry_point_of(asserts, code), f"{setup}\n{asserts}\n", code)


def mhpp(row: Row, completion: str, options: Options) -> Work:
    """The MHPP form: `test` is a text of asserts."""
    code = extract(completion, "python")
    if not code.strip():
        code = extract(f"{row.text('content', '')}\n{completion}", "python")
    test = row.text("test")
    return checked(code, entry_point_of(test, code), test, code)
