"""`ratchet improve`: its command line; the turns themselves are tested in libs/workflows."""

from pathlib import Path
from typing import Any

PLAN = """\
model: starter
train:
  steps: 4
  reward: tests
evaluate: {problems: composed/test}
gate: {min_difference: 0.01}
release: {stages: [{percent: 100}]}
"""


def test_what_a_command_line_may_not_say(ratchet: Any, tmp_path: Path) -> None:
    (tmp_path / "improve.yaml").write_text(PLAN)
    file = str(tmp_path / "improve.yaml")
    assert "give one of them" in ratchet("improve", "-f", file, "--every", "7d", "--when-feedback", "5").stderr
    assert "as 30m, 6h, 1d" in ratchet("improve", "-f", file, "--every", "weekly").stderr
    assert ratchet("improve", "-f", str(tmp_path / "nowhere.yaml")).returncode == 2
    assert ratchet("improve", "-f", file).returncode == 4, "no platform answers"
