"""SandboxFusion's names, folders of rows and answers, without a sandbox."""

import json
from pathlib import Path

import pytest

from ratchet.common.v1 import verdict_pb2
from ratchet.sandbox.v1 import program_pb2 as pb
from ratchet_kit.errors import FailedPrecondition, InvalidArgument, NotFound, RatchetError, Unimplemented
from sandbox_service.fusion.datasets import CLASSES, reader
from sandbox_service.fusion.row_folder import RowFolder
from sandbox_service.fusion.rows import READERS
from sandbox_service.fusion.running import response


def test_the_class_of_a_data_set() -> None:
    assert reader("mbpp", None) is READERS["mbpp"]
    assert reader("of my own", "CommonOJDataset") is READERS["common_oj"]
    with pytest.raises(InvalidArgument, match="dataset_type"):
        reader("of my own", None)
    with pytest.raises(Unimplemented, match="CruxEvalDataset"):
        reader("of my own", "CruxEvalDataset")
    assert reader("bigcodebench", None) is READERS["big_code_bench"]


def test_every_class_has_a_reader() -> None:
    assert set(CLASSES.values()) == set(READERS)


def test_rows_of_a_folder(tmp_path: Path) -> None:
    folder = RowFolder(tmp_path)
    (tmp_path / "mine.jsonl").write_text('{"id": 1, "a": "\u2028"}\n\n{"task_id": "x/2"}\n')
    assert folder.names() == ["mine"]
    assert folder.row("mine", 1) == folder.row("mine", "1") == {"id": 1, "a": "\u2028"}
    assert folder.row("mine", "x/2") == {"task_id": "x/2"}
    (tmp_path / "mine.jsonl").write_text('{"id": 2}\n' + " " * 99)
    assert folder.row("mine", 2) == {"id": 2}
    (tmp_path / "long.jsonl").write_bytes(b'\xef\xbb\xbf{"id": 7, "test": %s}\r\n' % (b"9" * 5000))
    assert folder.row("long", 7)["test"] == 10**5000 - 1
    for name, content in (("deep", b"[" * 99_999), ("latin", b'{"id": "\xe9"}')):
        (tmp_path / f"{name}.jsonl").write_bytes(content)
        with pytest.raises(InvalidArgument, match=r"line 1: is (nested|not UTF-8)"):
            folder.row(name, 7)
        (tmp_path / f"{name}.jsonl").unlink()
    (tmp_path / "broken.jsonl").write_text('{"id": 1}\n[]\n')
    faults: list[tuple[RowFolder, str, type[RatchetError], str]] = [
        (folder, "mine", NotFound, "no row"),
        (folder, "other", NotFound, "holds no other.jsonl: it holds broken, long, mine"),
        (folder, "../mine", NotFound, "holds no"),
        (folder, "broken", InvalidArgument, "line 2"),
        (RowFolder(None), "mine", FailedPrecondition, "RATCHET_SANDBOX_DATASETS_DIR"),
    ]
    for where, name, kind, text in faults:
        with pytest.raises(kind, match=text):
            where.row(name, 7)


def test_a_verdict_without_a_word_of_its_own_is_told() -> None:
    execution = pb.Execution(verdict=verdict_pb2.VERDICT_TAMPERED, detail="unasked bytes", exit_status=0)
    answer = json.loads(response(execution).model_dump_json())
    assert (answer["status"], answer["message"]) == ("Failed", "tampered: unasked bytes")
    assert (answer["run_result"]["status"], answer["run_result"]["return_code"]) == ("Finished", 1)
