import socket

from ratchet_kit import ports


def test_a_port_that_is_listened_on_is_not_free():
    with socket.create_server((ports.LOOPBACK, 0)) as server:
        port = server.getsockname()[1]
        assert not ports.is_free(port)
    assert ports.is_free(port)
