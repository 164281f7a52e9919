"""User ids for lanes, a block for each service on a machine.

The kernel counts processes by uid over the whole machine: two services that gave their lanes the same uids would meet
each other's programs at RLIMIT_NPROC, and a fork bomb in one would fail the programs of the other.
"""

import socket

from ratchet_kit.errors import ResourceExhausted

BLOCK = 256
_BLOCKS = 16


class Uids:
    """`BLOCK` user ids from `first`, this process's own until `release` or its death."""

    def __init__(self, base: int) -> None:
        """Takes the first free block at or above `base`. Raises ResourceExhausted if none is."""
        for self.first in range(base, base + _BLOCKS * BLOCK, BLOCK):
            # a name that the kernel takes back whatever way its holder ends
            self._claim = socket.socket(socket.AF_UNIX)
            try:
                self._claim.bind(f"\0ratchet-sandbox-uids-{self.first}")
                return
            except OSError:
                self._claim.close()
        raise ResourceExhausted(f"{_BLOCKS} sandbox services on this machine have taken all uids from {base} on")

    def release(self) -> None:
        self._claim.close()
