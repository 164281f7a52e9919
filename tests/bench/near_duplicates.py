"""What the search for near-duplicates finds, and how fast: `python -m tests.bench.near_duplicates [ROWS]`.

500 plants of HumanEval and MBPP among 20,000 other problems: renamed (functions and variables), paraphrased (synonyms
that the search only half knows, words swapped, sentences moved) or both, with all of what the problem had or a part of
it. The others are BigCodeBench, APPS, ClassEval, LeetCode, CodeContests, Ratchet's own sets, and functions of installed
packages with their docstrings. All public data are of ../shared/data. Then ROWS (100,000) rows of a parquet file are
read, sketched in two processes, and searched against these benchmarks and among themselves.
"""

import ast
import builtins
import gzip
import json
import multiprocessing
import random
import re
import resource
import sys
import sysconfig
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from ratchet_problems import CheckTest, Problem, load, mapping, tables
from ratchet_problems.near.search import Known, duplicates
from ratchet_problems.near.sketches import Sketches, sketch

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
PLANTS, OTHERS = 500, 20_000
LEAST_FOUND, MOST_FALSE = 0.95, 0.01
SEED = 7
SECONDS_OF_A_MILLION, MOST_GIB = 600, 2
NAMES = "alpha helper data work res acc cur thing val blob zed kappa omega quux buf seq box mark temp limit".split()  # noqa: SIM905
SYNONYMS = dict(
    line.split("=")
    for line in """write=implement|find=locate|get=obtain|return=give back|returns=gives back|given=provided|list=array
    |lists=arrays|string=text|strings=texts|number=value|numbers=values|largest=biggest|maximum=largest|minimum=smallest
    |remove=delete|check=verify|whether=if|sum=total|elements=items|element=item|sort=order|sorted=ordered|count=tally
    |convert=transform|compute=work out|calculate=compute|create=produce|first=initial|last=final|same=identical
    |different=distinct|using=with|words=terms|word=term|characters=letters|character=letter|length=size|between=among
    |two=a pair of|all=every|every=each|occurrences=appearances|integer=whole number|integers=whole numbers|append=add
    |reverse=flip|duplicate=repeated|common=shared|contains=has|input=argument|print=show|multiply=take the product of
    |divide=split|difference=gap|greater=larger|less=smaller|equal=the same as|position=index|index=position|array=list
    |function=routine|sequence=series|replace=substitute|result=outcome|example=instance|empty=blank|positive=above zero
    |consecutive=successive|even=divisible by two|task=job|separate=apart|group=bunch|determine=decide|area=surface
    |extract=pull out|tuple=record|tuples=records|dictionary=mapping|pairs=couples|pair=couple|match=fit""".replace(
        "\n", ""
    ).split("|")
    for line in [line.strip()]
)
KINDS = (
    "renamed",
    "paraphrased",
    "both",
    "both, half the tests",
    "both, without tests",
    "both, without the reference",
    "paraphrased prompt alone",
    "both, another solution",
)


@dataclass(frozen=True, slots=True)
class Plant:
    kind: str
    of: str
    problem: Problem


def main(rows: int) -> int:
    benchmark = [*_mapped("humaneval/HumanEval.jsonl.gz"), *_mapped("mbpp/mbpp.jsonl")]
    known = Known(sketch(benchmark))
    rng = random.Random(SEED)
    plants = list(_plants(benchmark, rng))
    others = list(islice(_others(), OTHERS))
    found = _is_good(known, plants, others)
    return 0 if found & _is_fast(known, others, rows) else 1


