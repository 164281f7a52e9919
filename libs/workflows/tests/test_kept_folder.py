"""A folder that a long command works in."""

from pathlib import Path

import pytest

from ratchet_workflows.kept_folder import KeptFolder


def test_work_that_was_refused_leaves_nothing_behind(tmp_path: Path) -> None:
    folder = tmp_path / "mine.turns"
    with pytest.raises(ValueError, match="refused"), KeptFolder(folder, "ratchet improve").locked():
        raise ValueError("refused")
    assert not folder.exists()
    with KeptFolder(folder, "ratchet improve").locked():
        (folder / "turn-1.json").write_text("{}")
    assert sorted(one.name for one in folder.iterdir()) == ["lock", "turn-1.json"]
