"""Tables of public benchmarks: what a row and a completion come to, as a program with tests.

Each family of benchmarks is a module with a reader: a function of a row, a completion and options. To add a family,
write its module and name its reader in READERS. The rules are those of github.com/bytedance/SandboxFusion
(sandbox/datasets), so that both score a completion alike. But there the tests are pasted below the completion and the
exit status decides, so that `os._exit(0)` passes. Here the tests are apart from the program, for a sandbox that runs
them in a process of their own, or compares outputs outside; what can't be graded that way is `forgeable`.
"""

from collections.abc import Mapping

from ratchet_problems.benchmarks.auto_eval import auto_eval
from ratchet_problems.benchmarks.big_code_bench import big_code_bench
from ratchet_problems.benchmarks.common_oj import common_oj
from ratchet_problems.benchmarks.human_eval import evo_eval, human_eval
from ratchet_problems.benchmarks.live_code_bench import live_code_bench
from ratchet_problems.benchmarks.mbpp import mbpp, mhpp
from ratchet_problems.benchmarks.multipl_e import multipl_e
from ratchet_problems.benchmarks.output import lines_match
from ratchet_problems.benchmarks.row import Row
from ratchet_problems.benchmarks.work import Case, Options, Reader, Work

READERS: Mapping[str, Reader] = {
    "auto_eval": auto_eval,
    "big_code_bench": big_code_bench,
    "common_oj": common_oj,
    "evo_eval": evo_eval,
    "human_eval": human_eval,
    "live_code_bench": live_code_bench,
    "mbpp": mbpp,
    "mhpp": mhpp,
    "multipl_e": multipl_e,
}

__all__ = ["READERS", "Case", "Options", "Reader", "Row", "Work", "lines_match"]
