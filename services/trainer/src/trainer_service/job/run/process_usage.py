"""Each process of a job writes its processor time to a file of its own, where the driver reads it (`usage`).

A process of Ray is no child of the job and may be on another node; one that is killed leaves its last number behind.
Every worker of Ray imports this: it needs little.
"""

import atexit
import os
import socket
import threading
import time
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

from ratchet_kit import cpu_time

FOLDER = "RATCHET_JOB_USAGE"
"""The variable that names the folder to processes of the job."""
EVERY_S = 0.5


def record() -> None:
    """From now on this process writes its processor time to a file of its own. Ray calls it in each worker."""
    folder = Path(os.environ[FOLDER])
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{socket.gethostname()}-{os.getpid()}.seconds"

    def write() -> None:
        part = file.with_suffix(".part")
        with suppress(OSError):  # the disk is full, or the run was deleted: the next time is soon
            part.write_text(repr(cpu_time.used_by().total_seconds()))
            os.replace(part, file)

    def repeat() -> None:
        while True:
            write()
            time.sleep(EVERY_S)

    threading.Thread(target=repeat, name="usage", daemon=True).start()
    atexit.register(write)


def recorded(folder: Path) -> timedelta:
    """Processor time of this process with what it started, and of all that `record`. Where Ray is this process's own,
    they are its descendants, too."""
    seconds, here = 0.0, []
    host = socket.gethostname()
    for file in folder.glob("*.seconds"):
        name, _, pid = file.stem.rpartition("-")
        if name == host and int(pid) == os.getpid():
            continue
        seconds += float(file.read_text())
        if name == host:
            here.append(int(pid))
    return timedelta(seconds=seconds) + cpu_time.used_by(without=here)
