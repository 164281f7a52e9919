"""Which files are the parts of which split."""

from pathlib import Path

import pyarrow
import pytest

from ratchet_kit.errors import InvalidArgument
from ratchet_problems import files, mapping


def folder(at: Path, *names: str) -> Path:
    for name in names:
        (at / name).parent.mkdir(parents=True, exist_ok=True)
        (at / name).write_text("{}\n")
    return at


@pytest.mark.parametrize(
    ("names", "splits"),
    [
        (["train.jsonl", "my-test.csv"], {"train": ["train.jsonl"], "test": ["my-test.csv"]}),
        (["tasks.jsonl"], {"train": ["tasks.jsonl"]}),
        (["easy.jsonl", "hard.jsonl"], {"easy": ["easy.jsonl"], "hard": ["hard.jsonl"]}),
        (
            ["data/train-00000-of-00002-0a1b.parquet", "data/train-00001-of-00002-0a1b.parquet", "README.md"],
            {"train": ["train-00000-of-00002-0a1b.parquet", "train-00001-of-00002-0a1b.parquet"]},
        ),
        (
            [
                "dataset_dict.json",
                "train/data-00000-of-00001.arrow",
                "train/state.json",
                "test/data-00000-of-00001.arrow",
            ],
            {"test": ["data-00000-of-00001.arrow"], "train": ["data-00000-of-00001.arrow"]},
        ),
        ([".hidden.jsonl", "train.jsonl"], {"train": ["train.jsonl"]}),
    ],
)
def test_files_of_a_folder(tmp_path: Path, names: list[str], splits: dict[str, list[str]]) -> None:
    found = files.splits([folder(tmp_path, *names)])
    assert {split: [path.name for path in paths] for split, paths in found.items()} == splits


def test_several_data_sets_in_a_folder_are_no_split(tmp_path: Path) -> None:
    folder(tmp_path, "main/train-00000-of-00001.parquet", "socratic/train-00000-of-00001.parquet")
    with pytest.raises(InvalidArgument, match=r"train is in several folders \(.*main, .*socratic\): add one of them"):
        files.splits([tmp_path])


def test_the_licence_of_a_hub_repository(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("---\nlanguage: en\nlicense: apache-2.0\n---\nlicense: no\n")
    assert files.licence([tmp_path]) == "apache-2.0"
    assert files.licence([tmp_path / "README.md"]) == ""


def test_what_datasets_saved_is_read(tmp_path: Path) -> None:
    table = pyarrow.Table.from_pylist([{"prompt": "Add."}, {"prompt": "Subtract."}])
    file = tmp_path / "data-00000-of-00001.arrow"
    with pyarrow.ipc.new_stream(str(file), table.schema) as writer:
        writer.write_table(table)
    assert [row["prompt"] for _, row in mapping.rows(file)] == ["Add.", "Subtract."]
    file.write_bytes(b"no")
    with pytest.raises(InvalidArgument, match="is not a complete Arrow file"):
        list(mapping.rows(file))
