"""BigCodeBench (Zhuo et al. 2024, arXiv:2406.15877): functions that use 139 libraries, tested by unittest.

A base model goes on with `complete_prompt`, a chat model is given `instruct_prompt`. The tests mock and patch what the
function uses, and lend it their imports, so they share its process: results can be forged, and are labelled so.
"""

from collections.abc import Sequence
from datetime import timedelta

from ratchet_benchmarks.benchmark import Benchmark, Contents, Edition, Row, Truth
from ratchet_environments.task import Limits
from ratchet_kit import syntax
from ratchet_problems import CheckTest, Problem
from ratchet_problems.prompting import FUNCTION_STOP, INSTRUCTION, Prompting, at

RUNTIME = "bigcodebench"
_FIELDS = (
    "task_id",
    "complete_prompt",
    "instruct_prompt",
    "canonical_solution",
    "code_prompt",
    "test",
    "entry_point",
    "libs",
)
_RELEASE = "https://github.com/bigcode-project/bigcodebench-annotation/releases/download"
_TABLE = "https://huggingface.co/datasets/bigcode/{0}/resolve/main/data/{1}-00000-of-00001.parquet"


def _read(rows: Sequence[Row], part: str, truth: Truth) -> Contents:
    instructions = {row["task_id"]: row["instruct_prompt"] for row in rows}
    starts = {row["task_id"]: row["code_prompt"] for row in rows}

    def message(problem: Problem) -> str:
        if part == "complete":
            return f"{INSTRUCTION}\n```\n{problem.prompt.strip()}\n```"
        return f"{INSTRUCTION}\n{instructions[problem.id].strip()}"

    def calibrated(problem: Problem, solution: str) -> str:
        """As BigCodeBench calls it: behind the imports and the signature, with an empty body. Its evaluator does so
        with every file of samples since 0.2; what it wrote as `eval_results.json` is so already."""
        start = f"{starts[problem.id]}\n    pass\n"
        return solution if solution.startswith(start) else start + solution

    prompting = Prompting(
        message=message,
        text=lambda problem: problem.prompt.strip() + "\n",
        stop=at(*FUNCTION_STOP),
        join=lambda problem, completion: calibrated(problem, problem.prompt + completion),
        wrap=calibrated,
    )
    # BigCodeBench gives 240 s by the clock to all: its references take up to 160, most of it asleep
    limits = Limits(timedelta(seconds=240), 4 << 30, processes=True)
    return Contents(tuple(map(_problem, rows)), prompting, limits)


def _problem(row: Row) -> Problem:
    return Problem(
        id=row["task_id"],
        prompt=row["complete_prompt"],
        tests=(CheckTest(row["test"], shared=True),),
        entry_point=row["entry_point"],
        references=(row["complete_prompt"] + row["canonical_solution"],),
        difficulty=3,
        source="bigcodebench",
        licence="Apache-2.0",
        tags=_libraries(row["libs"]),
    )


def _libraries(text: str) -> tuple[str, ...]:
    try:
        found = syntax.literal(text)
    except (ValueError, SyntaxError):
        return ()
    return tuple(map(str, found)) if isinstance(found, list) else ()


def _editions(name: str, digests: Sequence[tuple[str, str]]) -> tuple[Edition, ...]:
    homes = {
        version: (_TABLE.format(name, version), f"{_RELEASE}/{version}/BigCodeBench{suffix}.jsonl.gz")
        for suffix in ["-Hard" if name.endswith("hard") else ""]
        for version, _ in digests
    }
    return tuple(Edition(version, digest, homes[version]) for version, digest in digests)


BIG_CODE_BENCH = Benchmark(
    name="bigcodebench",
    about="1140 functions over 139 libraries; chat models get the instruct form (bigcodebench/complete: the other)",
    licence="Apache-2.0",
    editions=_editions(
        "bigcodebench",
        [
            ("v0.1.4", "95b227d48e3057f3e7f4ebffb122c18be20e301692b3fe3bcdf171ad61b4937b"),
            ("v0.1.0_hf", "2f43d44fbd74d7203021829ab1bb2169a704ae8aecbb91e91b536d967627f3b7"),
        ],
    ),
    fields=_FIELDS,
    read=_read,
    parts=("", "complete"),
    runtime=RUNTIME,
)
BIG_CODE_BENCH_HARD = Benchmark(
    name="bigcodebench-hard",
    about="the 148 hardest of bigcodebench",
    licence="Apache-2.0",
    editions=_editions(
        "bigcodebench-hard",
        [
            ("v0.1.4", "f34f5aa9c55161f963b9e3f606e84db09249f15e7a64f326a1ed478293984412"),
            ("v0.1.0_hf", "b8d60abc0041a8d525cb6cf9be16318cf07850a23fc1f6178d078d5625c3e972"),
        ],
    ),
    fields=_FIELDS,
    read=_read,
    parts=("", "complete"),
    runtime=RUNTIME,
)
