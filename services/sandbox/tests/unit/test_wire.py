"""Marks that end payloads: found whoever has read how much."""

import socket

import pytest

from sandbox_service.cage.wire import wire

MARK = bytes(range(16))


@pytest.mark.parametrize("unread", [0, 1, 15, 16, 17, 40, 65_535, 65_536, 65_537, 200_000])
def test_what_was_not_read_is_skipped_to_the_byte(unread: int) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        ours.sendall((MARK[:15] + b"\xff") * (unread // 16) + b"x" * (unread % 16) + MARK + b"next")
        wire.skip_to(theirs, MARK)
        assert theirs.recv(100) == b"next"


def test_the_end_of_the_service_is_no_mark() -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        ours.sendall(b"x" * 50)
        ours.close()
        with pytest.raises(EOFError):
            wire.skip_to(theirs, MARK)
