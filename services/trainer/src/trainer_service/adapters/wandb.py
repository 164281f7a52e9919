"""The tracker "wandb". Its client starts a process, waits where its server does not answer, and is blocking: it has a
process of its own for each time that something is sent, `wandb_send.py`, which is killed when it takes too long."""

import asyncio
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import asdict

from ratchet_kit.errors import Unavailable
from trainer_service.domain.work.ports import Shown

TIMEOUT_S = 90


class Wandb:
    name = "wandb"

    def __init__(self, environment: Mapping[str, str], folder: str, timeout: float = TIMEOUT_S) -> None:
        """`environment`: WANDB_API_KEY, WANDB_BASE_URL, WANDB_ENTITY, WANDB_MODE, as far as they are set. `folder`:
        where W&B's client writes before it sends."""
        self._environment = environment
        self._folder = folder
        self._timeout = timeout

    async def show(self, shown: Shown, key: str) -> str:
        run, best = shown.run, shown.run.best_checkpoint
        files = {name: data.decode(errors="replace") for name, data in shown.files.items()}
        document = {
            "id": run.id,
            "name": shown.name,
            "project": shown.project,
            "config": None if key else asdict(run.spec),
            "tags": [run.spec.algorithm, *([run.spec.output_model] if run.spec.output_model else [])],
            "steps": [[step.number, step.create_time.timestamp(), dict(step.metrics)] for step in shown.steps],
            "scored": [[step.number, dict(step.metrics)] for step in shown.scored],
            "summary": {
                "state": run.state.name,
                "attempt": run.attempt,
                "version": str(run.version or ""),
                "best_model": best.uri if best else "",
                "policy_id": best.policy_id if best else "",
            },
            "files": files if run.state.is_final else {},
            "model": f"ratchet://{run.version.model}/{run.version.number}" if run.version else "",
            "is_over": run.state.is_final,
            "exit_code": 0 if run.state.name == "SUCCEEDED" else 1,
            "folder": self._folder,
        }
        await self._send(json.dumps(document, default=str).encode())
        return run.id

    async def _send(self, document: bytes) -> None:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "trainer_service.adapters.wandb_send"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, **self._environment},
            start_new_session=True,  # its client's own process is ended with it
        )
        try:
            async with asyncio.timeout(self._timeout):
                _, last_words = await process.communicate(document)
        except TimeoutError as error:
            raise Unavailable(f"W&B did not take the run within {self._timeout:g} s") from error
        finally:
            _kill(process.pid)
            await process.wait()
        if process.returncode:
            lines = last_words.decode(errors="replace").strip().splitlines()
            raise Unavailable(f"W&B does not take the run: {(lines or ['no reason known'])[-1][:300]}")


def _kill(group: int) -> None:
    try:
        os.killpg(group, 9)
    except ProcessLookupError:
        pass
