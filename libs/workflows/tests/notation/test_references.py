"""How people name models."""

from pathlib import Path

import pytest

from ratchet.common.v1 import model_pb2
from ratchet_client.names import model_name
from ratchet_workflows.errors import UsageError
from ratchet_workflows.notation.references import model_ref


@pytest.mark.parametrize(
    ("text", "ref"),
    [
        ("starter", model_pb2.ModelRef(model="starter")),
        ("starter:prod.v2", model_pb2.ModelRef(alias=model_pb2.AliasRef(model="starter", alias="prod.v2"))),
        ("starter@2", model_pb2.ModelRef(version=model_pb2.VersionRef(model="starter", number=2))),
        ("s3://bucket/model", model_pb2.ModelRef(uri="s3://bucket/model")),
    ],
)
def test_every_form_is_read_and_shown(text: str, ref: model_pb2.ModelRef) -> None:
    assert model_ref(text) == ref
    assert model_name(ref) == text


def test_a_folder_is_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine").mkdir()
    monkeypatch.chdir(tmp_path)
    assert model_ref("./mine").uri == str(tmp_path / "mine")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert model_ref("~/mine").uri == str(tmp_path / "mine")


@pytest.mark.parametrize(
    ("text", "words"), [("Not A Name", "names no model"), ("a@0", "names no model"), ("./no", "no folder")]
)
def test_what_is_no_model_is_wrong_usage(text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        model_ref(text)
