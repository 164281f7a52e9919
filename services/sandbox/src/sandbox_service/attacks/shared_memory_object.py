"""Takes memory as shared objects with a name, which outlive it.

Kind: break-out
Expect: RUNTIME_ERROR, FAILED, MEMORY_LIMIT
Runs: 2
"""

from multiprocessing import shared_memory


def f(x):
    try:
        shared_memory.SharedMemory("ratchet-was-here")
        return 2
    except OSError:
        pass
    blocks = []
    for _ in range(64):
        blocks.append(
            shared_memory.SharedMemory("ratchet-was-here" if not blocks else None, create=True, size=64 << 20)
        )
        blocks[-1].buf[:] = b"x" * len(blocks[-1].buf)
    return 3
