"""Free ports on loopback."""

import socket


def free_port() -> int:
    """A TCP port that nothing on 127.0.0.1 listens on now. Where the server can take port 0 itself, prefer that."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
