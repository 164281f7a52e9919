import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ratchet_kit.errors import InvalidArgument
from ratchet_problems import Message, pair_tables
from ratchet_problems.pairs import Origin, Pair, pairs_digest

ORIGIN = Origin(("cmpl_1",), ("u", "k"), datetime(2026, 11, 1, tzinfo=UTC))
PAIRS = [
    Pair("c", "yes", "no", (Message("system", "Be brief."), Message("user", "Add?")), origin=ORIGIN),
    Pair("p", "def f(): 1", "def f(): 2", problem="Write f."),
]


def test_a_table_gives_the_same_pairs(tmp_path: Path) -> None:
    kept = pair_tables.write(PAIRS, tmp_path / "t.parquet")
    assert (kept.rows, kept.digest) == (2, pairs_digest(PAIRS))
    assert list(pair_tables.checked(tmp_path / "t.parquet", "t")) == PAIRS
    assert pair_tables.read(tmp_path / "t.parquet", "t", 1) == (PAIRS[0],)
    texts = [Pair("t", "b", "c", text="a")]
    pair_tables.write(texts, tmp_path / "texts.parquet")
    assert list(pair_tables.checked(tmp_path / "texts.parquet", "t")) == texts


def test_a_table_that_was_downloaded_is_added_as_it_is(tmp_path: Path) -> None:
    pair_tables.write(PAIRS, tmp_path / "train.parquet")
    columns = pair_tables.columns(["id", "text", "problem", "chosen", "rejected", "messages", "origin"], {})
    assert not columns.unused
    assert list(pair_tables.mapped([tmp_path / "train.parquet"], columns)) == PAIRS


def test_faults_are_told_together(tmp_path: Path) -> None:
    lines = [{"prompt": "p", "chosen": "a", "rejected": "a"}, {"chosen": "a"}, {"prompt": "p", "origin": {}}]
    (tmp_path / "bad.jsonl").write_text("\n".join(map(json.dumps, lines)))
    with pytest.raises(InvalidArgument) as error:
        list(pair_tables.checked(tmp_path / "bad.jsonl", "bad"))
    for fault in ("line 1: rejected: is the same", "line 2: prompt: is missing", "line 3: origin: must have exchanges"):
        assert fault in error.value.message
    (tmp_path / "bad.jsonl").write_text("")
    with pytest.raises(InvalidArgument, match="bad holds no pairs"):
        list(pair_tables.checked(tmp_path / "bad.jsonl", "bad"))


def test_columns_of_other_projects_are_mapped(tmp_path: Path) -> None:
    names = ["question", "chosen", "rejected", "score_chosen", "source"]
    assert pair_tables.are_pairs(names, {})
    assert not pair_tables.are_pairs(["prompt", "tests"], {})
    columns = pair_tables.columns(names, {"problem": "question"})
    assert str(columns) == "chosen, rejected, problem <- question; unused: score_chosen, source"
    row = {"question": "Write f.", "chosen": "a", "rejected": "b", "score_chosen": 3, "source": "x"}
    (tmp_path / "train.jsonl").write_text(json.dumps(row))
    (found,) = pair_tables.mapped([tmp_path / "train.jsonl"], columns)
    assert (found.problem, found.id) == ("Write f.", "train/1")
    with pytest.raises(InvalidArgument, match="a pair has no field 'tests'"):
        pair_tables.columns(names, {"tests": "question"})
    with pytest.raises(InvalidArgument, match="there is no column 'x'"):
        pair_tables.columns(names, {"prompt": "x"})


def test_trl_conversations_in_a_table_of_its_own(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    said = [{"role": "user", "content": "Add?"}]
    rows = [{"chosen": [*said, {"role": "assistant", "content": text}], "rejected": said} for text in ("yes",)]
    rows[0]["rejected"] = [*said, {"role": "assistant", "content": "no"}]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "train.parquet")
    columns = pair_tables.columns(["chosen", "rejected"], {})
    (found,) = pair_tables.mapped([tmp_path / "train.parquet"], columns)
    assert (found.messages, found.chosen, found.rejected) == ((Message("user", "Add?"),), "yes", "no")
