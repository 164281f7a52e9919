"""The program under test, in a workspace of its own: what the tests ask of it, by way of subject_command.py."""

import asyncio
import json
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from datetime import timedelta
from posixpath import basename
from typing import Any

from ratchet.sandbox.v1 import workspace_pb2 as pb
from ratchet_environments.folders.dockerfile import place
from ratchet_environments.folders.folder import TaskFolder
from ratchet_environments.folders.tree import packed, unpacked
from ratchet_environments.workspaces import Done, Workspace
from ratchet_kit.errors import InvalidArgument, NotFound, ResourceExhausted, invalid

_OUTPUT_BYTES = 8 << 20
_MESSAGE_BYTES = 64 << 20
_LOST = 137
"""Status of a program whose workspace has ended for what was done in it."""


@dataclass(frozen=True, slots=True)
class Subject:
    workspace: Workspace
    folder: TaskFolder

    async def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Raises Unavailable; what the program did is in the answer."""
        try:
            return await self._answer(request)
        except (InvalidArgument, ResourceExhausted) as error:
            return _said(126, error.message)
        except NotFound as error:
            return _said(_LOST, error.message)
        except (KeyError, TypeError, ValueError) as error:
            return _said(2, f"no request: {error}")

    async def _answer(self, request: dict[str, Any]) -> dict[str, Any]:
        match request["do"]:
            case "run":
                done = await self.workspace.exec(
                    *request["argv"],
                    stdin=b64decode(request["stdin"]),
                    environment=self.folder.variables,
                    folder=self.folder.workdir,
                    wall_time=self.folder.verifier_timeout,
                    output_bytes=_OUTPUT_BYTES,
                )
                return _ended(done)
            case "get":
                path = place(request["path"], "subject get", in_image=self.folder.has_image)
                files, _ = unpacked(await self.workspace.read(path), path)
                name = basename(path)
                inner = {
                    f"{name}{one.removeprefix(path)}": file for one, file in files.items() if not file.link
                }  # links are left out: they would lead to the judge's own files
                return {"status": 0, "tar": b64encode(packed(inner)).decode()}
            case "put":
                target = place(request["path"], "subject put", in_image=self.folder.has_image)
                await self.workspace.write(b64decode(request["tar"]), target)
                return {"status": 0}
        raise ValueError(str(request["do"])[:100])


def _ended(done: Done) -> dict[str, Any]:
    status = done.exit.status
    if done.exit.end != pb.ExecExit.END_EXITED:
        return _said(124, f"ended at {done.ending}")
    if done.exit.reason:
        return _said(127, done.exit.reason)
    found = {"stdout": b64encode(done.stdout).decode(), "stderr": b64encode(done.stderr).decode()}
    return {"status": status if status >= 0 else 128 - status, **found}


def _said(status: int, words: str) -> dict[str, Any]:
    return {"status": status, "stderr": b64encode(words.encode() + b"\n").decode()}


async def run_with(judge: Workspace, argv: list[str], subject: Subject, **options: Any) -> Done:
    """Runs the tests by subject_command.py, and answers what they ask of the subject. Raises Unavailable, NotFound
    where the judge's workspace is lost, InvalidArgument for what it does not send."""
    answers: asyncio.Queue[bytes] = asyncio.Queue()

    async def given() -> AsyncIterator[bytes]:
        while answer := await answers.get():
            yield answer

    waiting, words, end = bytearray(), bytearray(), None
    async with aclosing(judge.stream(argv, given(), **options)) as replies:
        async for reply in replies:
            words += reply.stderr
            waiting += reply.stdout
            if reply.HasField("exit"):
                end = reply.exit
                answers.put_nowait(b"")
            while len(waiting) >= 8 and len(waiting) - 8 >= (size := _size(waiting)):
                request = json.loads(waiting[8 : 8 + size])
                del waiting[: 8 + size]
                data = json.dumps(await subject.answer(request)).encode()
                answers.put_nowait(len(data).to_bytes(8, "big") + data)
    if end is None:
        raise NotFound(f"workspace {judge.id} ended while the tests ran in it")
    return Done(end, b"", bytes(words))


def _size(waiting: bytearray) -> int:
    size = int.from_bytes(waiting[:8], "big")
    if size > _MESSAGE_BYTES:
        raise invalid("tests/test.sh", f"asks for more than {_MESSAGE_BYTES} bytes of the program at once")
    return size


def room(timeout: timedelta, memory_bytes: int) -> pb.WorkspaceLimits:
    """Limits of a workspace that something of that length is done in."""
    limits = pb.WorkspaceLimits(memory_bytes=memory_bytes)
    limits.wall_time.FromTimedelta(min(timeout + timedelta(minutes=10), timedelta(hours=24)))
    limits.cpu_time.FromTimedelta(timeout + timedelta(minutes=1))
    return limits
