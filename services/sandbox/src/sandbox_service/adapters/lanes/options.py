"""How lanes are made."""

import sys
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from ratchet_problems import MOST_TEXT_BYTES
from sandbox_service.adapters.languages.environments import Environment
from sandbox_service.domain.levels import Level

ANSWERS = 8
MOST_OUTPUT = 2 * MOST_TEXT_BYTES
"""Bytes that a program may print where the longest text is expected: see output_for of domain/program.py."""


@dataclass(frozen=True, slots=True)
class LaneOptions:
    """How lanes are made.

    A program may idle (sleep, wait) for its CPU limit and `idle_extra` more; the bound on the clock is `wall_factor`
    times as much, so that a loaded machine doesn't turn right programs into slow ones.
    `max_result_bytes`: of one answer, encoded; those of a program together may be ANSWERS times as large.
    `job_uid`: where the uids begin that root's lanes become, one each: see uids.py.
    `runtimes_dir`: a folder of virtual environments, each a runtime of its name: see environments.py.
    `images`: a folder of images that workspaces may have: adapters/images.
    `min_level`: below it no lane starts.
    """

    lanes: int
    python: str = sys.executable
    idle_extra: timedelta = timedelta(seconds=1)
    wall_factor: float = 30.0
    max_result_bytes: int = 4 << 20
    job_uid: int = 61000
    min_level: Level = Level.L1
    runtimes_dir: Path | None = None
    images: Path | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """How the lanes of one kind are made. `paths`: what their root shows beside the standard library."""

    environment: Environment
    processes: bool = False
    paths: tuple[str, ...] = ()
