"""What others published is judged again through the public API: each sample gets the verdict that it had from them."""

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

import ratchet_benchmarks
from ratchet.common.v1 import verdict_pb2
from ratchet.eval.v1 import eval_pb2 as pb
from ratchet_benchmarks import fetching
from ratchet_client import sample_files

from .judging import Judges, judges

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1500)]

PUBLISHED = Path(__file__).parents[3] / "shared" / "data"
DATA = {
    "humaneval": "humaneval/HumanEval.jsonl.gz",
    "humaneval+": "evalplus/HumanEvalPlus.jsonl.gz",
    "mbpp+": "evalplus/MbppPlus-v0.1.0.jsonl.gz",
}
QWEN = "qwen2.5-coder/1.5b-base.evalplus"
SINCE_PUBLISHED = {"mbpp+@v0.1.0": ("Mbpp/2", "Mbpp/579")}
"""EvalPlus 0.3 compares their answers as sets: they pass, and failed in the older one that published them."""
full = partial(pytest.param, marks=pytest.mark.full)
"""EvalPlus' truth takes minutes to compute: `make e2e-full` has these."""


@pytest.fixture(scope="module")
def judging(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judges]:
    if not PUBLISHED.exists():
        pytest.skip(f"{PUBLISHED} isn't there: samples that others published lie beside the project, not in it")
    data, folder = tmp_path_factory.mktemp("data"), tmp_path_factory.mktemp("judges")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RATCHET_DATA", str(data))
        for name, file in DATA.items():
            fetching.take(ratchet_benchmarks.get(name), PUBLISHED / file)
    with judges(folder, data) as running:
        yield running


@pytest.mark.parametrize(
    ("file", "benchmark", "solved", "samples"),
    [
        ("humaneval-cursor/gpt_3_5-azure.jsonl_results.jsonl.gz", "humaneval", 122, 164),
        (f"{QWEN}-humaneval.eval_results.json.gz", "humaneval", 72, 164),
        full("humaneval-poe/codegemma_7b_results.jsonl.gz", "humaneval", 47, 164),
        full("humaneval-poe/codellama_7b_results.jsonl.gz", "humaneval", 47, 164),
        full(f"{QWEN}-humaneval.eval_results.json.gz", "humaneval+", 60, 164),
        full(f"{QWEN}-mbpp.eval_results.json.gz", "mbpp+@v0.1.0", 236, 399),
    ],
)
def test_each_published_sample_gets_its_official_verdict(
    judging: Judges, tmp_path: Path, file: str, benchmark: str, solved: int, samples: int
) -> None:
    path = PUBLISHED / "samples" / file
    done = judging.ratchet("evaluate", "--samples", str(path), "--benchmark", benchmark, "--json", timeout=1400)
    assert done.returncode == 0, done.stderr
    evaluation = json.loads(done.stdout)
    assert evaluation["pass_at_k"][0]["estimate"]["value"] == pytest.approx(solved / samples)
    assert evaluation["benchmarks"][0].get("exclusions", []) == []

    out = tmp_path / "judged.jsonl"
    judging.ratchet("samples", "download", evaluation["id"], str(out))
    found = {(one.problem_id, one.index): one.passed for one in sample_files.read(out)}
    plus = benchmark.partition("@")[0].endswith("+")
    official = {(one.problem_id, one.index): one.passed if plus else one.base_passed for one in sample_files.read(path)}
    official |= {(problem_id, 0): True for problem_id in SINCE_PUBLISHED.get(benchmark, ())}
    assert found == official


def test_samples_are_listed_by_what_was_found(judging: Judges, tmp_path: Path) -> None:
    path = tmp_path / "samples.jsonl"
    rows = [
        {"task_id": "HumanEval/0", "completion": "    return None\n"},
        {"task_id": "HumanEval/0", "completion": "    while True: pass\n"},
        {"task_id": "HumanEval/2", "solution": "def truncate_number(number):\n    return number % 1.0\n"},
        {"task_id": "HumanEval/2", "solution": ""},
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = judging.ratchet("evaluate", "--samples", str(path), "--benchmark", "humaneval", "--json")
    assert done.returncode == 0, done.stderr
    evaluation = json.loads(done.stdout)
    [score] = evaluation["benchmarks"]
    assert score["failures"] == {"WRONG": "1", "TIMEOUT": "1", "NO_CODE": "1"}
    assert (score["problems_total"], len(score["exclusions"])) == (2, 162), "the others have no sample"
    with judging.client() as client:
        [passed] = client.evaluations.samples(evaluation["id"], verdict=verdict_pb2.VERDICT_PASSED)
        assert (passed.problem_id, passed.index, passed.is_program) == ("HumanEval/2", 0, True)
        found = list(client.evaluations.samples(evaluation["id"], problem_id="HumanEval/0"))
        assert [one.failure for one in found] == [pb.FAILURE_CLASS_WRONG, pb.FAILURE_CLASS_TIMEOUT]


def test_samples_of_another_benchmark_are_refused(judging: Judges, tmp_path: Path) -> None:
    path = tmp_path / "samples.jsonl"
    path.write_text(json.dumps({"task_id": "Mbpp/2", "completion": "def f(): ..."}) + "\n")
    done = judging.ratchet("evaluate", "--samples", str(path), "--benchmark", "humaneval")
    assert done.returncode == 3
    assert "no problem 'Mbpp/2' of humaneval" in done.stderr
