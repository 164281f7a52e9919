"""Training from production, through public doors alone: what people accepted of the starter's answers teaches it."""

import json
import time
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any

import pytest

from ratchet_client import ApiError, Client

from .conftest import Platform

pytestmark = [pytest.mark.e2e, pytest.mark.full, pytest.mark.timeout(1200)]

COUNT = 4
SAID = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Hi."},
    {"role": "assistant", "content": "Hello."},
]
"""Before every other question."""


def test_what_people_accept_is_trained_on(platform: Platform, client: Client) -> None:
    made = client.keys.create("app", keep_traffic=True)
    with Client(client.url, made.secret, timeout_s=120) as app:
        for n in range(COUNT):
            question = f"Write solve(x) that returns x + {n}. Send it to ann@example.com."
            messages = [*SAID, {"role": "user", "content": question}] if n % 2 else question
            answer = app.chat("starter", messages, max_tokens=8, routing_key="ann")
            app.feedback(answer.id, accepted=f"```python\ndef solve(x):\n    return x + {n}\n```")

    traced = platform.ratchet("trace", answer.id)
    assert traced.returncode == 0, traced.stderr
    assert [line.split(":")[0] for line in traced.stdout.splitlines() if line.startswith("== ")] == [
        *("== system", "== user", "== assistant", "== user"),
        *("== answer 1 of starter", "== used in its place"),
    ]
    assert "<email>" in traced.stdout

    folder = platform.home.path / "problems"
    folder.mkdir(parents=True, exist_ok=True)
    for form in ("pairs", "problems"):
        exported = platform.ratchet(
            "traffic", "export", str(folder / f"{form}.jsonl"), "--as", form, "--key", made.key.id
        )
        assert exported.returncode == 0, exported.stderr
        rows = [json.loads(line) for line in (folder / f"{form}.jsonl").read_text().splitlines()]
        assert len(rows) == COUNT
        assert sum(row["prompt"][:3] == SAID for row in rows) == COUNT // 2
        assert all("<email>" in json.dumps(row) and "ann@" not in json.dumps(row) for row in rows)

    problems = ("--model", "starter", "--steps", "1", "--problems", str(folder / "problems.jsonl"))
    refused = platform.ratchet("train", *problems, "--algorithm", "grpo")
    assert refused.returncode == 3
    assert "must not be tests_passed, which needs tests" in refused.stderr
    trained = platform.ratchet("train", *problems, "--algorithm", "sft", "--set", f"batch_size={COUNT}")
    assert trained.returncode == 0, trained.stderr

    held_out = ("--validation", "composed/validation", "--set", f"validation_problems.limit={COUNT}")
    pairs = ("--set", f"pairs={folder / 'pairs.jsonl'}", *held_out)
    compared = platform.ratchet(
        "train", "--model", "starter", "--steps", "1", "--algorithm", "dpo", *pairs, "--set", f"batch_size={COUNT}"
    )
    assert compared.returncode == 0, compared.stderr

    before = list((platform.home.path / "datasets").rglob("*.pairs.parquet"))  # of other tests
    taken = platform.ratchet("traffic", "snapshot", "--name", "taken", "--key", made.key.id)
    assert taken.returncode == 0, taken.stderr
    assert f"taken@1: train {COUNT}. Use it as taken@1/train." in taken.stdout
    of_set = ("--set", "pairs=taken/train", *held_out)
    learned = platform.ratchet(
        "train", "--model", "starter", "--steps", "1", "--algorithm", "dpo", *of_set, "--set", f"batch_size={COUNT}"
    )
    assert learned.returncode == 0, learned.stderr
    texts = ("--algorithm", "sft", "--set", "pairs=taken/train", "--set", f"batch_size={COUNT}")
    written = platform.ratchet("train", "--model", "starter", "--steps", "1", *texts)
    assert written.returncode == 0, written.stderr
    assert [run.spec.pairs.name for run in islice(client.runs.list(), 2)] == ["taken@1/train"] * 2
    copies = [one for one in (platform.home.path / "datasets").rglob("*.pairs.parquet") if one not in before]
    assert len(copies) == 1

    forgotten = platform.ratchet("traffic", "forget", "--user", "ann")
    assert forgotten.stdout == f"The texts of {COUNT} completions are removed.\n"
    assert list(client.traffic.list(key_id=made.key.id)) == []
    _wait(lambda: client.datasets.list("taken"), lambda versions: versions[0].failure.message)
    with pytest.raises(ApiError, match="something in it is forgotten"):
        client.datasets.read("taken", 1, "train")
    _wait(lambda: [path for path in copies if path.exists()], lambda left: not left)


def _wait(look: Callable[[], Iterable[Any]], is_over: Callable[[list[Any]], object], seconds: float = 90) -> None:
    """Until data sets, and copies of them, have forgotten."""
    end = time.monotonic() + seconds
    while not is_over(list(look())):
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.5)
