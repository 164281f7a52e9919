"""Programs that aren't Python: a compiler or what it made takes the forked child's place. And the files of programs."""

import os
import signal

import job

MAX_FETCHED = 16 << 20
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


def run_command(payload: dict, frames: job.Frames) -> int:
    """Becomes `argv`. Returns only if that can't be started, which is told in a frame."""
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)  # Python ignores them, and its children would, too
    os.set_inheritable(job.RESULT_FD, False)
    try:
        os.execve(payload["argv"][0], payload["argv"], payload["environment"])
    except OSError as error:
        frames.send("error", *job.describe(error))
    return 127


def take_files(descriptor: int, files: list) -> None:
    """Writes [name, size] pairs into the current folder, their bytes coming in a row. Names are relative, without "..".

    Raises OSError.
    """
    for name, size in files:
        folder = os.path.dirname(name)
        if folder:
            os.makedirs(folder, exist_ok=True)
        target = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o700)
        try:
            left = size
            while left:
                chunk = os.read(descriptor, min(left, 1 << 20))
                if not chunk:
                    raise EOFError("the service closed the connection")
                job.write_all(target, chunk)
                left -= len(chunk)
        finally:
            os.close(target)


class Fetched:
    """Files that a program left, opened one by one without following any link. A name that ends in "/" is a folder."""

    def __init__(self, scratch: str, names: list[str]) -> None:
        self._files: list[tuple[str, int, int]] = []
        self._room = MAX_FETCHED
        if not names:
            return
        top = os.open(scratch, _FOLDER)
        try:
            for name in names:
                self._add(name, top)
        finally:
            os.close(top)

    @property
    def sizes(self) -> list[tuple[str, int]]:
        return [(name, size) for name, _, size in self._files]

    def _add(self, name: str, top: int) -> None:
        folder = os.dup(top)
        try:
            *parents, last = name.rstrip("/").split("/")
            for parent in parents:
                inner = os.open(parent, _FOLDER, dir_fd=folder)
                os.close(folder)
                folder = inner
            if name.endswith("/"):
                self._add_folder(name, last, folder)
            else:
                self._add_file(name, last, folder)
        except OSError:
            return  # it isn't there, or is no plain file
        finally:
            os.close(folder)

    def _add_folder(self, path: str, name: str, parent: int) -> None:
        for found, _, names, descriptor in os.fwalk(name, dir_fd=parent):
            for entry in names:
                self._add_file(f"{path.rstrip('/')}{found[len(name) :]}/{entry}", entry, descriptor)

    def _add_file(self, path: str, name: str, folder: int) -> None:
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
        size = os.fstat(descriptor).st_size
        if not _is_plain(descriptor) or size > self._room or len(self._files) >= 256:
            os.close(descriptor)
            return
        self._room -= size
        self._files.append((path, descriptor, size))

    def send(self, connection: int) -> None:
        """From file to socket within the kernel: what programs leave never enters this process's memory."""
        for _, descriptor, size in self._files:
            sent = 0
            while sent < size:
                count = os.sendfile(connection, descriptor, sent, size - sent)
                if count == 0:
                    raise SystemExit("a file shrank while it was sent")
                sent += count

    def close(self) -> None:
        for _, descriptor, _ in self._files:
            os.close(descriptor)


def _is_plain(descriptor: int) -> bool:
    return os.fstat(descriptor).st_mode & 0o170000 == 0o100000
