"""The HumanEval form, and EvoEval's: a prompt that the completion goes on from, and `check(candidate)`."""

import re

from ratchet_problems.helpers import declared, with_helpers
from sandbox_service.fusion.rows.completions import extract, extract_first
from sandbox_service.fusion.rows.multipl_e import multipl_e
from sandbox_service.fusion.rows.python_tests import STARS, checked, imports
from sandbox_service.fusion.rows.row import Row
from sandbox_service.fusion.rows.work import Options, Work

_NEW_STATEMENT = re.compile(r"\n(?=\S)")


def human_eval(row: Row, completion: str, options: Options) -> Work:
    """The HumanEval form: prompt, test with `check(candidate)`, entry_point; in older tables content and
    labels.entry_point. The completion goes on from the prompt, or, with extra.is_freeform, is an answer that holds the
    whole function. A row with `tests` is MultiPL-E's."""
    if "tests" in row:
        return multipl_e(row, completion, options)
    if options.is_freeform:
        extracted = extract(completion, "python")
        return _human_eval(row, extracted, extracted)
    # up to the first line that begins something new
    extracted = _NEW_STATEMENT.split(completion, maxsplit=1)[0]
    return _human_eval(row, f"{_prompt(row)}\n{extracted}", extracted)


def evo_eval(row: Row, completion: str, options: Options) -> Work:
    """As HumanEval, but that the prompt opens the fence which the completion closes."""
    if options.is_freeform:
        return human_eval(row, completion, options)
    return _human_eval(row, extract_first(f"{_prompt(row)}\n{completion}", "python"), completion)


def _human_eval(row: Row, code: str, extracted: str) -> Work:
    entry_point = row.text("entry_point") if "entry_point" in row else row.row("labels").text("entry_point")
    prompt = _prompt(row) if "prompt" in row or "content" in row else ""
    test = with_helpers(row.text("test"), prompt, entry_point)
    return checked(imports(code) + STARS + code, entry_point, test, extracted, declared(test, prompt, entry_point))


def _prompt(row: Row) -> str:
    return row.text("prompt" if "prompt" in row else "content")
