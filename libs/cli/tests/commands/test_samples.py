"""`ratchet evaluate` with a file of samples, and `ratchet samples`, against an HTTP server in the gateway's place."""

import json
from pathlib import Path
from typing import Any

import pytest

import ratchet_benchmarks
from ratchet_cli.commands.importing import has_plus_tests
from ratchet_problems import jsonl, pairs
from ratchet_testing.gateway import ScriptedGateway
from ratchet_workflows.notation.suites import sets_of

SAMPLES = [
    {"problem_id": "p/0", "completion": "a", "verdict": "VERDICT_PASSED", "benchmark": "humaneval", "tokens": 7},
    {
        "problem_id": "p/0",
        "index": 1,
        "completion": "b",
        "verdict": "VERDICT_FAILED",
        "failure": "FAILURE_CLASS_WRONG",
        "benchmark": "humaneval",
    },
]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    rows = [
        {"task_id": "p/0", "completion": "a", "passed": True},
        {"task_id": "p/0", "completion": "b", "passed": True},
        {"task_id": "p/1", "solution": "c"},
    ]
    path = tmp_path / "samples.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def evaluation(state: str, **fields: Any) -> dict[str, Any]:
    return {"evaluation": {"id": "eval_1", "state": f"STATE_{state}", **fields}}


@pytest.mark.usefixtures("address")
def test_a_file_is_judged_and_compared_with_what_it_says(ratchet: Any, gateway: ScriptedGateway, file: Path) -> None:
    score = {
        "problems": {"name": "humaneval"},
        "pass_at_k": [{"k": 1, "estimate": {"value": 0.5, "low": 0.25, "high": 0.75}}],
        "failures": {"WRONG": 2},
        "exclusions": [
            {"problem_id": "p/7", "reason": "its reference does not pass"},
            *({"problem_id": f"p/{number}", "reason": "no sample of it was added"} for number in range(8, 30)),
        ],
    }
    ended = evaluation("SUCCEEDED", problems_done=2, verdicts={"PASSED": 1}, benchmarks=[score])
    gateway.answers(evaluation("QUEUED"), evaluation("QUEUED"))
    gateway.streams(("message", evaluation("RUNNING")), ("message", ended))
    gateway.answers({"samples": SAMPLES})
    result = ratchet("evaluate", "--samples", str(file), "--benchmark", "humaneval", "--k", "1", "--k", "2")
    assert result.returncode == 0, result.stderr
    created, added = gateway.received[0].body, gateway.received[1]
    assert created is not None
    spec = created["spec"]
    assert (spec["imported_samples"], spec["samples_per_problem"], spec["k"]) == ("3", 2, [1, 2])
    assert "model" not in spec
    assert added.path == "/api/v1/evaluations/eval_1/samples"
    assert added.body == {
        "samples": [
            {"problem_id": "p/0", "completion": "a"},
            {"problem_id": "p/0", "index": 1, "completion": "b"},
            {"problem_id": "p/1", "solution": "c"},
        ]
    }
    assert "humaneval  pass@1  0.500  0.250 to 0.750" in result.stdout
    assert "humaneval: wrong 2" in result.stdout
    assert "humaneval: p/7 is left out: its reference does not pass" in result.stdout
    assert "humaneval: p/8, p/9, p/10, " in result.stdout
    assert ", p/27 and 2 more are left out: no sample of it was added" in result.stdout
    assert result.stdout.splitlines()[-2:] == [
        "1 of 2 verdicts are those of the file",
        "  p/0, sample 1: the file says passed",
    ]


@pytest.mark.usefixtures("address")
@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--samples", "4"], "Give either --model or a file"),
        (["--samples", "FILE", "--model", "starter"], "not both"),
        (["--samples", "nowhere.jsonl"], "nowhere.jsonl cannot be read"),
        (["--model", "starter", "--form", "poem"], "--form poem: choose one of chat, completion"),
    ],
)
def test_wrong_usage_is_said_in_a_sentence(ratchet: Any, file: Path, arguments: list[str], reason: str) -> None:
    result = ratchet("evaluate", *(str(file) if each == "FILE" else each for each in arguments))
    assert (result.returncode, reason in result.stderr) == (2, True), result.stderr


