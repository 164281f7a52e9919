"""The AutoEval form: a script of tests that comes after the program."""

from ratchet_kit.errors import Unimplemented
from ratchet_problems.entry_points import entry_point_of
from sandbox_service.fusion.rows.completions import extract, without_main
from sandbox_service.fusion.rows.python_tests import MAIN, checked, pasted
from sandbox_service.fusion.rows.row import Row
from sandbox_service.fusion.rows.work import Options, Work

_INSERT = "#<INSERT>"


def auto_eval(row: Row, completion: str, options: Options) -> Work:
    """The AutoEval form: test.code is a script that comes after the program, in Python, or surrounds it (#<INSERT>)."""
    labels, test = row.row("labels"), row.row("test")
    language = labels.text("programming_language")
    ran_as = labels.text("execution_language", language)
    if (language, ran_as) != ("python", "python"):
        raise Unimplemented(f"AutoEval rows in {language} (run as {ran_as}) are not graded here, those in python are")
    if "asset" in test and test.json("asset"):
        raise Unimplemented("AutoEval rows with files (test.asset) are not graded here")
    tests = test.text("code")
    code = without_main(extract(completion, "python")).split(MAIN)[0]
    if _INSERT in tests:
        before, mark, after = tests.partition(f"{_INSERT}\n")
        if not mark or _INSERT in after or before[-1:] not in ("", "\n"):
            raise row.fault("test.code", f"{_INSERT} must be a line of its own, once")
        return pasted(f"{before}{code}\n", entry_point_of(after, before + code), after, code)
    return checked(code, entry_point_of(tests, code), tests, code)
