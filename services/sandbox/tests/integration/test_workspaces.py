"""Workspaces at each level that this machine has, in the lab."""

import atexit
import functools
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from ratchet_testing import weaker
from sandbox_service.domain.levels import Level

from . import image_cases, relay_cases, workspace_cases, workspace_lab

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

TESTS = Path(__file__).parents[1]
MODULES = [Path(module.__file__).stem for module in (workspace_cases, relay_cases, image_cases)]
RUN = (
    f"import sys; sys.path.insert(0, {str(TESTS)!r}); from integration import {', '.join(MODULES)}, workspace_lab; "
    "workspace_lab.run()"
)
LEVELS = {Level.L3: [], Level.L2: [], Level.L1: ["--deny-namespaces"]}


@functools.cache
def _images() -> Path:
    """A folder of the cases' images, which every user may write to."""
    folder = Path(tempfile.mkdtemp(prefix="ratchet-test-images-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    image_cases.save(folder)
    (folder / ".unpacked").mkdir()
    for one in (folder, folder / ".unpacked"):
        one.chmod(0o777)
    return folder


@functools.cache
def _results(level: Level) -> dict[str, str]:
    """What came of each case, an empty text for what held. Skips where the machine doesn't have the level."""
    if level is Level.L3:
        if os.geteuid() != 0:
            pytest.skip("L3 takes root")
        command = [sys.executable]
    else:
        try:
            command = weaker.python_as_nobody("sandbox_service.adapters.workspaces.cages")
        except LookupError as error:
            pytest.skip(str(error))
    command += ["-c", RUN, level.name, *LEVELS[level]]
    environment = {**os.environ, "CASES_IMAGES": str(_images())}
    done = subprocess.run(command, capture_output=True, text=True, timeout=550, cwd="/", env=environment)
    assert done.returncode == 0, done.stderr
    found: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize(
    ("level", "name"),
    [(level, name) for level in LEVELS for name, (least, _) in workspace_lab.CASES.items() if level >= least],
    ids=str,
)
def test_workspaces(level: Level, name: str) -> None:
    assert not (complaint := _results(level)[name]), complaint
