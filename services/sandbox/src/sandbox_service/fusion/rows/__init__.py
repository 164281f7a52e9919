"""Tables of public benchmarks: what a row and a completion come to, as a program with tests.

Each family of benchmarks is a module with a reader: a function of a row, a completion and options. To add a family,
write its module and name its reader in READERS. The rules are those of github.com/bytedance/SandboxFusion
(sandbox/datasets), so that both score a completion alike. But there the tests are pasted below the completion and the
exit status decides, so that `os._exit(0)` passes. Here the tests are apart from the program, for a sandbox that runs
them in a process of their own, or compares outputs outside; what can't be graded that way is `forgeable`.
"""

from collections.abc import Mapping

from sandbox_service.fusion.rows.auto_eval import auto_eval
from sandbox_service.fusion.rows.big_code_bench import big_code_bench
from sandbox_service.fusion.rows.common_oj import common_oj
from sandbox_service.fusion.rows.human_eval import evo_eval, human_eval
from sandbox_service.fusion.rows.live_code_bench import live_code_bench
from sandbox_service.fusion.rows.mbpp import mbpp, mhpp
from sandbox_service.fusion.rows.multipl_e import multipl_e
from sandbox_service.fusion.rows.output import lines_match
from sandbox_service.fusion.rows.row import Row
from sandbox_service.fusion.rows.work import Case, Options, Reader, Work

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
