"""BigCodeBench's form: classes of unittest that patch what the program uses, and so share its process."""

import re

from sandbox_service.fusion.rows.completions import extract
from sandbox_service.fusion.rows.python_tests import pasted
from sandbox_service.fusion.rows.row import Row
from sandbox_service.fusion.rows.work import Options, Work


def big_code_bench(row: Row, completion: str, options: Options) -> Work:
    """Fields code_prompt (imports and the function's first lines), test, entry_point. As in the benchmark's own harness
    an answer that holds the function comes behind the prompt with `pass` for a body; any other goes on from it."""
    prompt, entry_point = row.text("code_prompt"), row.text("entry_point")
    extracted = extract(completion, "python")
    whole = re.search(rf"^(?:async )?def {re.escape(entry_point)}\b", extracted, re.MULTILINE)
    code = f"{prompt}\n    pass\n{extracted}" if whole else f"{prompt}\n{completion}"
    return pasted(f"{code}\n", entry_point, row.text("test"), extracted if whole else completion)
