"""Free ports on loopback."""

import socket


def free_port() -> int:
    """A TCP port that nothing on 127.0.0.1 listens on now. Where the server can take port 0 itself, prefer that."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def free_block(size: int) -> int:
    """The first of `size` ports in a row of which that holds."""
    while True:
        first = free_port()
        if first + size < 65_536 and all(map(_is_free, range(first, first + size))):
            return first


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