def _is_good(known: Known, plants: Sequence[Plant], others: Sequence[Problem]) -> bool:
    hits: dict[int, set[str]] = defaultdict(set)
    for match in known.matches(sketch(plant.problem for plant in plants)):
        hits[match.row].add(known.sketches.ids[match.other])
    kinds: dict[str, list[bool]] = defaultdict(list)
    for row, plant in enumerate(plants):
        kinds[plant.kind].append(plant.of in hits[row])
    for kind, ones in kinds.items():
        print(f"{kind:>30}: {sum(ones)} of {len(ones)} found")
    share = sum(map(sum, kinds.values())) / len(plants)
    false = {match.row: match for match in known.matches(sketch(others))}
    for row, match in list(false.items())[:20]:
        print(f"  {others[row].id} like {known.sketches.ids[match.other]}: {match}")
    of_found = len(false) / (share * len(plants) + len(false))
    print(f"found {share:.1%} of {len(plants)} (at least {LEAST_FOUND:.0%}); of {len(others):,} others {len(false)}")
    print(f"false: {len(false) / len(others):.2%} of the others (at most {MOST_FALSE:.0%}), {of_found:.1%} of all told")
    return share >= LEAST_FOUND and len(false) / len(others) <= MOST_FALSE


def _is_fast(known: Known, others: Sequence[Problem], rows: int) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "rows.parquet")
        tables.write(_many(others, rows), file)
        # A process of its own: this one holds what it made the rows of.
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as fresh:
            seconds, gib = fresh.submit(_searched, file, rows, known.sketches).result()
    return seconds * 1_000_000 / rows <= SECONDS_OF_A_MILLION and gib <= MOST_GIB


