"""Dangers of a program in the place where it would be used."""

import logging
import tempfile
from pathlib import Path

from bandit.core import config, manager

from ratchet_problems import Problem
from ratchet_quality.score import Score, Unreadable

# asserts, and random numbers that are not for cryptography: usual in answers to problems, and no danger there
NOT_COUNTED = ("B101", "B311")
BY_SEVERITY = {"HIGH": 0.0, "MEDIUM": 1 / 3, "LOW": 2 / 3}

logging.getLogger("bandit").setLevel(logging.CRITICAL)


def safety(source: str, problem: Problem) -> Score:
    """By the worst that bandit finds with medium or high confidence: 0 of high severity, 1/3 of medium, 2/3 of low, 1
    for nothing. The worst and not a sum, so that more harmless code changes nothing. `# nosec` changes nothing either.
    Raises Unreadable."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "program.py"
        file.write_text(source)
        found = manager.BanditManager(
            config.BanditConfig(), "file", ignore_nosec=True, profile={"exclude": list(NOT_COUNTED)}
        )
        found.discover_files([str(file)])
        found.run_tests()
    if found.skipped:
        raise Unreadable(f"no Python: {found.skipped[0][1]}")
    issues = [one for one in found.results if one.confidence in ("HIGH", "MEDIUM")]
    if not issues:
        return Score(1.0, "nothing found")
    worst = min(issues, key=lambda one: BY_SEVERITY[one.severity])
    return Score(BY_SEVERITY[worst.severity], f"{worst.test_id}, line {worst.lineno}: {worst.text}"[:200])
