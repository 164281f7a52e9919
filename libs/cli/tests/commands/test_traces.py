"""`ratchet trace`, against an HTTP server in the gateway's place."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from ratchet_environments.folders.judging import Judged
from ratchet_episodes.record import Change, Ended, Record, to_json, without_tokens
from ratchet_policies import Completion, FinishReason
from ratchet_problems import Message, ToolCall
from ratchet_sessions import Question, Session
from ratchet_sessions.session import Failed
from ratchet_testing.gateway import ScriptedGateway

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SAMPLE = {
    "problem_id": "t/a",
    "verdict": "VERDICT_FAILED",
    "failure": "FAILURE_CLASS_WRONG",
    "detail": "reward 0; 2 answers of the model",
    "benchmark": "agents",
    "turns": 2,
    "tool_errors": 1,
    "tokens": 4,
    "generation_time": "2.5s",
    "recorded": True,
}


def record(word: str = "I look.") -> Record:
    session = Session()
    first = Question("m", (Message("user", "Sum it.\x1b[2J"),))
    call = ToolCall("bash", '{"command": "ls"}', "c1")
    said = Message("assistant", word, (call,))
    kept = Completion(0, word, FinishReason.TOOL_CALLS, (11, 12), (-0.5, -0.25))
    session.record(first, session.origin(first), said, kept, (7,), "sha256:p", NOW, NOW)
    second = Question("m", (*first.messages, said, Message("tool", "error: no shell", tool_call_id="c1")))
    last = Completion(0, "Done.", FinishReason.STOP, (13, 14), (-1.0, -2.0))
    later = NOW + timedelta(seconds=2)
    origin = session.origin(second)
    session.record(second, origin, Message("assistant", "Done."), last, (7, 11, 12, 8), "sha256:p", NOW, later)
    session.fail(Failed(first, "the prompt is too long", False, NOW, NOW + timedelta(seconds=1)))
    changes = (Change("app/a.py", "changed", "-a\n+b"), Change("app/x.bin", "added", note="3 bytes"))
    ended = Ended("status 3", "printed\n", "", 0.5, 2.5)
    return Record("t/a", session, ended, changes, Judged(0.0, False, "reward 0", "1 failed"))


def episode(word: str = "I look.", *, tokens: bool = False) -> dict[str, Any]:
    kept = to_json(record(word))
    return {"sample": SAMPLE, "record": json.loads(json.dumps(kept if tokens else without_tokens(kept)))}


@pytest.mark.usefixtures("address")
def test_an_episode_is_shown_step_by_step(ratchet: Any, gateway: ScriptedGateway) -> None:
    gateway.answers(episode())
    shown = ratchet("trace", "eval_1", "t/a", "1")
    assert shown.returncode == 0, shown.stderr
    (asked,) = gateway.received
    assert asked.path == "/api/v1/evaluations/eval_1/episode"
    assert asked.query == {"problem_id": "t/a", "index": "1"}
    lines = shown.stdout.splitlines()
    assert "verdict      FAILED: reward 0; 2 answers of the model" in lines
    assert "tool errors  1" in lines
    assert [line for line in lines if line.startswith("== ")] == [
        "== user",
        "== answer 1 of m: tool_calls",
        "== a call without an answer",
        "== tool",
        "== answer 2 of m: stop",
        "== the command's output",
        "== changed: app/a.py",
        "== added: app/x.bin",
        "== the judge: reward 0",
    ]
    for said in ('bash {"command": "ls"}', "error: no shell", "the prompt is too long", "+b", "3 bytes", "1 failed"):
        assert said in lines
    assert "\x1b" not in shown.stdout, "what a stranger wrote moves no cursor"
    assert "11:-0.500" not in shown.stdout


@pytest.mark.usefixtures("address")
def test_tokens_json_and_two_beside_each_other_are_shown_on_demand(ratchet: Any, gateway: ScriptedGateway) -> None:
    whole = episode(tokens=True)
    gateway.answers(whole, whole, episode("left"), episode("right"))
    assert "1 read, 2 sampled\n11:-0.500 12:-0.250" in ratchet("trace", "eval_1", "t/a", "--tokens").stdout
    assert gateway.received[0].query == {"problem_id": "t/a", "tokens": "true"}
    shown = ratchet("trace", "eval_1", "t/a", "--tokens", "--json").stdout
    assert json.loads(shown) == whole["record"]
    assert "11.0" not in shown, "ids are whole numbers"
    both = ratchet("trace", "eval_1", "t/a", "0", "--beside", "1").stdout
    assert any("left" in line and "right" in line for line in both.splitlines())
    assert [one.query.get("index") for one in gateway.received[2:]] == [None, "1"]


@pytest.mark.usefixtures("address")
def test_without_a_task_the_episodes_are_listed(ratchet: Any, gateway: ScriptedGateway) -> None:
    gateway.answers({"samples": [SAMPLE]}, {"samples": [SAMPLE]})
    listed = ratchet("trace", "eval_1")
    assert listed.stdout.splitlines()[1].split()[:10] == [
        *("agents", "t/a", "0", "FAILED", "wrong", "4", "2", "1", "2.5", "s"),
    ]
    ratchet("samples", "list", "eval_1", "--failure", "wrong")
    assert gateway.received[1].query["failure"] == "FAILURE_CLASS_WRONG"


@pytest.mark.usefixtures("address")
def test_all_episodes_are_written_for_inspect(ratchet: Any, gateway: ScriptedGateway, tmp_path: Path) -> None:
    spec = {"problems": {"name": "agents"}, "samples_per_problem": 2, "model": {"model": "starter"}}
    evaluation = {"id": "eval_1", "state": "STATE_SUCCEEDED", "spec": spec, "create_time": "2026-01-01T00:00:00Z"}
    old = SAMPLE | {"index": 1, "recorded": False}
    gateway.answers({"evaluation": evaluation}, {"samples": [SAMPLE, old]}, episode(tokens=True))
    file = tmp_path / "log.json"
    done = ratchet("trace", "eval_1", "--inspect", str(file))
    assert done.stdout == f"2 episodes are in {file}; 1 have no record any more\n"
    log = json.loads(file.read_text())
    assert (log["status"], log["eval"]["task"], log["eval"]["config"]["epochs"]) == ("success", "agents", 2)
    assert [len(one["messages"]) for one in log["samples"]] == [4, 0]
    assert log["samples"][0]["output"]["usage"]["output_tokens"] == 4


def test_a_file_of_a_record_is_shown_without_a_platform(ratchet: Any, tmp_path: Path) -> None:
    file = tmp_path / "episode.json"
    file.write_text(json.dumps(to_json(record())))
    shown = ratchet("trace", str(file), "--tokens")
    assert shown.returncode == 0, shown.stderr
    assert "13:-1.000" in shown.stdout
    file.write_text('{"form": 7}')
    refused = ratchet("trace", str(file))
    assert (refused.returncode, "holds no record of an episode: form 7" in refused.stderr) == (1, True), refused.stderr


@pytest.mark.usefixtures("address")
def test_a_record_that_is_gone_is_said_in_a_sentence(ratchet: Any, gateway: ScriptedGateway) -> None:
    gateway.answers({"error": {"code": "FAILED_PRECONDITION", "message": "the record is not kept"}}, status=400)
    refused = ratchet("trace", "eval_1", "t/a")
    assert (refused.returncode, "the record is not kept" in refused.stderr) == (3, True), refused.stderr


@pytest.mark.usefixtures("address")
def test_an_episode_of_production_is_shown_with_what_people_said_of_it(ratchet: Any, gateway: ScriptedGateway) -> None:
    first = {
        "id": "cmpl_1",
        "version": {"model": "starter", "number": 2},
        "arm": "ARM_CANDIDATE",
        "key_id": "key_1",
        "session": "ab12",
        "latency": "1.5s",
        "score": 0.5,
    }
    second = first | {"id": "cmpl_2", "arm": "ARM_NONE", "accepted": {"text": "All done."}}
    session = json.loads(json.dumps(without_tokens(to_json(record()))["session"]))
    gateway.answers(*[{"session": session, "exchanges": [first, second]}] * 2)
    shown = ratchet("trace", "cmpl_2")
    assert shown.returncode == 0, shown.stderr
    (asked,) = gateway.received
    assert asked.path == "/api/v1/traffic/cmpl_2/episode"
    lines = shown.stdout.splitlines()
    assert "session      ab12" in lines
    assert [line for line in lines if line.startswith("== ")] == [
        "== user",
        "== answer 1 of m: tool_calls, starter@2, candidate, 1.5 s, score 0.5, cmpl_1",
        "== a call without an answer",
        "== tool",
        "== answer 2 of m: stop, starter@2, 1.5 s, score 0.5, cmpl_2 (this one)",
        "== used in its place",
    ]
    assert lines[-1] == "All done."
    assert json.loads(ratchet("trace", "cmpl_2", "--json").stdout)["session"] == session


@pytest.mark.usefixtures("address")
def test_what_says_nothing_of_one_episode_is_refused(ratchet: Any, gateway: ScriptedGateway, tmp_path: Path) -> None:
    file, log = tmp_path / "episode.json", tmp_path / "log.json"
    file.write_text(json.dumps(to_json(record())))
    for source in ("cmpl_1", str(file)):
        refused = ratchet("trace", source, "t/a", "1", "--beside", "0", "--inspect", str(log))
        said = f"{source} is one episode: leave out a task and an index and --beside and --inspect."
        assert (refused.returncode, said in refused.stderr.replace("\n", " ")) == (1, True), refused.stderr
    assert ratchet("trace", "cmpl_1", "--tokens").returncode == 1, "of production no tokens are kept"
    assert not gateway.received


@pytest.mark.usefixtures("address")
def test_a_session_in_a_later_form_is_told(ratchet: Any, gateway: ScriptedGateway) -> None:
    gateway.answers({"session": {"calls": [{"index": 0}], "failed": []}, "exchanges": [{"id": "cmpl_1"}]})
    refused = ratchet("trace", "cmpl_1")
    assert (refused.returncode, "can't be read here: KeyError" in refused.stderr) == (1, True), refused.stderr