def test_a_files_verdicts_are_those_of_the_tests_that_were_run() -> None:
    names = ["humaneval+", "mbpp+@v0.1.0", "mbpp+/base", "mbpp+@v0.1.0/base", "humaneval", "bigcodebench"]
    assert [name for name in names if has_plus_tests(name)] == ["humaneval+", "mbpp+@v0.1.0"]


def test_one_set_or_several_with_weights() -> None:
    assert sets_of(["humaneval+"], 5)["problems"].name == "humaneval+"
    assert sets_of(["humaneval+"], 5)["problems"].limit == 5
    suite = sets_of(["humaneval=0.4", "mbpp", "/data/a=b.jsonl"])["suite"]
    assert [(one.problems.name, one.HasField("weight")) for one in suite] == [
        ("humaneval", True),
        ("mbpp", False),
        ("/data/a=b.jsonl", False),
    ]
    assert suite[0].weight == 0.4


@pytest.mark.usefixtures("address")
def test_samples_are_listed_and_downloaded(ratchet: Any, gateway: ScriptedGateway, tmp_path: Path) -> None:
    gateway.answers({"samples": SAMPLES}, {"samples": SAMPLES}, {"samples": SAMPLES})
    result = ratchet("samples", "list", "eval_1", "--verdict", "failed", "--benchmark", "humaneval")
    assert result.returncode == 0, result.stderr
    assert gateway.received[0].query == {
        "benchmark": "humaneval",
        "verdict": "VERDICT_FAILED",
        "page_size": "200",
    }
    assert result.stdout.splitlines()[2].split()[:5] == ["humaneval", "p/0", "1", "FAILED", "wrong"]
    out = tmp_path / "out.jsonl"
    assert ratchet("samples", "download", "eval_1", str(out)).stdout == f"2 samples are in {out}\n"
    assert [json.loads(line)["passed"] for line in out.read_text().splitlines()] == [True, False]
    ratchet("samples", "download", "eval_1", str(out), "--all-fields")
    assert json.loads(out.read_text().splitlines()[0])["tokens"] == 7
    assert ratchet("samples", "list", "eval_1", "--verdict", "lost").returncode == 2


OF_TRAINING = {
    "id": "40-3-1",
    "step": 40,
    "problem_id": "p7",
    "prompt": "<|user|>Write f.",
    "completion": "def f(x):\n    return 3",
    "verdict": "VERDICT_FAILED",
    "tests_passed": 1,
    "tests_total": 4,
    "failed_tests": [{"test": "f(2)", "got": "3", "expected": "4"}, {"test": "f(0)", "error": "ValueError"}],
    "held_out_failed": 1,
    "reward": 0.25,
    "components": {"tests_fraction": 0.25, "brevity@2": 0.9},
    "advantage": -0.5,
    "stderr": "warned",
}


@pytest.mark.usefixtures("address")
def test_the_worst_answers_of_a_step_of_training_are_listed_with_why(ratchet: Any, gateway: ScriptedGateway) -> None:
    gateway.answers({"samples": [OF_TRAINING]}, {"sample": OF_TRAINING})
    result = ratchet("samples", "list", "run_1", "--step", "40", "--verdict", "FAILED", "--below", "0.5")
    assert result.returncode == 0, result.stderr
    assert gateway.received[0].path == "/api/v1/runs/run_1/samples"
    assert gateway.received[0].query == {
        "step": "40",
        "verdict": "VERDICT_FAILED",
        "below": "0.5",
        "page_size": "200",
    }
    line = " ".join(result.stdout.splitlines()[1].split())
    assert line == (
        "40-3-1 p7 FAILED 0.250 brevity@2 0.9, tests_fraction 0.25 1 of 4 f(2): 3, not 4; 1 held-out test failed"
    )
    shown = ratchet("samples", "show", "run_1", "40-3-1").stdout
    assert gateway.received[1].path == "/api/v1/runs/run_1/samples/40-3-1"
    for said in ("f(0): ValueError", "-0.5", "<|user|>Write f.", "    return 3", "warned", "1 tests failed"):
        assert said in shown


