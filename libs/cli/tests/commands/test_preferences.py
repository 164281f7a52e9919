"""`ratchet preferences` against an HTTP server in the gateway's place."""

import io
from typing import Any

import pytest

from ratchet_testing.gateway import Reply, ScriptedGateway

pytestmark = pytest.mark.usefixtures("address")

PAIR = {"id": "pair_1", "problem_id": "p1", "prompt": "Sum xs.", "left": "return sum(xs)", "right": "return 0"}


def test_votes_go_on_until_there_is_no_pair(
    ratchet: Any, gateway: ScriptedGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("what\nleft\n"))
    voted = PAIR | {"left_evaluation_id": "e2", "right_evaluation_id": "e1"}
    gateway.answers({"pair": PAIR}, {"pair": voted})
    refusal = {"error": {"code": "FAILED_PRECONDITION", "message": "there are no two samples left"}}
    gateway.replies.append(Reply(refusal, status=400))
    result = ratchet("preferences", "vote", "e1", "e2", "--voter", "ada", "--passed")
    assert result.returncode == 0, result.stderr
    assert "return sum(xs)" in result.stdout
    assert "left was e2, right was e1" in result.stdout
    first = gateway.received[0].body
    assert first is not None
    assert (first["evaluation_ids"], first["voter"], first["passed_only"]) == (["e1", "e2"], "ada", True)
    assert gateway.received[1].path == "/api/v1/preferences/pair_1/vote"
    assert gateway.received[1].body == {"choice": "CHOICE_LEFT"}


def test_q_ends_without_a_vote(ratchet: Any, gateway: ScriptedGateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("q\n"))
    gateway.answers({"pair": PAIR})
    assert ratchet("preferences", "vote", "e1", "e2").returncode == 0
    assert len(gateway.received) == 1


def test_models_are_ranked(ratchet: Any, gateway: ScriptedGateway) -> None:
    ranks = [
        {"evaluation_id": "e2", "strength": {"value": 0.5, "low": 0.1, "high": 0.9}, "votes": 10, "wins": 7.5},
        {"evaluation_id": "e1", "strength": {"value": -0.5, "low": -0.9, "high": -0.1}, "votes": 10, "wins": 2.5},
    ]
    gateway.answers({"ranks": ranks, "votes": 10})
    gateway.answers(*({"evaluation": {"id": id, "spec": {"model": {"model": f"m-{id}"}}}} for id in ("e1", "e2")))
    lines = ratchet("preferences", "rank", "e1", "e2").stdout.splitlines()
    assert lines[1].split() == ["e2", "m-e2", "+0.50", "+0.10", "to", "+0.90", "10", "7.5"]
    assert lines[3] == "10 votes"


def test_pairs_are_listed(ratchet: Any, gateway: ScriptedGateway) -> None:
    gateway.answers({"pairs": [PAIR | {"voter": "ada", "choice": "CHOICE_TIE"}, PAIR]})
    lines = ratchet("preferences", "list", "--evaluation", "e1").stdout.splitlines()
    assert lines[1].split()[:4] == ["pair_1", "ada", "p1", "TIE"]
    assert gateway.received[0].query["evaluation_id"] == "e1"