def _searched(file: Path, rows: int, known: Sketches) -> tuple[float, float]:
    """Seconds, and GiB of both processes."""
    start = time.monotonic()
    with ProcessPoolExecutor(1) as helper:
        sketches = sketch(tables.checked(file, "rows"), helper)
    sketched = time.monotonic() - start
    against = sum(1 for _ in Known(known).matches(sketches))
    looked_up = time.monotonic() - start - sketched
    within = sum(1 for _ in duplicates(sketches))
    seconds = time.monotonic() - start
    kib = sum(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    print(
        f"{rows:,} rows: {seconds:.0f} s ({sketched:.0f} s to read and sketch, {looked_up:.0f} s against the "
        f"benchmarks, {seconds - sketched - looked_up:.0f} s within), {kib / 2**20:.2f} GiB; "
        f"{against:,} and {within:,} matches",
        flush=True,
    )
    return seconds, kib / 2**20


def _many(others: Sequence[Problem], rows: int) -> Iterator[Problem]:
    """The others again and again, each time with another third of their prompts' words."""
    rng = random.Random(SEED)
    words = sorted({word for problem in others[:5_000] for word in problem.prompt.split()})
    for row in range(rows):
        problem = others[row % len(others)]
        prompt = " ".join(rng.choice(words) if rng.random() < 1 / 3 else word for word in problem.prompt.split())
        yield replace(problem, id=str(row), prompt=prompt)


def _plants(benchmark: Sequence[Problem], rng: random.Random) -> Iterator[Plant]:
    solved = {row["task_id"]: row["completion"] for row in _rows(SOLUTIONS) if str(row["passed"]) == "True"}
    for number in range(PLANTS):
        kind = KINDS[number % len(KINDS)]
        problem = rng.choice([it for it in benchmark if it.id in solved] if "solution" in kind else benchmark)
        prompt, tests = problem.prompt, [test.code for test in problem.tests if isinstance(test, CheckTest)]
        whole = next(text for text in (problem.references[0], prompt + problem.references[0]) if _is_python(text))
        names = _names(whole, rng)
        reference = prompt + solved[problem.id] if "solution" in kind else whole
        if kind == "renamed" or kind.startswith("both"):
            prompt, reference, *tests = (_renamed(text, names) for text in (prompt, reference, *tests))
        if kind != "renamed":
            prompt = _paraphrased(prompt, rng)
        if "half" in kind:
            tests = tests[::2] if len(tests) > 1 else [_half(tests[0])]
        if "without tests" in kind:
            tests = []
        if "without the reference" in kind:
            reference = ""
        if "alone" in kind:
            reference, tests = "def f():\n    return None\n", []
        yield Plant(kind, problem.id, _problem(f"plant/{number}", prompt, reference, tests))


SOLUTIONS = "samples/humaneval-cursor/gpt_3_5-azure.jsonl_results.jsonl.gz"


def _names(source: str, rng: random.Random) -> dict[str, str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.arg(arg=name):
                names.add(name)
            case ast.Name(id=name, ctx=ast.Store()):
                names.add(name)
    kept = sorted(name for name in names if name != "self" and not hasattr(builtins, name))
    return {name: f"{rng.choice(NAMES)}{number}" for number, name in enumerate(kept)}


def _renamed(text: str, names: dict[str, str]) -> str:
    return re.sub(r"\b[A-Za-z_]\w*\b", lambda found: names.get(found[0], found[0]), text)


def _paraphrased(text: str, rng: random.Random) -> str:
    sentences = re.split(r"(?<=[.!?])\s+|\n\n+", text)
    rng.shuffle(sentences)
    told: list[str] = []
    for sentence in sentences:
        words = [SYNONYMS.get(word.casefold(), word) if rng.random() < 0.7 else word for word in sentence.split()]
        for _ in range(len(words) // 8 + 1):
            if len(words) > 3:
                place = rng.randrange(len(words) - 1)
                words[place], words[place + 1] = words[place + 1], words[place]
        told.append(" ".join(words))
    return " ".join(told)


def _half(code: str) -> str:
    lines = code.splitlines()
    asserts = [line for line in lines if "assert" in line]
    return "\n".join(line for line in lines if line not in asserts[1::2])


def _others() -> Iterator[Problem]:
    for row in _rows("bigcodebench/BigCodeBench-v0.1.0_hf.jsonl.gz"):
        reference = row["code_prompt"] + row["canonical_solution"]
        yield _problem(row["task_id"], row["instruct_prompt"], reference, [row["test"]])
    for place, row in enumerate(_rows("apps/APPS_selected150.jsonl")):
        yield _problem(f"apps/{place}", row["description"], "", [f"assert {row['test_list']}"])
    for row in _rows("classeval/ClassEval.jsonl.gz"):
        yield _problem(row["task_id"], row["skeleton"], row["solution_code"], [row["test"]])
    yield from _mapped("leetcode/LeetCodeDataset-v0.2.0-test.jsonl.gz")
    yield from _mapped("codecontests/codecontests_py_300.jsonl.gz")
    for name in ("composed/train", "composed/validation", "composed/test", "basics"):
        yield from load(name)
    yield from _functions()


def _functions() -> Iterator[Problem]:
    """Functions with a docstring: 12 of a file at most."""
    told: set[str] = set()
    for file in sorted(Path(sysconfig.get_paths()["purelib"]).rglob("*.py")):
        source = file.read_text(errors="replace")
        if "/tests/" in str(file) or not _is_python(source):
            continue
        nodes = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef))
        for node in islice((it for it in nodes if 30 < len(ast.get_docstring(it) or "") < 1_500), 12):
            text, code = ast.get_docstring(node) or "", ast.get_source_segment(source, node) or ""
            if text not in told and len(code) < 5_000 and _is_python(code):
                told.add(text)
                yield _problem(f"{file.name}:{node.name}:{len(told)}", text, code, [])


def _is_python(text: str) -> bool:
    try:
        ast.parse(text)
    except (SyntaxError, ValueError):
        return False
    return True


def _problem(id: str, prompt: str, reference: str, tests: Sequence[str]) -> Problem:
    return Problem(id, prompt, tuple(map(CheckTest, tests)), references=(reference,) if reference else ())


def _mapped(name: str) -> list[Problem]:
    rows = list(islice(mapping.rows(DATA / name), 1))
    return list(mapping.problems(DATA / name, mapping.columns(list(rows[0][1]), {})))


def _rows(name: str) -> list[dict[str, Any]]:
    path = DATA / name
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
        return [json.loads(line) for line in file]


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000))
