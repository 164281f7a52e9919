"""Audits itself as this user on this kernel, and prints what happened as JSON: run by test_levels.

`--deny-namespaces` first takes unshare and mount away, as Docker's default seccomp profile does.
"""

import asyncio
import json
import os
import sys
from datetime import timedelta
from pathlib import Path

from ratchet_testing import weaker
from sandbox_service.adapters import attack_suite
from sandbox_service.adapters.aside.process import AsideProcess
from sandbox_service.adapters.lanes.options import LaneOptions
from sandbox_service.adapters.lanes.pool import LanePool
from sandbox_service.domain.audit import Audit
from sandbox_service.domain.jobs import ScriptJob
from sandbox_service.domain.program import Limits
from sandbox_service.domain.sandbox import Sandbox


async def main() -> None:
    got_through = {}
    options = LaneOptions(lanes=1, idle_extra=timedelta(seconds=0.5))
    async with LanePool(options) as executor, AsideProcess() as aside:
        audit = Audit(Sandbox(executor, 10, aside=aside), executor, attack_suite.attacks())
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
        if any(word.endswith("cage/lane/enter.py") for word in words) and str(os.getpid()) in words:
            lines.append(" ".join(words))
    return lines


if __name__ == "__main__":
    if "--deny-namespaces" in sys.argv:
        weaker.deny(weaker.UNSHARE, weaker.MOUNT)
    if "--deny-all" in sys.argv:
        weaker.deny(weaker.UNSHARE, weaker.MOUNT, weaker.LANDLOCK)
    asyncio.run(main())
