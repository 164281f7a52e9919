"""What a process stands in that tests change and a program looks at: environment, folder, arguments."""

import os
import sys
from typing import Any


class Surroundings:
    """Of the tests' process, as the program's was last told."""

    def __init__(self) -> None:
        self._environment, self._folder, self._arguments = _now()

    def changes(self) -> dict[str, Any] | None:
        """None: nothing has changed."""
        environment, folder, arguments = now = _now()
        before = self._environment
        if now == (before, self._folder, self._arguments):
            return None
        self._environment, self._folder, self._arguments = now
        names = [name for name in {**before, **environment} if before.get(name) != environment.get(name)]
        changed = [[name, environment.get(name)] for name in names]
        return {"environment": changed, "folder": folder, "arguments": arguments}


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
