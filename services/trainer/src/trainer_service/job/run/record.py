"""What a job puts on record for people to read: below `record/` in the folder of its run, which the service lists.

record/config/attempt-<a>.yaml    the config that verl got, without secrets
record/profile/...json.gz         traces of profiled steps (Chrome's format; Perfetto shows them)
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ratchet_kit import files

RECORD = "record"
SAMPLES = "samples"
"""Where the table of samples lies, in the folder of a run and in the artifact store."""
LOGS = "logs"
"""The folder of its jobs' logs."""
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
        with files.whole(self.work_dir / RECORD / name) as draft:
            draft.write_text(text)


def without_secrets(value: Any, name: str = "") -> Any:
    """A config of dicts and lists with the values hidden of what is named as a secret, and users in URLs."""
    if isinstance(value, dict):
        return {key: without_secrets(one, str(key)) for key, one in value.items()}
    if isinstance(value, list):
        return [without_secrets(one, name) for one in value]
    if isinstance(value, str):
        return HIDDEN if value and _SECRET.search(name) else _USER_OF_URL.sub(f"{HIDDEN}@", value)
    return value
