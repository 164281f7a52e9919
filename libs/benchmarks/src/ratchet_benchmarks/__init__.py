"""Benchmarks: public ones, Ratchet's own sets and users' files, behind one interface.

    loaded = ratchet_benchmarks.load("humaneval")
    for problem in loaded.problems:
        prompt = loaded.put(problem, "chat")

To add one: docs/extending.md. human_eval.py is the shortest.
"""

from ratchet_benchmarks.benchmark import Benchmark, Contents, Edition, LoadedBenchmark
from ratchet_benchmarks.prompting import OWN_PROMPTING, Form, Prompt, Prompting
from ratchet_benchmarks.registry import BENCHMARKS, OWN, get, load, prepare, program, put, require, runtime_of

__all__ = [
    "BENCHMARKS",
    "OWN",
    "OWN_PROMPTING",
    "Benchmark",
    "Contents",
    "Edition",
    "Form",
    "LoadedBenchmark",
    "Prompt",
    "Prompting",
    "get",
    "load",
    "prepare",
    "program",
    "put",
    "require",
    "runtime_of",
]
