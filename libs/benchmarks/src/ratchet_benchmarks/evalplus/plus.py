"""HumanEval+ and MBPP+: rows and truth to problems."""

from collections.abc import Sequence
from datetime import timedelta

from ratchet_benchmarks.benchmark import Benchmark, Contents, Edition, Row, Truth
from ratchet_benchmarks.evalplus import inputs, tests_of
from ratchet_environments.task import MOST_CPU_TIME, Limits
from ratchet_problems import CheckTest, Problem
from ratchet_problems.prompting import EVALPLUS_STOP, FUNCTION_STOP, Prompting, at, fenced

_MEMORY = 4 << 30
_TASK = timedelta(seconds=60)
_TIMES = 4
"""EvalPlus gives each input a second, or four times what the reference takes, and a task 60 s. So that a slow machine
gives the verdicts of a fast one, a task has four times what its reference takes here, where that is more."""
_FIELDS = ("task_id", "prompt", "entry_point", "canonical_solution", "base_input", "plus_input", "atol")


def _human_eval_plus(rows: Sequence[Row], part: str, truth: Truth) -> Contents:
    return _read(rows, part, truth, FUNCTION_STOP, "humaneval+")


def _mbpp_plus(rows: Sequence[Row], part: str, truth: Truth) -> Contents:
    return _read(rows, part, truth, (*EVALPLUS_STOP, '\n"""', "\nassert"), "mbpp+")


def _read(rows: Sequence[Row], part: str, truth: Truth, stop: tuple[str, ...], source: str) -> Contents:
    kinds = ("base",) if part == "base" else ("base", "plus")
    problems = tuple(_problem(row, kinds, truth[row["task_id"]], source) for row in rows)
    limits = {}
    for row in rows:
        seconds = sum(truth[row["task_id"]][f"{kind}_seconds"] for kind in kinds)
        cpu_time = max(_TASK, timedelta(seconds=round(_TIMES * seconds, 1)))
        limits[row["task_id"]] = Limits(min(cpu_time, MOST_CPU_TIME), _MEMORY)
    # both are put with white space stripped at the ends, and one line end
    prompting = Prompting(message=fenced, text=lambda problem: problem.prompt.strip() + "\n", stop=at(*stop))
    return Contents(problems, prompting, Limits(_TASK, _MEMORY), limits)


def _problem(row: Row, kinds: Sequence[str], truth: Truth, source: str) -> Problem:
    def test(kind: str) -> CheckTest:
        left_out = set(truth[f"{kind}_left_out"])
        given = inputs.read(row["task_id"], row[f"{kind}_input"])
        given = [arguments for place, arguments in enumerate(given) if place not in left_out]
        slow = {int(place): round(_TIMES * seconds, 1) for place, seconds in truth[f"{kind}_slow"].items()}
        return CheckTest(tests_of.code(row["task_id"], row["entry_point"], given, truth[kind], row["atol"], slow))

    return Problem(
        id=row["task_id"],
        prompt=row["prompt"],
        tests=tuple(test(kind) for kind in kinds if row[f"{kind}_input"]),
        entry_point=row["entry_point"],
        references=(row["prompt"] + row["canonical_solution"],),
        source=source,
        licence="Apache-2.0",
    )


def _edition(version: str, name: str, digest: str) -> Edition:
    tag, repository = version.partition("-")[0], f"{name.partition('-')[0].lower()}_release"
    return Edition(
        version, digest, (f"https://github.com/evalplus/{repository}/releases/download/{tag}/{name}.jsonl.gz",)
    )


HUMAN_EVAL_PLUS = Benchmark(
    name="humaneval+",
    about="humaneval with 80 times the tests, by EvalPlus (humaneval+/base: the original inputs)",
    licence="Apache-2.0",
    editions=(
        _edition("v0.1.10", "HumanEvalPlus", "b4b182f1d5a445641d60c6d79b588990ac260576dfda056cfa96d843f07be514"),
        _edition(
            "v0.1.10-mini", "HumanEvalPlus-Mini", "62258212a5b5502347a33086bcb367ba0d56c7eb7e61304d63ee2a04f15fd803"
        ),
        _edition(
            "v0.1.10-noextreme",
            "HumanEvalPlus-NoExtreme",
            "5b683d1863a8868ae4fed8ebe6344f08ac5231111078f881b39a992179d4a703",
        ),
    ),
    fields=_FIELDS,
    read=_human_eval_plus,
    parts=("", "base"),
    needs_truth=True,
)
MBPP_PLUS = Benchmark(
    name="mbpp+",
    about="378 checked tasks of mbpp with 35 times the tests, by EvalPlus (mbpp+/base: the original inputs)",
    licence="Apache-2.0",
    editions=(
        _edition("v0.2.0", "MbppPlus", "ad030349952566ce250f563e18cf48bffa9c4ed27fb5ecd485414d7f9aa6b65f"),
        _edition("v0.1.0", "MbppPlus", "2815f2fa9416828932aa755f4907033fa3da371314e391175d8fcaac667079fa"),
        _edition(
            "v0.2.0-noextreme", "MbppPlus-NoExtreme", "833d7ea1f28ff1f84be331a2503a7b479799a3eeb4b0e4bdd6e273fa894d30e1"
        ),
    ),
    fields=_FIELDS,
    read=_mbpp_plus,
    parts=("", "base"),
    needs_truth=True,
)
