"""The block of ports of a platform."""

import socket

from ratchet_local.ports import OFFSETS, Ports


def test_ports_follow_the_base() -> None:
    ports = Ports.from_base(9100)
    assert {name: ports[name] - 9100 for name in OFFSETS} == dict(OFFSETS)
    assert ports.target("sandbox") == "127.0.0.1:9104"


def test_base_zero_finds_a_block_that_is_free() -> None:
    assert Ports.from_base(0).taken() == []


def test_a_taken_port_is_named() -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        base = holder.getsockname()[1] - OFFSETS["rollout"]
        assert ("rollout", holder.getsockname()[1]) in Ports.from_base(base).taken()
