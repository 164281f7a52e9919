"""What a job puts on record for people to read: below `record/` in the folder of its run, which the service lists.

record/config/attempt-<a>.yaml    the config that verl got, without secrets
record/profile/...json.gz         traces of profiled steps (Chrome's format; Perfetto shows them)
"""

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

RECORD = "record"
SAMPLES = "samples"
"""Where the table of samples lies, in the folder of a run and in the artifact store."""
LOGS = "logs"
"""The folder of its jobs' logs."""
PART = ".part"
"""The end of the name of what is being written."""
HIDDEN = "(hidden)"
_SECRET = re.compile(r"(?i)(^|_)(api_?key|access_?key|secret|password|passwd|credentials?|auth_?token|token)$")
_USER_OF_URL = re.compile(r"(?<=://)[^/@\s]+@")


@dataclass(frozen=True, slots=True)
class Record:
    work_dir: Path

    @property
    def profile(self) -> Path:
        return self.work_dir / RECORD / "profile"

    def config(self, attempt: int, text: str) -> None:
        self._write(f"config/attempt-{attempt}.yaml", text)

    def _write(self, name: str, text: str) -> None:
        file = self.work_dir / RECORD / name
        file.parent.mkdir(parents=True, exist_ok=True)
        part = file.with_name(file.name + PART)
        part.write_text(text)
        os.replace(part, file)


def without_secrets(value: Any, name: str = "") -> Any:
    """A config of dicts and lists with the values hidden of what is named as a secret, and users in URLs."""
    if isinstance(value, dict):
        return {key: without_secrets(one, str(key)) for key, one in value.items()}
    if isinstance(value, list):
        return [without_secrets(one, name) for one in value]
    if isinstance(value, str):
        return HIDDEN if value and _SECRET.search(name) else _USER_OF_URL.sub(f"{HIDDEN}@", value)
    return value
