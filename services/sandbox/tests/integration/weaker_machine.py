"""Audits itself as this user on this kernel, and prints what happened as JSON: run by test_levels.

`--deny-namespaces` first takes unshare and mount away, as Docker's default seccomp profile does.
"""

import asyncio
import ctypes
import json
import os
import struct
import sys
from datetime import timedelta
from pathlib import Path

from sandbox_service.adapters import attack_suite
from sandbox_service.adapters.lanes.options import LaneOptions
from sandbox_service.adapters.lanes.pool import LanePool
from sandbox_service.domain.audit import Audit
from sandbox_service.domain.jobs import ScriptJob
from sandbox_service.domain.program import Limits
from sandbox_service.domain.sandbox import Sandbox

_UNSHARE, _MOUNT, _SECCOMP, _PRCTL = 272, 165, 317, 157


def deny(*numbers: int) -> None:
    """A seccomp filter that answers EPERM to these system calls (x86-64)."""

    def instruction(code: int, k: int, jump_true: int = 0, jump_false: int = 0) -> bytes:
        return struct.pack("=HBBI", code, jump_true, jump_false, k)

    steps = [instruction(0x20, 0)]
    for number in numbers:
        steps += [instruction(0x15, number, 0, 1), instruction(0x06, 0x00050001)]
    code = b"".join([*steps, instruction(0x06, 0x7FFF0000)])
    buffer = ctypes.create_string_buffer(code, len(code))
    program = struct.pack("@HP", len(code) // 8, ctypes.addressof(buffer))
    libc = ctypes.CDLL(None, use_errno=True)
    zero = ctypes.c_ulong(0)
    assert libc.prctl(38, ctypes.c_ulong(1), zero, zero, zero) == 0
    assert libc.prctl(22, ctypes.c_ulong(2), ctypes.c_char_p(program), zero, zero) == 0


async def main() -> None:
    got_through = {}
    async with LanePool(LaneOptions(lanes=1, idle_extra=timedelta(seconds=0.5))) as executor:
        audit = Audit(Sandbox(executor, 10), executor, attack_suite.attacks())
        plan = audit.attacks()
        async for finding in audit.run(plan, (), 0):
            if not finding.good:
                got_through[finding.name] = f"{finding.verdict} {finding.detail}"
        offered = executor.capabilities
        await cancel_one_that_hides(executor)
    left = keepers()
    told = {"uid": os.geteuid(), "level": str(offered.level), "missing": list(offered.missing)}
    print(json.dumps({**told, "tried": len(plan), "got_through": got_through, "left": left}))


async def cancel_one_that_hides(executor: LanePool) -> None:
    """Its own session, no death signal: then the job is cancelled, which kills the keeper first."""
    source = "import os, ctypes\nos.setsid()\nctypes.CDLL(None).prctl(1, 0, 0, 0, 0)\nwhile True: pass\n"
    running = asyncio.create_task(executor.run(ScriptJob(source, "", Limits(timedelta(seconds=30)))))
    await asyncio.sleep(1)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await asyncio.sleep(0.3)


def keepers() -> list[str]:
    """Processes that came from a keeper of ours: forks keep its command line, and this process's id is in it."""
    lines = []
    for entry in os.listdir("/proc"):
        try:
            words = Path(f"/proc/{entry}/cmdline").read_text().split("\0")
        except (OSError, ValueError):
            continue
        if any(word.endswith("cage/enter.py") for word in words) and str(os.getpid()) in words:
            lines.append(" ".join(words))
    return lines


if __name__ == "__main__":
    if "--deny-namespaces" in sys.argv:
        deny(_UNSHARE, _MOUNT)
    if "--deny-all" in sys.argv:
        deny(_UNSHARE, _MOUNT, 444)
    asyncio.run(main())
