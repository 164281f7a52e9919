"""The files that a run has on record."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from ratchet_client import Client
from ratchet_reports.errors import ReportError

_CONFIG = re.compile(r"config/attempt-(\d+)\.yaml")


def read(client: Client, run_id: str, name: str) -> bytes:
    """All of a file."""
    data = b""
    while part := client.runs.read_file(run_id, name, len(data)).data:
        data += part
    return data


def config(client: Client, run_id: str, attempt: int = 0) -> str:
    """The configuration of verl in that attempt; 0: in the last one that wrote it. Raises ReportError without one."""
    found = {int(match[1]): one.name for one in client.runs.files(run_id) if (match := _CONFIG.fullmatch(one.name))}
    if not found:
        raise ReportError(f"Run {run_id} has no config yet: it is made when the job has started verl.")
    chosen = attempt or max(found)
    if chosen not in found:
        raise ReportError(f"Run {run_id} has no config of attempt {chosen}; there are: {sorted(found)}.")
    return read(client, run_id, found[chosen]).decode()


def download(client: Client, run_id: str, names: Sequence[str], folder: Path) -> Iterator[Path]:
    """Into `folder`, under their own names. Raises ReportError for a name that is the begin of none, and where they
    cannot be written."""
    known = [one.name for one in client.runs.files(run_id)]
    for begin in names:
        found = [name for name in known if name == begin or name.startswith(begin)]
        if not found:
            raise ReportError(f"Run {run_id} has no file {begin}: ratchet runs files {run_id}")
        for name in found:
            target = folder / name
            if not target.resolve().is_relative_to(folder.resolve()):
                raise ReportError(f"{name} would lie outside of {folder}.")
            try:
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(read(client, run_id, name))
            except OSError as error:
                raise ReportError(f"{target} cannot be written: {error}.") from error
            yield target
