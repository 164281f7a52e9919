"""The program under test, in a workspace of its own: what the tests ask of it, by way of subject_command.py."""

import asyncio
import json
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from dataclasses import dataclass
from datetime import timedelta
from posixpath import basename
from typing import Any

from ratchet.sandbox.v1 import workspace_pb2 as pb
from ratchet_environments.folders.dockerfile import place
from ratchet_environments.folders.folder import TaskFolder
from ratchet_environments.folders.subject_command import MESSAGE_BYTES
from ratchet_environments.folders.tree import packed_now, unpacked
from ratchet_environments.folders.work import inert
from ratchet_environments.workspaces import Done, Workspace, own_limit
from ratchet_kit.errors import InvalidArgument, NotFound, ResourceExhausted, invalid

_OUTPUT_BYTES = 8 << 20
_ALL_BYTES, _WORDS_BYTES = 256 << 20, 1 << 16
"""Taken of what tests print and ask, and kept of what they print."""
_HEAD = 8  # bytes that say how many come
_LOST = 137
"""Status of a program whose workspace has ended for what was done in it."""


@dataclass(slots=True)  # mutable: it notices what the program does to its workspace
class Subject:
    workspace: Workspace
    folder: TaskFolder
    _spent: bool = False
    """A program took the memory of its workspace, which may have ended with it."""

    async def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Raises Unavailable, ResourceExhausted where the node is busy, NotFound for a workspace that is lost, and not
        by what was done in it; what the program did is in the answer."""
        try:
            return await self._answer(request)
        except InvalidArgument as error:
            return _said(126, error.message)
        except ResourceExhausted as error:
            return _said(126, own_limit(error))
        except NotFound as error:
            if not self._spent:
                raise
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
                self._spent = self._spent or done.exit.end == pb.ExecExit.END_MEMORY_LIMIT
                return _ended(done)
            case "get":
                path = place(request["path"], "subject get", in_image=self.folder.has_image)
                files, _ = unpacked(await self.workspace.read(path), path)
                name = basename(path)
                inner = {f"{name}{one.removeprefix(path)}": file for one, file in inert(files).items()}
                return {"status": 0, "tar": b64encode(packed_now(inner)).decode()}
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
    if done.exit.output_cut:  # a part may say what the whole does not
        return _said(126, f"it printed more than {_OUTPUT_BYTES} bytes, which are not passed on")
    found = {"stdout": b64encode(done.stdout).decode(), "stderr": b64encode(done.stderr).decode()}
    return {"status": status if status >= 0 else 128 - status, **found}


def _said(status: int, words: str) -> dict[str, Any]:
    return {"status": status, "stderr": b64encode(words.encode() + b"\n").decode()}


async def run_with(judge: Workspace, argv: list[str], subject: Subject, **options: Any) -> Done:
    """Runs the tests by subject_command.py, and answers what they ask of the subject. Raises Unavailable, NotFound
    where a workspace is lost, ResourceExhausted where the node is busy, InvalidArgument for what it does not send."""
    answers: asyncio.Queue[bytes] = asyncio.Queue()

    async def given() -> AsyncIterator[bytes]:
        while answer := await answers.get():
            yield answer

    async def answer(request: dict[str, Any]) -> None:
        answers.put_nowait(_framed(await subject.answer(request)))

    requests = _Requests()
    words, end, answering = bytearray(), None, None
    try:
        async with asyncio.TaskGroup() as tasks:
            stream = judge.stream(argv, given(), output_bytes=_ALL_BYTES, **options)
            async with aclosing(stream) as replies:
                async for reply in replies:
                    words += reply.stderr
                    del words[:-_WORDS_BYTES]
                    if reply.HasField("exit"):
                        end = reply.exit
                        answers.put_nowait(b"")
                    for request in requests.take(reply.stdout):
                        if request.get("do") != "cancel":
                            answering = tasks.create_task(answer(request))
                        elif answering and not answering.done():  # else the answer is on its way, and is dropped there
                            answering.cancel()
                            answers.put_nowait(_framed(_said(124, "nobody waits for it")))
            if answering:
                answering.cancel()
    except BaseExceptionGroup as error:
        raise error.exceptions[0] from None
    if end is None:
        raise NotFound(f"workspace {judge.id} ended while the tests ran in it")
    return Done(end, b"", bytes(words))


class _Requests:
    def __init__(self) -> None:
        self._waiting = bytearray()

    def take(self, data: bytes) -> Iterator[dict[str, Any]]:
        """Requests that are whole by now. Raises InvalidArgument."""
        self._waiting += data
        while len(self._waiting) >= _HEAD:
            size = int.from_bytes(self._waiting[:_HEAD], "big")
            if size > MESSAGE_BYTES:
                raise invalid("tests/test.sh", f"asks for more than {MESSAGE_BYTES} bytes of the program at once")
            if len(self._waiting) < _HEAD + size:
                return
            request = json.loads(self._waiting[_HEAD : _HEAD + size])
            del self._waiting[: _HEAD + size]
            yield request


def _framed(answer: dict[str, Any]) -> bytes:
    data = json.dumps(answer).encode()
    return len(data).to_bytes(_HEAD, "big") + data


def room(timeout: timedelta, memory_bytes: int) -> pb.WorkspaceLimits:
    """Limits of a workspace that something of that length is done in. A program that is left running may hold up the
    reading of files, for ten minutes: the workspace does not end before that, which would be no verdict."""
    limits = pb.WorkspaceLimits(memory_bytes=memory_bytes)
    limits.wall_time.FromTimedelta(min(timeout + timedelta(minutes=30), timedelta(hours=24)))
    limits.cpu_time.FromTimedelta(min(timeout + timedelta(minutes=1), timedelta(hours=24)))
    return limits
