"""Runs in the judge's workspace, with the standard library alone: its source is sent there (`judging`).

python subject_command.py COMMAND...    runs the tests, and hands what they ask of the program's workspace to our
                                        standard output, where the platform reads it, and the answers back from our
                                        standard input
subject run|get|put ...                 what the tests call; see `_USAGE`
"""

from __future__ import annotations  # an image's Python may be an old one

import base64
import io
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tarfile
import threading
from typing import Any

_HOME = os.path.dirname(os.path.abspath(__file__))
_SOCKET = _HOME + "/socket"
MESSAGE_BYTES = 64 << 20
"""The longest request."""
_USAGE = """subject run COMMAND...   runs it where the agent's files are, and passes on its input, output and status
subject get PATH TARGET  copies a file or folder from there into the folder TARGET
subject put PATH TARGET  copies a file or folder to there, into the folder TARGET"""


def _send(to: Any, message: dict[str, Any]) -> None:
    data = json.dumps(message).encode()
    to.write(len(data).to_bytes(8, "big") + data)
    to.flush()


def _receive(source: Any) -> dict[str, Any]:
    size = int.from_bytes(source.read(8), "big")
    found: dict[str, Any] = json.loads(source.read(size) or b'{"status": 1, "stderr": ""}')
    return found


def _serve(server: socket.socket, out: Any, answers: Any) -> None:
    while True:
        connection, _ = server.accept()
        try:
            with connection, connection.makefile("rwb") as stream:
                _send(out, _receive(stream))
                if connection in select.select([connection, answers], [], [])[0]:  # who asked has gone
                    _send(out, {"do": "cancel"})
                _send(stream, _receive(answers))
        except (OSError, ValueError):
            continue


def _judge(command: list[str]) -> int:
    os.makedirs(_HOME + "/bin", exist_ok=True)
    with open(_HOME + "/bin/subject", "w") as shim:
        shim.write(f'#!/bin/sh\nexec "{sys.executable}" -I -S "{__file__}" --subject "$@"\n')
    os.chmod(_HOME + "/bin/subject", 0o755)
    server = socket.socket(socket.AF_UNIX)
    server.bind(_SOCKET)
    server.listen(128)
    with open(os.dup(1), "wb") as out, open(os.dup(0), "rb") as answers:
        threading.Thread(target=_serve, args=(server, out, answers), daemon=True).start()
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=2, check=False)
        sys.stdout.flush()
        if done.returncode < 0:  # a signal ended the tests: they did not end by themselves
            _end_by(-done.returncode)
        os._exit(done.returncode if done.returncode >= 0 else 128 - done.returncode)


def _end_by(number: int) -> None:
    try:
        signal.signal(number, signal.SIG_DFL)
    except OSError:
        pass  # SIGKILL, which no process handles
    os.kill(os.getpid(), number)


def _subject(arguments: list[str]) -> int:
    do, rest = (arguments or [""])[0], arguments[1:]
    if do == "run" and rest:
        stdin = b"" if sys.stdin is None or sys.stdin.isatty() else sys.stdin.buffer.read()
        request: dict[str, Any] = {"do": "run", "argv": rest, "stdin": base64.b64encode(stdin).decode()}
    elif do == "get" and len(rest) == 2:
        request = {"do": "get", "path": rest[0]}
    elif do == "put" and len(rest) == 2:
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as archive:
            archive.add(rest[0], os.path.basename(os.path.abspath(rest[0])))
        request = {"do": "put", "path": rest[1], "tar": base64.b64encode(packed.getvalue()).decode()}
    else:
        print(_USAGE, file=sys.stderr)
        return 2
    if len(json.dumps(request)) > MESSAGE_BYTES:
        print(f"subject: more than {MESSAGE_BYTES} bytes at once, in base64", file=sys.stderr)
        return 126
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(_SOCKET)
        with connection.makefile("rwb") as stream:
            _send(stream, request)
            answer = _receive(stream)
    if "tar" in answer:
        with tarfile.open(fileobj=io.BytesIO(base64.b64decode(answer["tar"]))) as archive:
            if hasattr(tarfile, "data_filter"):
                archive.extractall(rest[1], filter="data")
            else:  # an old Python; the platform made it of files and folders alone
                archive.extractall(rest[1])
    sys.stdout.buffer.write(base64.b64decode(answer.get("stdout", "")))
    sys.stdout.flush()
    sys.stderr.buffer.write(base64.b64decode(answer.get("stderr", "")))
    return int(answer["status"])


if __name__ == "__main__":
    sys.exit(_subject(sys.argv[2:]) if sys.argv[1] == "--subject" else _judge(sys.argv[1:]))
