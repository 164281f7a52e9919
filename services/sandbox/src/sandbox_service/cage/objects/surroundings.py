"""What a process stands in that tests change and a program looks at: environment, folder, arguments, settings."""

import os
import sys
from typing import Any

from sandbox_service.cage.objects import python_settings


class Surroundings:
    """Of the tests' process, as the program's was last told."""

    def __init__(self, code: str) -> None:
        """`code`: of the tests."""
        self._environment, self._folder, self._arguments = _now()
        self._settings = python_settings.Settings(code)

    def changes(self) -> dict[str, Any] | None:
        """None: nothing has changed."""
        held, folder, arguments = now = _now()
        settings = self._settings.changes()
        if now == (self._environment, self._folder, self._arguments) and not settings:
            return None
        before, environment = _decoded(self._environment), _decoded(held)
        self._environment, self._folder, self._arguments = now
        names = [name for name in {**before, **environment} if before.get(name) != environment.get(name)]
        changed = [[name, environment.get(name)] for name in names]
        return {"environment": changed, "folder": folder, "arguments": arguments, "settings": settings}


def _decoded(environment: dict[Any, Any]) -> dict[str, str]:
    return {os.fsdecode(name): os.fsdecode(value) for name, value in environment.items()}


def _now() -> tuple[dict[Any, Any], str, list[str]]:
    try:
        folder = os.getcwd()
    except OSError:
        folder = ""
    # as it holds them, in bytes: to decode each takes longer than all else that a question takes
    return dict(getattr(os.environ, "_data", os.environ)), folder, [str(one) for one in sys.argv]


def take_over(changes: dict[str, Any]) -> None:
    """In the program's process."""
    for name, value in changes["environment"]:
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    try:
        os.chdir(changes["folder"])
    except OSError:
        pass
    sys.argv[:] = changes["arguments"]
    python_settings.take_over(changes["settings"])
