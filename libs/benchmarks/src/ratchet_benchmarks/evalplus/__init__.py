"""EvalPlus (Liu et al. 2023, arXiv:2305.01210): HumanEval+ and MBPP+, many inputs for each task of HumanEval and MBPP.

What is expected is what the task's own reference gives, by EvalPlus' rules (judge.py). It's computed once, in the
sandbox (truth.py), and kept beside the data.
"""

from ratchet_benchmarks.evalplus.plus import HUMAN_EVAL_PLUS, MBPP_PLUS

__all__ = ["HUMAN_EVAL_PLUS", "MBPP_PLUS"]
