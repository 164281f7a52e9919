"""What a process stands in that tests change and a program looks at: environment, folder, arguments, settings."""

import os
import sys
from typing import Any

import python_settings


class Surroundings:
    """Of the tests' process, as the program's was last told."""

    def __init__(self, code: str) -> None:
        """`code`: of the tests."""
        self._environment, self._folder, self._arguments = _now()
        self._settings = python_settings.Settings(code)

    def changes(self) -> dict[str, Any] | None:
        """None: nothing has changed."""
        environment, folder, arguments = now = _now()
        before, settings = self._environment, self._settings.changes()
        if now == (before, self._folder, self._arguments) and not settings:
            return None
        self._environment, self._folder, self._arguments = now
        names = [name for name in {**before, **environment} if before.get(name) != environment.get(name)]
        changed = [[name, environment.get(name)] for name in names]
        return {"environment": changed, "folder": folder, "arguments": arguments, "settings": settings}


def _now() -> tuple[dict[str, str], str, list[str]]:
    try:
        folder = os.getcwd()
    except OSError:
        folder = ""
    return dict(os.environ), folder, [str(one) for one in sys.argv]


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
