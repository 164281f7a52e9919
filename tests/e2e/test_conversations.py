"""Conversations with a system prompt, from a user's file to a gate: what is trained is what is measured and served.

`make e2e-full`.
"""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from ratchet_client import ApiError, Client
from ratchet_problems import Problem, load

from .conftest import Platform

pytestmark = [pytest.mark.e2e, pytest.mark.full, pytest.mark.timeout(1500)]
STARTER = Path(__file__).parents[2] / "models" / "starter"
SYSTEM = "Answer with code."
JUDGE = """
import json, sys
print(json.dumps([float("def " in one["answer"]) for one in json.load(sys.stdin)["samples"]]))
"""
SAID = [{"role": "user", "content": "Hi."}, {"role": "assistant", "content": "What is solve?"}]


def written(folder: Path, split: str, problems: Sequence[Problem]) -> str:
    """In OpenAI's form, with the answer as the last message; half of them with something said before."""
    rows = []
    for place, one in enumerate(problems):
        asked, answer = {"role": "user", "content": one.prompt}, {"role": "assistant", "content": one.references[0]}
        tests = [test.to_json() for test in one.tests]
        messages = [*(SAID if place % 2 else ()), asked, answer]
        rows.append(
            {
                "id": one.id,
                "messages": messages,
                "tests": tests,
                "entry_point": one.entry_point,
                "structure": one.structure,
            }
        )
    file = folder / f"{split}.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(file)


def test_conversations_are_trained_on_measured_and_gated(platform: Platform, client: Client, tmp_path: Path) -> None:
    files = [
        written(tmp_path, "train", load("composed/train", limit=400)),
        written(tmp_path, "validation", load("composed/validation", limit=8)),
        written(tmp_path, "test", load("composed/test", limit=60)),
    ]
    added = platform.ratchet("data", "add", *files, "--name", "chats")
    assert added.returncode == 0, added.stderr

    settings = ("--set", "max_prompt_tokens=128", "--set", "max_response_tokens=72")
    common = ("--model", "starter", "--set", "output_model=starter", "--set", f"system={SYSTEM}", *settings)
    sft = ("--algorithm", "sft", "--steps", "24", "--set", "batch_size=32", "--set", "all_answers=true")
    learned = platform.ratchet("train", *common, *sft, "--problems", "chats/train")
    assert learned.returncode == 0, learned.stderr
    newest, *_ = client.models.versions("starter")
    assert newest.lineage.system == SYSTEM
    run = client.runs.get(newest.lineage.run_id)
    assert (run.spec.system, run.spec.all_answers) == (SYSTEM, True)

    small = ("--steps", "1", "--set", "batch_size=4", "--set", "group_size=4")
    template = tmp_path / "mine.jinja"
    template.write_text(f"{{# mine #}}{(STARTER / 'chat_template.jinja').read_text()}")
    own = ("--set", f"chat_template={template}")
    rewarded = platform.ratchet("train", *common, *own, *small, "--algorithm", "grpo", "--problems", "chats/train")
    assert rewarded.returncode == 0, rewarded.stderr
    dressed, *_ = client.models.versions("starter")
    made = client.runs.get(dressed.lineage.run_id)
    assert made.spec.chat_template == template.read_text()
    assert (Path(dressed.artifact_uri) / "chat_template.jinja").read_text() == template.read_text()

    measured = ("--benchmark", "chats/test", "--samples", "1", "--max-tokens", "72", "--temperature", "0")
    version = f"starter@{newest.ref.number}"
    gated = platform.ratchet("gate", "--model", version, *measured, "--system", SYSTEM)
    assert gated.returncode == 0, gated.stdout + gated.stderr
    (gate_of_tests,) = client.models.gates("starter")
    under = client.evaluations.get(gate_of_tests.candidate_evaluation_id)
    assert (under.spec.system, under.spec.problems.name) == (SYSTEM, "chats@1/test")
    bare = json.loads(platform.ratchet("evaluate", "--model", version, *measured, "--json").stdout)
    with pytest.raises(ApiError, match=f"differ in their system: none against {SYSTEM}"):
        client.evaluations.compare(bare["id"], under.id)
    put = ("--system", SYSTEM, "--chat-template", str(template))
    same = json.loads(platform.ratchet("evaluate", "--model", version, *measured, *put, "--json").stdout)
    assert same["pass_at_k"][0]["estimate"]["value"] == under.pass_at_k[0].estimate.value
    with pytest.raises(ApiError, match="differ in their chat template"):
        client.evaluations.compare(same["id"], under.id)

    (tmp_path / "writes.py").write_text(JUDGE)
    assert platform.ratchet("reward", "add", str(tmp_path / "writes.py")).stdout.startswith("writes@1  ")
    asked = [{"id": one.id, "prompt": one.prompt, "references": ["any"]} for one in load("basics")[:12]]
    (tmp_path / "test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in asked))
    added = platform.ratchet("data", "add", str(tmp_path / "test.jsonl"), "--name", "asked")
    assert added.returncode == 0, added.stderr
    few = ("--benchmark", "asked/test", "--samples", "1", "--max-tokens", "32", "--temperature", "0")
    judged = platform.ratchet("gate", "--model", version, *few, "--judge", "writes=0.5")
    assert judged.returncode == 1, judged.stdout + judged.stderr  # both write programs: no gain
    decided = next(gate for gate in client.models.gates("starter") if gate.id != gate_of_tests.id)
    by = client.evaluations.get(decided.candidate_evaluation_id)
    assert (by.spec.judge.reward, by.spec.judge.passing_score) == ("writes@1", 0.5)
    assert by.pass_at_k[0].estimate.value > 0.5
