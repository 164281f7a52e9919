"""Each process of a job writes its processor time, and the use of its GPU, to files of its own, where the driver reads
them (`usage`).

A process of Ray is no child of the job and may be on another node; one that is killed leaves its last number behind.
A file is as old as the writer's pause, in which a rank may use a second: where the process lives on the driver's
machine, the driver asks the kernel.
Every worker of Ray imports this: it needs little.
"""

import atexit
import logging
import os
import socket
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from ratchet_kit import cpu_time
from ratchet_kit.gpus import GpuWatch, visible

FOLDER = "RATCHET_JOB_USAGE"
"""The variable that names the folder to processes of the job."""
EVERY_S = 0.5


def record() -> None:
    """From now on this process writes its processor time to a file of its own, and leaves at once when it ends. Ray
    calls it in each worker."""
    folder = Path(os.environ[FOLDER])
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{socket.gethostname()}-{os.getpid()}.seconds"

    def put(file: Path, text: str) -> None:
        part = file.with_suffix(".part")
        with suppress(OSError):  # the disk is full, or the run was deleted: the next time is soon
            part.write_text(text)
            os.replace(part, file)

    born = cpu_time.born()

    def write() -> None:
        put(file, f"{cpu_time.used_by().total_seconds()} {born}")

    watch = GpuWatch()

    def repeat() -> None:
        while True:
            write()
            names = visible()
            if len(names) == 1:  # a rank's; who sees several, or none, computes on none
                watch.look(names)
                for uuid in watch.uuids:
                    times = f"{watch.busy_time.total_seconds()} {watch.watched_time.total_seconds()}"
                    put(file.with_suffix(".gpu"), f"{uuid} {times}")
            time.sleep(EVERY_S)

    def leave() -> None:
        """Python would take apart what is loaded after it: a second of a core, beside or after the job's last report.
        Ray knows by then that this process ends, and kills the most of them."""
        write()
        logging.shutdown()
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(0)

    threading.Thread(target=repeat, name="usage", daemon=True).start()
    atexit.register(leave)


class Recorded:
    """Processor time of this process with what it started, and of all that `record`. Where Ray is this process's own,
    they are its descendants, too."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._most: dict[str, float] = {}
        """Seconds of each process that records, as far as they were ever seen: one that is killed leaves less."""
        self._reading = threading.Lock()

    def read(self) -> timedelta:
        """Until now; of a process on another machine, until it wrote last."""
        host, here = socket.gethostname(), []
        with self._reading:
            for file in self._folder.glob("*.seconds"):
                name, _, pid = file.stem.rpartition("-")
                if name == host and int(pid) == os.getpid():
                    continue
                seconds, born = map(float, file.read_text().split())
                if name == host:
                    here.append(int(pid))
                    if cpu_time.born(int(pid)) == born:  # else it has ended, and the number may be another's
                        seconds = max(seconds, cpu_time.used_by(int(pid)).total_seconds())
                self._most[file.name] = max(seconds, self._most.get(file.name, 0.0))
            return timedelta(seconds=sum(self._most.values())) + cpu_time.used_by(without=here)


@dataclass(frozen=True, slots=True)
class GpuTimes:
    busy: timedelta = timedelta()
    watched: timedelta = timedelta()


def recorded_gpus(folder: Path) -> GpuTimes:
    """Sums over the GPUs; of several processes on one, the longest counts."""
    found: dict[str, tuple[float, float]] = {}
    for file in folder.glob("*.gpu"):
        uuid, busy, watched = file.read_text().split()
        found[uuid] = max(found.get(uuid, (0.0, 0.0)), (float(watched), float(busy)))
    watched_s, busy_s = (sum(one[place] for one in found.values()) for place in (0, 1))
    return GpuTimes(timedelta(seconds=busy_s), timedelta(seconds=watched_s))
