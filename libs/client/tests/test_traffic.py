"""What production left, as the SDK reads it, and the rows that it makes."""

from datetime import UTC, datetime

import pytest

from ratchet.gateway.v1 import traffic_pb2 as pb
from ratchet_client import ApiError, AsyncClient, Client, traffic
from ratchet_testing.gateway import ScriptedGateway

CHAT = {
    "prompt": [{"role": "user", "content": "hi"}],
    "chosen": [{"role": "assistant", "content": "hello"}],
    "rejected": [{"role": "assistant", "content": ""}],
}
TEXT = {"prompt": "a", "chosen": "b", "rejected": "c"}


def test_lists_go_through_all_pages(gateway: ScriptedGateway) -> None:
    gateway.answers(
        {"exchanges": [{"id": "cmpl_2"}], "next_page_token": "more"},
        {"exchanges": [{"id": "cmpl_1", "score": 0}]},
        {"pairs": [CHAT], "text_pairs": [TEXT]},
        {"pairs": [CHAT], "text_pairs": [TEXT]},
        {"problems": [{"id": "p", "prompt": "q", "references": ["r"], "source": "traffic"}]},
        {"removed": 3},
    )
    with Client(gateway.url) as client:
        start = datetime(2026, 1, 1, tzinfo=UTC)
        found = list(client.traffic.list("starter", "key_1", start))
        assert [one.id for one in found] == ["cmpl_2", "cmpl_1"]
        assert [one.HasField("score") for one in found] == [False, True]
        assert [traffic.pair_row(pair) for pair in client.traffic.pairs()] == [CHAT]
        assert [traffic.text_pair_row(pair) for pair in client.traffic.text_pairs()] == [TEXT]
        assert [traffic.problem_row(one) for one in client.traffic.problems(end_time=start)] == [
            {"id": "p", "prompt": "q", "references": ["r"], "source": "traffic"}
        ]
        assert client.traffic.forget(user="ann") == 3
        with pytest.raises(ValueError, match="name one of user, key_id"):
            client.traffic.forget(user="ann", key_id="key_1")
    first, second, pairs, _, problems, forget = gateway.received
    assert first.query == {
        "page_size": "200",
        "model": "starter",
        "key_id": "key_1",
        "start_time": "2026-01-01T00:00:00Z",
    }
    assert second.query["page_token"] == "more"
    assert (pairs.path, problems.path) == ("/api/v1/traffic/pairs", "/api/v1/traffic/problems")
    assert problems.query["end_time"] == "2026-01-01T00:00:00Z"
    assert (forget.path, forget.body) == ("/api/v1/traffic/forget", {"user": "ann"})


async def test_the_same_in_an_event_loop(gateway: ScriptedGateway) -> None:
    gateway.answers({"pairs": [CHAT], "next_page_token": "more"}, {"pairs": [CHAT]}, {"removed": 1})
    async with AsyncClient(gateway.url) as client:
        assert [traffic.pair_row(pair) async for pair in client.traffic.pairs("starter")] == [CHAT, CHAT]
        assert await client.traffic.forget(session="s1") == 1


def test_material_as_feedback(gateway: ScriptedGateway) -> None:
    gateway.answers({"score": 1}, {"score": 0}, {"score": 0}, {"score": 0})
    with Client(gateway.url) as client:
        assert client.feedback("c1", thumb_up=True) == 1
        client.feedback("c1", thumb_up=False)
        client.feedback("c1", accepted="better", index=1)
        client.feedback("c1", over_id="c2", index=1)
    bodies = [
        {name: value for name, value in (one.body or {}).items() if name != "request_id"} for one in gateway.received
    ]
    assert bodies == [
        {"completion_id": "c1", "thumb": "THUMB_UP"},
        {"completion_id": "c1", "thumb": "THUMB_DOWN"},
        {"completion_id": "c1", "accepted": {"text": "better", "index": 1}},
        {"completion_id": "c1", "choice": {"index": 1, "over_id": "c2"}},
    ]


def test_a_row_of_an_exchange_has_every_field() -> None:
    row = traffic.exchange_row(pb.Exchange(id="cmpl_1"))
    assert row["arm"] == "ARM_UNSPECIFIED"
    assert (row["answers"], row["choices"], row["user"]) == ([], [], "")


def test_a_refusal(gateway: ScriptedGateway) -> None:
    gateway.answers({"error": {"code": "PERMISSION_DENIED", "message": "no"}}, status=403)
    with Client(gateway.url) as client, pytest.raises(ApiError) as refused:
        next(client.traffic.list())
    assert refused.value.code == "PERMISSION_DENIED"
