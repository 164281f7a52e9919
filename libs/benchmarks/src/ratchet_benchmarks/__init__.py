"""Benchmarks: public ones, Ratchet's own sets and users' files, behind one interface.

    loaded = ratchet_benchmarks.load("humaneval")
    for problem in loaded.problems:
        prompt = loaded.put(problem, "chat")

To add one: docs/extending.md. human_eval.py is the shortest.
"""

from ratchet_benchmarks.benchmark import Benchmark, Contents, Edition, LoadedBenchmark
from ratchet_benchmarks.registry import (
    BENCHMARKS,
    OWN,
    dataset_of,
    get,
    load,
    prepare,
    program,
    put,
    require,
    runtime_of,
)

__all__ = [
    "BENCHMARKS",
    "OWN",
    "Benchmark",
    "Contents",
    "Edition",
    "LoadedBenchmark",
    "dataset_of",
    "get",
    "load",
    "prepare",
    "program",
    "put",
    "require",
    "runtime_of",
]
