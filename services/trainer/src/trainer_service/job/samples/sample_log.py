"""Samples on their way to the artifact store, beside the steps: a run never fails for them, and hardly waits."""

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from ratchet_kit import files
from ratchet_kit.disk_errors import disk_errors
from ratchet_kit.errors import RatchetError
from ratchet_kit.logs import get_logger
from ratchet_kit.storage import Folder
from trainer_service.domain.run.sample import Sample
from trainer_service.job.run.record import SAMPLES
from trainer_service.job.samples import sample_files

CLOSE_S = 20.0
"""Seconds that the end of a job waits for the artifact store."""

log = get_logger(__name__)

Make = Callable[[], Sequence[Sample]]


class SampleLog:
    """Writes each step to the run's own folder, and moves it to the artifact store. Where that does not answer, a later
    step tries again, or the next attempt. A step that is repeated is overwritten."""

    def __init__(self, work_dir: Path, store_uri: str) -> None:
        """`store_uri`: of the run's samples; empty: they stay in `work_dir`."""
        self._folder = work_dir / SAMPLES
        self._store_uri = store_uri
        self._lost = 0
        self._seconds = 0.0
        self._writer = ThreadPoolExecutor(max_workers=1, thread_name_prefix="ratchet-samples")
        self._written = threading.Event()
        self._over = False
        # A daemon: a store that hangs holds up neither what is written nor the end of the process.
        self._mover = threading.Thread(target=self._move_all, name="ratchet-samples-mover", daemon=True)
        self._mover.start()

    def keep(self, step: int, make: Make) -> Future[None]:
        """Ends when they are in the run's folder, or lost. `make`: called in another thread."""
        return self._writer.submit(self._write, step, make)

    def metrics(self) -> dict[str, float]:
        """Seconds of the work since the last time; and steps whose samples are lost, or wait for the artifact store."""
        seconds, self._seconds = self._seconds, 0.0
        waiting = float(len(self._waiting())) if self._store_uri else 0.0
        counts = {"samples_lost": float(self._lost), "samples_waiting": max(0.0, waiting - 1)}
        return {"time_samples_s": seconds} | {name: value for name, value in counts.items() if value}

    def close(self) -> None:
        """All steps are in the run's folder then, and in the artifact store if that answers."""
        self._writer.shutdown()
        self._over = True
        self._written.set()
        self._mover.join(CLOSE_S)

    def _move_all(self) -> None:
        over = False
        while not over:
            self._written.wait()
            self._written.clear()
            over = self._over
            self._move()

    def _write(self, step: int, make: Make) -> None:
        began = time.monotonic()
        try:
            data, file = sample_files.write(make()), self._folder / sample_files.name_of(step)
            with disk_errors(str(self._folder)):
                with files.whole(file) as draft:
                    draft.write_bytes(data)
        except Exception as error:  # whatever it is: the run is worth more than its samples
            self._lost += 1
            log.exception("samples.lost", step=step, reason=str(error))
        finally:
            self._seconds += time.monotonic() - began
            self._written.set()

    def _move(self) -> None:
        if not self._store_uri:
            return
        began = time.monotonic()
        try:
            store = Folder(self._store_uri)
            for file in self._waiting():
                store.put(file.name, file)
                file.unlink()
        except Exception as error:  # noqa: BLE001 - as above; what is left is tried again
            reason = error.message if isinstance(error, RatchetError) else str(error)
            log.warning("samples.wait", reason=reason, steps=len(self._waiting()))
        self._seconds += time.monotonic() - began

    def _waiting(self) -> list[Path]:
        return sorted(self._folder.glob("step-*.parquet"))
