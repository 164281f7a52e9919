"""`ratchet traffic` against an HTTP server in the gateway's place."""

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import json as arrow

import ratchet_problems
from ratchet_testing.gateway import ScriptedGateway

pytestmark = pytest.mark.usefixtures("address")

HOSTILE = '\x1b[31m \u2028 \n " é 😀 \0'
MESSAGES = pa.list_(pa.struct({"role": pa.string(), "content": pa.string()}))


def chat_pair(text: str) -> dict[str, Any]:
    return {
        "prompt": [{"role": "system", "content": ""}, {"role": "user", "content": text}],
        "chosen": [{"role": "assistant", "content": "good"}],
        "rejected": [{"role": "assistant", "content": ""}],
    }


def test_pairs_are_rows_of_one_schema(ratchet: Any, gateway: ScriptedGateway, tmp_path: Path) -> None:
    gateway.answers({"pairs": [chat_pair(HOSTILE)], "next_page_token": "more"}, {"pairs": [chat_pair("hi")]})
    out = tmp_path / "pairs.jsonl"
    result = ratchet("traffic", "export", str(out), "--as", "pairs", "--model", "starter", "--days", "7")
    assert (result.returncode, result.stdout) == (0, f"2 pairs are in {out}\n")
    table = arrow.read_json(out)
    assert table.schema == pa.schema({"prompt": MESSAGES, "chosen": MESSAGES, "rejected": MESSAGES})
    assert table.to_pylist() == [chat_pair(HOSTILE), chat_pair("hi")]
    assert gateway.received[0].query["model"] == "starter"
    assert gateway.received[0].query["start_time"].endswith("Z")


def test_pairs_of_texts(ratchet: Any, gateway: ScriptedGateway, tmp_path: Path) -> None:
    row = {"prompt": HOSTILE, "chosen": "good", "rejected": ""}
    gateway.answers({"pairs": [chat_pair("hi")], "text_pairs": [row]})
    out = tmp_path / "pairs.jsonl"
    assert ratchet("traffic", "export", str(out), "--as", "text-pairs").returncode == 0
    assert arrow.read_json(out).to_pylist() == [row]


def test_problems_are_a_set_for_sft(ratchet: Any, gateway: ScriptedGateway, tmp_path: Path) -> None:
    problem = {"id": "traffic/cmpl_1", "prompt": HOSTILE, "references": ["def f(): ..."], "source": "traffic"}
    system = {"role": "system", "content": HOSTILE}
    gateway.answers({"problems": [problem, problem | {"id": "traffic/cmpl_2", "conversation": [system]}]})
    out = tmp_path / "problems.jsonl"
    assert ratchet("traffic", "export", str(out), "--as", "problems").returncode == 0
    read, turned = ratchet_problems.load(str(out))
    assert turned.messages == (ratchet_problems.Message("system", HOSTILE), ratchet_problems.Message("user", HOSTILE))
    assert (read.id, read.prompt, read.references, read.tests) == ("traffic/cmpl_1", HOSTILE, ("def f(): ...",), ())


def test_exchanges_as_rest_shows_them(ratchet: Any, gateway: ScriptedGateway, tmp_path: Path) -> None:
    gateway.answers({"exchanges": [{"id": "cmpl_1", "prompt": {"text": HOSTILE}, "unheard": 1}]})
    out = tmp_path / "traffic.jsonl.gz"
    assert ratchet("traffic", "export", str(out)).stdout == f"1 exchanges are in {out}\n"
    with gzip.open(out, "rt", encoding="utf-8") as file:
        (row,) = map(json.loads, file)
    assert (row["id"], row["prompt"]["text"], row["choices"]) == ("cmpl_1", HOSTILE, [])


def test_wrong_usage_and_places(ratchet: Any, gateway: ScriptedGateway, tmp_path: Path) -> None:
    assert ratchet("traffic", "export", str(tmp_path / "x"), "--as", "parquet").returncode == 2
    assert ratchet("traffic", "forget").returncode == 2
    assert ratchet("traffic", "forget", "--user", "ann", "--key", "key_1").returncode == 2
    refused = ratchet("traffic", "export", str(tmp_path / "none" / "x.jsonl"))
    assert (refused.returncode, gateway.received) == (1, [])


def test_listing_and_forgetting(ratchet: Any, gateway: ScriptedGateway) -> None:
    one = {
        "id": "cmpl_1",
        "version": {"model": "starter", "number": 2},
        "arm": "ARM_CANDIDATE",
        "key_id": "key_1",
        "session": "chat-1234567",
        "prompt_tokens": 3,
        "completion_tokens": 4,
        "score": 0,
        "accepted": {"text": HOSTILE},
    }
    gateway.answers({"exchanges": [one]}, {"removed": 2})
    assert ratchet("traffic", "list").stdout.splitlines()[1].split() == [
        *("cmpl_1", "starter@2", "candidate", "key_1", "chat-123", "7", "0", "yes", "-", "-")
    ]
    assert ratchet("traffic", "forget", "--user", "ann").stdout == "The texts of 2 completions are removed.\n"
    assert gateway.received[1].body == {"user": "ann"}