@pytest.mark.usefixtures("address")
def test_a_sample_of_an_evaluation_is_shown_whole(ratchet: Any, gateway: ScriptedGateway) -> None:
    wrong = SAMPLES[1] | {"failed_tests": [{"test": "f(2)", "got": "3", "expected": "4"}], "tests_total": 4}
    gateway.answers({"samples": [SAMPLES[0], wrong]}, {"prompt": "Write f."}, {"samples": [SAMPLES[0]]})
    lines = ratchet("samples", "show", "eval_1", "p/0:1").stdout.splitlines()
    assert [request.path.partition("eval_1/")[2] for request in gateway.received] == ["samples", "problem"]
    assert "verdict  FAILED, 0 of 4 tests" in lines
    assert "failure  wrong" in lines
    assert "failed   f(2): 3, not 4" in lines
    assert lines[-4:] == ["== Prompt", "Write f.", "== Completion", "b"]
    missing = ratchet("samples", "show", "eval_1", "p/0:1")
    assert (missing.returncode, "`ratchet samples list eval_1`" in missing.stderr) == (1, True)


@pytest.mark.usefixtures("address")
def test_a_reward_of_nothing_is_a_number_too(ratchet: Any, gateway: ScriptedGateway) -> None:
    gateway.answers({"samples": [OF_TRAINING | {"reward": 0.0, "tests_passed": 0}]})
    (row,) = json.loads(ratchet("samples", "list", "run_1", "--json").stdout)
    assert (row["reward"], row["tests_passed"], row["index"]) == (0.0, 0, 0)


@pytest.mark.usefixtures("address")
@pytest.mark.parametrize(
    "arguments", [["eval_1", "--step", "4"], ["eval_1", "--below", "0.5"], ["run_1", "--benchmark", "humaneval"]]
)
def test_what_the_other_kind_of_samples_has_is_refused(ratchet: Any, arguments: list[str]) -> None:
    result = ratchet("samples", "list", *arguments)
    assert result.returncode == 2
    assert "evaluation" in result.stderr


def of_known_problems() -> tuple[dict[str, Any], list[dict[str, Any]], str]:
    """An evaluation of two problems of composed/train, its samples, and the first problem's prompt."""
    loaded = ratchet_benchmarks.load("composed/train", 2)
    one, two = loaded.problems
    spec = {"problems": {"name": "composed/train", "limit": 2, "digest": loaded.digest}}
    texts = [(one.id, "good", "PASSED"), (one.id, "bad", "FAILED"), (two.id, "good", "PASSED")]
    samples = [
        {"problem_id": id, "completion": text, "verdict": f"VERDICT_{verdict}", "benchmark": "composed/train"}
        for id, text, verdict in texts
    ]
    return evaluation("SUCCEEDED", spec=spec), samples, one.prompt


@pytest.mark.usefixtures("address")
def test_pairs_are_made_of_samples(ratchet: Any, gateway: ScriptedGateway, tmp_path: Path) -> None:
    found, samples, prompt = of_known_problems()
    gateway.answers(found, {"samples": samples})
    out = tmp_path / "pairs.jsonl"
    result = ratchet("samples", "pairs", "eval_1", str(out))
    assert result.stdout == f"1 pairs are in {out}\n", result.stderr
    (pair,) = pairs.read(out)
    assert (pair.problem, pair.chosen, pair.rejected) == (prompt, "good", "bad")
    found["evaluation"]["spec"]["system"] = "Be brief."
    gateway.answers(found, {"samples": samples})
    assert ratchet("samples", "pairs", "eval_1", str(out)).returncode == 0
    (pair,) = pairs.read(out)
    assert [message.content for message in pair.messages] == ["Be brief.", prompt]
    assert (pair.chosen, pair.rejected) == ("good", "bad")


