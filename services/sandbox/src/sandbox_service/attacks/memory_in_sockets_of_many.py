"""Sends what nobody takes: the kernel keeps it, in more sockets than the memory limit has room for.

Kind: overspend
Expect: MEMORY_LIMIT, RUNTIME_ERROR, TIME_LIMIT
From: L2
"""

import os
import socket
import time


def fill():
    sent, block = 0, b"x" * 65536
    pairs = []
    try:
        while len(pairs) < 100:
            pairs.append(socket.socketpair())
            for one in pairs[-1]:
                one.setblocking(False)
                try:
                    while True:
                        sent += one.send(block)
                except BlockingIOError:
                    pass
    except OSError:
        pass
    return pairs, sent


def f(x):
    reader, writer = os.pipe()
    for _ in range(12):
        if os.fork() == 0:
            kept, sent = fill()
            os.write(writer, sent.to_bytes(8, "big"))
            time.sleep(60)
    total = sum(int.from_bytes(os.read(reader, 8), "big") for _ in range(12))
    time.sleep(0.3)
    return 2 if total > 256 << 20 else 0
