"""Exported episodes are opened by inspect_ai's own reader: `make test-clients`."""

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ratchet_environments.folders.judging import Judged
from ratchet_episodes.inspect_log import Measured, Played, log_of
from ratchet_episodes.record import Change, Ended, Record
from ratchet_policies import Completion, FinishReason
from ratchet_problems import Message, ToolCall
from ratchet_sessions import Question, Session

PYTHON = Path(sys.prefix).parent / "inspect" / "bin" / "python"
NOW = datetime(2026, 1, 1, tzinfo=UTC)
MEASURED = Measured("eval_1", "agents", "starter@1", 0.5, 64, 2, NOW, NOW, NOW + timedelta(minutes=1))
READ = """
import json, sys
from inspect_ai.log import read_eval_log

log = read_eval_log(sys.argv[1])
first, scores = log.samples[0], [one.scores["ratchet"] for one in log.samples]
print(json.dumps({
    "status": log.status, "task": log.eval.task, "model": log.eval.model,
    "mean": log.results.scores[0].metrics["mean"].value,
    "samples": [[one.id, one.epoch, at.value, at.explanation] for one, at in zip(log.samples, scores)],
    "roles": [message.role for message in first.messages],
    "calls": [[call.function, call.arguments, call.parse_error] for call in first.messages[2].tool_calls],
    "result": [first.messages[3].tool_call_id, first.messages[3].text],
    "completion": first.output.completion, "stop": first.output.stop_reason, "tokens": first.output.usage.output_tokens,
    "diff": first.metadata["changes"][0]["diff"], "turns": first.turn_count, "time": first.total_time,
}))
"""


def said(session: Session, answer: Message, *messages: Message) -> None:
    past = (*session.calls[-1].question.messages, session.calls[-1].answer) if session.calls else ()
    question = Question("m", (*past, *messages))
    origin = session.origin(question)
    begun = origin.begun.ids if origin.begun else ()
    completion = Completion(0, answer.content, FinishReason.LENGTH, (1, 2, 3), (-0.5, -0.25, -0.125))
    session.record(question, origin, answer, completion, (*begun, 7), "sha256:p", NOW, NOW)


def record() -> Record:
    session = Session()
    calls = (ToolCall("bash", '{"command": "ls"}', "c1"), ToolCall("bash", "{not json", "c2", 1))
    said(session, Message("assistant", "I look.", calls), Message("system", "Solve it."), Message("user", "A task."))
    said(session, Message("assistant", "Done."), Message("tool", "a.py", tool_call_id="c1"))
    change = Change("app/a.py", "changed", "--- a/app/a.py\n+++ b/app/a.py\n@@ -1 +1 @@\n-a\n+b")
    return Record(
        "a-task", session, Ended("status 0", "out", "", 0.5, 2.5), (change,), Judged(0.75, False, "reward 0.75")
    )


EPISODES = [
    Played("a-task", 0, False, "FAILED", "reward 0.75; 2 answers of the model", record()),
    Played("a-task", 1, True, "PASSED", "its record is gone", None),
]


def test_a_log_has_each_episode_with_its_score() -> None:
    log = json.loads(json.dumps(log_of(MEASURED, EPISODES)))
    assert [(one["id"], one["epoch"], one["scores"]["ratchet"]["value"]) for one in log["samples"]] == [
        ("a-task", 1, 0.75),
        ("a-task", 2, 1.0),
    ]
    assert log["results"]["scores"][0]["metrics"]["mean"]["value"] == 0.875
    assert log_of(MEASURED, [])["results"]["scores"] == []


@pytest.mark.clients
def test_inspect_opens_it(tmp_path: Path) -> None:
    if not PYTHON.exists():
        pytest.skip("needs the environment of inspect_ai: scripts/setup.sh inspect")
    file = tmp_path / "log.json"
    file.write_text(json.dumps(log_of(MEASURED, EPISODES)))
    done = subprocess.run([PYTHON, "-c", READ, file], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    read = json.loads(done.stdout)
    diff = read.pop("diff")
    assert "+b" in diff
    (called, broken) = read.pop("calls")
    assert called == ["bash", {"command": "ls"}, None]
    assert (broken[0], broken[1], "{not json" in broken[2]) == ("bash", {}, True)
    assert read == {
        "status": "success",
        "task": "agents",
        "model": "starter@1",
        "mean": 0.875,
        "samples": [
            ["a-task", 1, 0.75, "reward 0.75; 2 answers of the model"],
            ["a-task", 2, 1.0, "its record is gone"],
        ],
        "roles": ["system", "user", "assistant", "tool", "assistant"],
        "result": ["c1", "a.py"],
        "completion": "Done.",
        "stop": "max_tokens",
        "tokens": 6,
        "turns": 2,
        "time": 2.5,
    }