@pytest.mark.usefixtures("address")
def test_samples_that_make_no_pairs_are_refused(ratchet: Any, gateway: ScriptedGateway, tmp_path: Path) -> None:
    found, samples, _ = of_known_problems()
    gateway.answers(found, {"samples": samples[:1]})
    result = ratchet("samples", "pairs", "eval_1", str(tmp_path / "pairs.jsonl"))
    assert result.returncode == 1
    assert "No problem has both a sample that passes and one that fails" in " ".join(result.stderr.split())
    assert not (tmp_path / "pairs.jsonl").exists()
    found["evaluation"]["spec"]["problems"]["digest"] = "sha256:other"
    gateway.answers(found)
    result = ratchet("samples", "pairs", "eval_1", str(tmp_path / "pairs.jsonl"))
    assert "composed/train has changed since it was evaluated" in " ".join(result.stderr.split())


@pytest.mark.usefixtures("address")
def test_difficulty_is_measured_by_samples(ratchet: Any, gateway: ScriptedGateway, tmp_path: Path) -> None:
    found, samples, prompt = of_known_problems()
    gateway.answers(found, {"samples": samples})
    out = tmp_path / "measured.jsonl"
    result = ratchet("samples", "difficulty", "eval_1", str(out))
    assert result.stdout == f"2 problems are in {out}, by difficulty 1 of 1, 1 of 3\n", result.stderr
    easy, middling = jsonl.read(out)
    assert (middling.prompt, middling.difficulty, easy.difficulty) == (prompt, 3, 1)
    (tmp_path / "problems").mkdir()
    jsonl.write([easy, middling], tmp_path / "problems" / "mine.jsonl")  # below the platform's folder
    mine = ratchet_benchmarks.load(str(tmp_path / "problems" / "mine.jsonl"))
    found["evaluation"]["spec"]["problems"] = {"name": "problems/mine.jsonl", "digest": mine.digest}
    gateway.answers(found, {"samples": [sample | {"benchmark": "problems/mine.jsonl"} for sample in samples]})
    result = ratchet("samples", "difficulty", "eval_1", str(out))
    assert result.stdout.startswith(f"2 problems are in {out}"), result.stderr
    gateway.answers(found, {"samples": []})
    result = ratchet("samples", "difficulty", "eval_1", str(out))
    assert (result.returncode, "No sample of it has a verdict" in result.stderr) == (1, True)


@pytest.mark.usefixtures("address")
def test_a_refused_file_leaves_no_evaluation(ratchet: Any, gateway: ScriptedGateway, file: Path) -> None:
    gateway.answers(evaluation("QUEUED"))
    reason = "the samples cannot be judged: there is no problem 'p/1' of humaneval"
    gateway.answers({"error": {"code": "INVALID_ARGUMENT", "message": reason}}, status=400)
    gateway.answers(evaluation("CANCELLED"), {})
    result = ratchet("evaluate", "--samples", str(file), "--benchmark", "humaneval")
    assert (result.returncode, "there is no problem 'p/1'" in result.stderr) == (3, True), result.stderr
    assert [(one.verb, one.path.removeprefix("/api/v1/evaluations")) for one in gateway.received] == [
        ("POST", ""),
        ("POST", "/eval_1/samples"),
        ("POST", "/eval_1/cancel"),
        ("DELETE", "/eval_1"),
    ]


@pytest.mark.usefixtures("address")
def test_who_waits_is_told_for_what(ratchet: Any, gateway: ScriptedGateway) -> None:
    queued = evaluation("QUEUED", waits_for="a worker: busy with eval_0 of mbpp", notices=["it has decimals"])
    gateway.answers(queued)
    gateway.streams(("message", queued), ("message", evaluation("SUCCEEDED")))
    result = ratchet("evaluate", "--model", "starter")
    assert "evaluating starter: waits for a worker: busy with eval_0 of mbpp" in result.stderr
    assert "it has decimals." in result.stderr.splitlines()
    gateway.answers(queued)
    shown = ratchet("evaluations", "show", "eval_1").stdout
    assert shown.splitlines()[-2:] == ["it has decimals.", "It waits for a worker: busy with eval_0 of mbpp."]


@pytest.mark.usefixtures("address")
def test_one_that_failed_is_shown_with_its_reason(ratchet: Any, gateway: ScriptedGateway) -> None:
    gateway.answers(evaluation("FAILED", failure={"code": "DATA_LOSS", "message": "tensor w has a value that is NaN"}))
    assert "It ended FAILED: tensor w has a value that is NaN" in ratchet("evaluations", "show", "eval_1").stdout
