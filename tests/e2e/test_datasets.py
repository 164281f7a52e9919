"""A data set from a user's files to a run and an evaluation."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from ratchet.common.v1 import model_pb2, problem_pb2
from ratchet.eval.v1 import eval_pb2
from ratchet.trainer.v1 import trainer_pb2
from ratchet_client import Client
from ratchet_client.errors import ApiError
from ratchet_local.services import environments_folder
from ratchet_problems import Problem, load

from .conftest import Platform

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]


BASH = {
    "question": "Read two numbers and print their sum, in bash.",
    "tests": json.dumps([{"stdin": "1 2\n", "expected_stdout": "3"}]),
    "language": "sh",
    "solution": "read a b\necho $((a + b))\n",
}


WEAK = {
    "question": "Write clamp(x, most), which keeps x between 0 and most.",
    "tests": json.dumps([{"args": [1, 5], "expected": 1}, {"args": [-7, 5], "expected": 0}]),
    "fn_name": "clamp",
    "solution": "def clamp(x, most):\n    if x > most:\n        return most\n    return max(x, 0)\n",
}


def written(folder: Path, split: str, name: str, size: int) -> str:
    """In the form of another project: its columns have other names, and tests are a text."""
    lines = [
        {
            "question": one.prompt,
            "tests": json.dumps([test.to_json() for test in one.tests]),
            "fn_name": one.entry_point,
        }
        for one in load(name, limit=size)
    ]
    text = "".join(json.dumps(line) + "\n" for line in [*lines, BASH, WEAK])
    (folder / f"{split}.jsonl").write_text(text)
    return str(folder / f"{split}.jsonl")


def test_a_users_files_are_trained_and_measured_on_by_name(platform: Platform, client: Client, tmp_path: Path) -> None:
    files = [
        written(tmp_path, "train", "composed/train", 32),
        written(tmp_path, "validation", "composed/validation", 6),
    ]
    added = platform.ratchet("data", "add", *files, "--name", "mine", "--licence", "MIT", "--json")
    assert added.returncode == 0, added.stderr
    dataset = json.loads(added.stdout)
    assert (dataset["name"], dataset["number"], dataset["card"]["licence"]) == ("mine", 1, "MIT")
    assert {split["name"]: split["rows"] for split in dataset["splits"]} == {"train": 34, "validation": 8}
    assert json.loads(platform.ratchet("data", "add", *files, "--name", "mine", "--json").stdout)["number"] == 1

    measured = platform.ratchet("evaluate", "--model", "starter", "--benchmark", "mine/validation", "--json")
    assert measured.returncode == 0, measured.stderr
    problems = json.loads(measured.stdout)["spec"]["problems"]
    digests = {split["name"]: split["digest"] for split in dataset["splits"]}
    assert (problems["name"], problems["digest"]) == ("mine@1/validation", digests["validation"])

    samples = client.evaluations.samples(json.loads(measured.stdout)["id"])
    assert {one.tests_total for one in samples if one.problem_id == "validation/7"} == {1}  # in bash

    shown = ("--benchmark", "mine/validation", "--limit", "2", "--examples", "mine@1/train=1", "--json")
    few = json.loads(platform.ratchet("evaluate", "--model", "starter", *shown).stdout)
    assert (few["spec"]["examples"]["name"], few["state"]) == ("mine@1/train", "STATE_SUCCEEDED")
    too_many = platform.ratchet("evaluate", "--model", "starter", *shown[:-2], "mine@1/train=3")
    assert "mine@1/train has 2 solved problems" in too_many.stderr

    small = trainer_pb2.Hyperparameters(batch_size=8, group_size=4, max_prompt_tokens=192, max_response_tokens=32)
    spec = trainer_pb2.RunSpec(
        base=model_pb2.ModelRef(alias=model_pb2.AliasRef(model="starter", alias="champion")),
        problems=problem_pb2.ProblemSetRef(name="mine/train"),
        examples=problem_pb2.ProblemSetRef(name="mine/train", limit=1),
        algorithm=trainer_pb2.ALGORITHM_GRPO,
        hyperparameters=small,
        steps=1,
        output_model="of-mine",
    )
    run = client.runs.wait(client.runs.create(spec).id)
    assert run.state == trainer_pb2.Run.STATE_SUCCEEDED, run.failure.message
    assert (run.spec.problems.name, run.spec.problems.digest) == ("mine@1/train", digests["train"])
    assert run.spec.validation_problems.name == "mine@1/validation"
    learned = list(client.runs.samples(run.id))
    assert len(learned) == 8 * 4
    for sample in learned:
        example = WEAK if sample.problem_id == "train/33" else BASH  # the first that is not the problem itself
        assert sample.prompt.startswith(f"<|user|>{example['question']}<|assistant|>{example['solution'].rstrip()}")
    divided = platform.ratchet("data", "split", "mine@1/train", "--into", "held-out=0.25", "--json")
    assert divided.returncode == 0, divided.stderr
    second = json.loads(divided.stdout)
    sizes = {split["name"]: split["rows"] for split in second["splits"]}
    assert (second["number"], second["card"]["made_of"], sum(sizes.values())) == (2, "mine@1", 42)
    changes = json.loads(platform.ratchet("data", "diff", "mine@1", "mine@2", "--json").stdout)
    assert sorted(changes["train"]["removed"]) == sorted(changes["held-out"]["added"])
    assert changes["validation"] == {"added": [], "removed": [], "changed": {}, "same": 8}

    audited = platform.ratchet("data", "audit", "mine@1/validation", "--json")
    assert audited.returncode == 0, audited.stderr
    weaknesses = {one["id"]: one["weakness"] for one in json.loads(audited.stdout)["problems"]}
    assert len(weaknesses) == 8
    assert weaknesses["validation/8"] > 0
    added = platform.ratchet("data", "strengthen", "mine@1/validation", "--json")
    assert added.returncode == 0, added.stderr
    stronger = json.loads(added.stdout)
    assert (stronger["name"], stronger["version"]) == ("mine@1/validation", "mine@3")
    assert stronger["killed"] < stronger["killed_now"] <= stronger["mutants"]
    changes = json.loads(platform.ratchet("data", "diff", "mine@1/validation", "mine@3", "--json").stdout)
    assert changes["validation"]["changed"]["validation/8"] == ["tests"]
    assert client.datasets.get("mine", 3).card.made_of == "mine@1"
    varied = platform.ratchet("data", "augment", "mine@1/validation", "--variants", "1", "--json")
    assert varied.returncode == 0, varied.stderr
    more = json.loads(varied.stdout)
    assert (more["version"], more["left_out"]) == ("mine@4", 0)
    assert 1 <= more["added"] <= 8
    grown = platform.ratchet("data", "grow", "mine@1/validation", "--by", "starter", "--to", "9")
    assert (grown.returncode, "maximum context length" in grown.stderr) == (3, True), grown.stderr
    refused = platform.ratchet("data", "strengthen", "mine")  # two splits: none is named
    assert (refused.returncode, "name one, such as mine@4/train" in refused.stderr) == (1, True), refused.stderr

    bad = {**WEAK, "id": "bad", "solution": "def clamp(x, most):\n    return -1\n"}
    (tmp_path / "clamps.jsonl").write_text("".join(json.dumps(line) + "\n" for line in ({**WEAK, "id": "good"}, bad)))
    assert platform.ratchet("data", "add", str(tmp_path / "clamps.jsonl")).returncode == 0
    assert platform.ratchet("benchmarks", "verify", "clamps").returncode == 1
    kept = ("--kind", "unsound", "--refuse", "It is wrong.", "--json")
    assert json.loads(platform.ratchet("data", "findings", "clamps", *kept).stdout) == {
        "findings": 1,
        "version": "clamps@2",
    }

    found = json.loads(platform.ratchet("data", "findings", "mine@1/validation", "--of", "train", "--json").stdout)
    assert {one["problem"] for one in found} >= {"validation/7", "validation/8"}
    refuse = ("--kind", "near-duplicate", "--of", "train", "--refuse", "They are learned from.", "--json")
    refused = platform.ratchet("data", "findings", "mine@1/validation", *refuse)
    assert refused.returncode == 0, refused.stderr
    assert json.loads(refused.stdout) == {"findings": len(found), "version": "mine@5"}
    changes = json.loads(platform.ratchet("data", "diff", "mine@1/validation", "mine@5", "--json").stdout)
    assert set(changes["validation"]["removed"]) == {one["problem"] for one in found}

    with pytest.raises(ApiError, match=r"mine@1 cannot be deleted: it was used 3 times"):
        client.datasets.delete("mine", 1)


def summed(folder: Path, split: str, sums: Sequence[tuple[int, int]]) -> str:
    """In GSM8K's form: the answer stands at the end of its solution."""
    rows = [
        {"question": f"How much is {a} + {b}?", "answer": f"{a} + {b} = <<{a}+{b}={a + b}>>{a + b}\n#### {a + b}"}
        for a, b in sums
    ]
    (folder / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(folder / f"{split}.jsonl")


def test_a_math_set_is_trained_on_measured_and_gated(platform: Platform, client: Client, tmp_path: Path) -> None:
    if not (environments_folder() / "sandbox-math").is_dir():
        pytest.skip("the runtime math isn't built here: scripts/setup.sh sandbox-math")
    sums = [(a, b) for a in range(12) for b in range(a, 12)]  # 2 + 5 is 5 + 2, and the gate says so
    files = [summed(tmp_path, "train", sums[40:]), summed(tmp_path, "test", sums[:40])]
    added = platform.ratchet("data", "add", *files, "--name", "sums")
    assert added.returncode == 0, added.stderr
    assert "prompt <- question, answer" in added.stderr

    settings = ("--set", "output_model=starter", "--set", "max_prompt_tokens=64", "--set", "max_response_tokens=32")
    small = ("--algorithm", "grpo", "--steps", "2", "--set", "batch_size=4", "--set", "group_size=4")
    trained = platform.ratchet("train", "--model", "starter", "--problems", "sums/train", *settings, *small)
    assert trained.returncode == 0, trained.stderr
    version, *_ = client.models.versions("starter")
    steps = list(client.runs.steps(version.lineage.run_id))
    assert len(steps) == 2
    assert all("verdict_passed" in step.metrics and "verdict_untested" not in step.metrics for step in steps)

    measured = ("--benchmark", "sums/test", "--samples", "1", "--max-tokens", "32", "--temperature", "0")
    gated = platform.ratchet("gate", "--model", f"starter@{version.ref.number}", *measured)
    gate = next((one for one in client.models.gates("starter") if one.candidate.number == version.ref.number), None)
    assert gate is not None, gated.stdout + gated.stderr
    assert gate.HasField("comparison"), gate  # it decided, whichever way
    under = client.evaluations.get(gate.candidate_evaluation_id)
    (score,) = under.pass_at_k
    assert (under.spec.problems.name, under.problems_done, list(under.notices)) == ("sums@1/test", 40, [])
    assert 0 <= score.estimate.low <= score.estimate.value < score.estimate.high <= 1
    assert {sample.failure for sample in client.evaluations.samples(under.id)} <= {
        eval_pb2.FAILURE_CLASS_UNSPECIFIED,
        eval_pb2.FAILURE_CLASS_WRONG,
    }


def doubled(language: str, place: int) -> dict[str, str]:
    """In MultiPL-E's form, with a reference."""
    if language == "go":
        prompt = (
            f'package f{place}_test\n\nimport (\n    "testing"\n)\n\n// {place} times x.\nfunc f{place}(x int) int {{\n'
        )
        tests = f'func TestF(t *testing.T) {{\n  if f{place}(2) != {2 * place} {{\n    t.Errorf("no")\n  }}\n}}\n'
        body = f"    return {place} * x\n}}\n"
    else:
        prompt = f"// {place} times x.\nfunction f{place}(x){{\n"
        tests = f"const assert = require('node:assert');\nassert.deepEqual(f{place}(2), {2 * place});\n"
        body = f"    return {place} * x\n}}\n"
    name = "go_test.go" if language == "go" else "js"
    row = {"name": f"f{place}", "language": name, "prompt": prompt, "tests": tests, "solution": prompt + body}
    return row | {"structure": f"f{place}"}  # no near-duplicates, which a gate refuses


@pytest.mark.full
def test_a_set_in_another_language_is_trained_on_measured_and_gated(
    platform: Platform, client: Client, tmp_path: Path
) -> None:
    language = "go" if shutil.which("go") else "javascript"
    for split, places in (("train", range(1, 9)), ("test", range(20, 44))):
        rows = "".join(json.dumps(doubled(language, place)) + "\n" for place in places)
        (tmp_path / f"{split}.jsonl").write_text(rows)
    files = [str(tmp_path / f"{split}.jsonl") for split in ("train", "test")]
    added = platform.ratchet("data", "add", *files, "--name", "functions")
    assert added.returncode == 0, added.stderr
    verified = platform.ratchet("benchmarks", "verify", "functions/test")
    assert verified.returncode == 0, verified.stdout + verified.stderr

    small = trainer_pb2.Hyperparameters(batch_size=4, group_size=4, max_prompt_tokens=96, max_response_tokens=32)
    spec = trainer_pb2.RunSpec(
        base=model_pb2.ModelRef(alias=model_pb2.AliasRef(model="starter", alias="champion")),
        problems=problem_pb2.ProblemSetRef(name="functions/train"),
        algorithm=trainer_pb2.ALGORITHM_GRPO,
        hyperparameters=small,
        steps=2,
        output_model="starter",
    )
    with pytest.raises(ApiError, match="forgeable_rewards"):
        client.runs.create(spec)
    spec.forgeable_rewards = True
    run = client.runs.wait(client.runs.create(spec).id)
    assert run.state == trainer_pb2.Run.STATE_SUCCEEDED, run.failure.message
    steps = list(client.runs.steps(run.id))
    assert len(steps) == 2
    assert all("verdict_untested" not in step.metrics for step in steps)

    version, *_ = client.models.versions("starter")
    measured = ("--benchmark", "functions/test", "--samples", "1", "--max-tokens", "32", "--temperature", "0")
    gated = platform.ratchet("gate", "--model", f"starter@{version.ref.number}", *measured)
    gate = next((one for one in client.models.gates("starter") if one.candidate.number == version.ref.number), None)
    assert gate is not None, gated.stdout + gated.stderr
    assert gate.HasField("comparison"), gate
    under = client.evaluations.get(gate.candidate_evaluation_id)
    assert (under.spec.problems.name, under.problems_done) == ("functions@1/test", 24)
    samples = list(client.evaluations.samples(under.id))
    assert {sample.tests_total for sample in samples} == {1}


def plain(folder: Path, name: str, split: str, *problems: Problem) -> str:
    (folder / name).mkdir()
    (folder / name / f"{split}.jsonl").write_text("".join(f"{json.dumps(one.to_json())}\n" for one in problems))
    return str(folder / name)


@pytest.mark.full
def test_a_set_that_grows_is_drawn_from_as_a_run_goes_and_a_resume_repeats_it(
    platform: Platform, client: Client, tmp_path: Path
) -> None:
    problems = load("composed/train", limit=30)
    first, more, most = [
        plain(tmp_path, f"v{number}", "train", *problems[:size]) for number, size in enumerate((8, 16, 24), start=1)
    ]

    def add(path: str) -> None:
        added = platform.ratchet("data", "add", path, "--name", "growing")
        assert added.returncode == 0, added.stderr

    def steps(id: str) -> dict[int, str]:
        return {step.number: step.policy_id for step in client.runs.steps(id)}

    add(first)
    spec = trainer_pb2.RunSpec(
        base=model_pb2.ModelRef(alias=model_pb2.AliasRef(model="starter", alias="champion")),
        problems=problem_pb2.ProblemSetRef(name="growing/train"),
        follow_problems=True,
        algorithm=trainer_pb2.ALGORITHM_GRPO,
        hyperparameters=trainer_pb2.Hyperparameters(
            batch_size=8, group_size=4, max_prompt_tokens=192, max_response_tokens=32
        ),
        steps=400,
        output_model="of-growing",
    )
    run = client.runs.create(spec)
    before: trainer_pb2.Run | None = None
    for now in client.runs.watch(run.id):
        run = now.run
        assert run.state != trainer_pb2.Run.STATE_FAILED, run.failure.message
        if run.step >= 2 and before is None:
            before = run
            add(more)
        if run.drawn and run.step > run.drawn[0].step:
            break
    client.runs.cancel(run.id)
    run = client.runs.get(run.id)
    assert [one.problems.name for one in run.drawn] == ["growing@2/train"]
    done = steps(run.id)
    add(most)
    client.runs.resume(run.id)  # without a checkpoint: all of it is done again
    for now in client.runs.watch(run.id):
        run = now.run
        assert run.state != trainer_pb2.Run.STATE_FAILED, run.failure.message
        if len(run.drawn) > 1 and run.step > run.drawn[1].step:
            break
    again = steps(run.id)
    client.runs.cancel(run.id)
    assert {number: again[number] for number in done} == done
    assert [one.problems.name for one in run.drawn] == ["growing@2/train", "growing@3/train"]
    assert run.drawn[1].step > max(done)
    said = [notice.message for notice in run.notices]
    assert f"growing@3/train is drawn from, from step {run.drawn[1].step} on" in said
