"""Logs of engines that are gone."""

import os
import shutil
from datetime import UTC, datetime
from pathlib import Path

from rollout_service.adapters import logs

NOW = datetime(2026, 1, 1, tzinfo=UTC)


async def test_old_logs_go_but_for_those_in_use(tmp_path: Path) -> None:
    for name, age in (("run-old", 10), ("run-new", -10), ("loaded", 10), ("forkserver", 10)):
        file = tmp_path / f"{name}.log"
        file.write_text("a line")
        os.utime(file, (NOW.timestamp() - age,) * 2)
    for name in ("run-old", "loaded"):
        shutil.copy2(tmp_path / f"{name}.log", tmp_path / f"{name}.log.1")
    assert await logs.remove(tmp_path, NOW, {"loaded", "forkserver"}) == 2
    assert sorted(os.listdir(tmp_path)) == ["forkserver.log", "loaded.log", "loaded.log.1", "run-new.log"]
    assert await logs.remove(tmp_path / "nowhere", NOW, ()) == 0
