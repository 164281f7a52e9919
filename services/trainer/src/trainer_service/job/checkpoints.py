"""The checkpoints of a run on disk. Paths and files: no torch, no verl.

    work_dir/checkpoints/global_step_<n>/   what verl wrote: model, optimizer, RNG, data position
    work_dir/checkpoints/global_step_<n>/COMPLETE
    work_dir/exports/step-<n>/              the Hugging Face model of a validated step; or export_uri/step-<n>/

A checkpoint counts once COMPLETE is there, which is written after the step has been reported: a job that is killed
at any moment resumes from a step that the service knows of, and repeats the steps after it.
"""

import json
import os
import re
import shutil
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from ratchet_kit import storage
from ratchet_kit.storage import Folder

MARKER = "COMPLETE"
# The names of safetensors' header, and those of Transformers' config.
_DTYPES = {"F32": "float32", "F16": "float16", "BF16": "bfloat16"}
_STEP = re.compile(r"global_step_(\d+)")


@dataclass(frozen=True, slots=True)
class Export:
    """A Hugging Face model made by a step."""

    step: int
    uri: str
    policy_id: str
    validation_score: float | None
    """Higher is better; None when the step was not validated."""


@dataclass(frozen=True, slots=True)
class Checkpoints:
    work_dir: Path
    export_uri: str = ""
    """Folder or URL that exports are moved to. Empty: they stay in `work_dir`."""

    @property
    def root(self) -> Path:
        return self.work_dir / "checkpoints"

    def folder(self, step: int) -> Path:
        return self.root / f"global_step_{step}"

    def export_folder(self, step: int) -> Path:
        return self.work_dir / "exports" / f"step-{step}"

    def latest(self) -> int | None:
        """The newest complete step. Removes what a killed job left half-written."""
        steps = []
        for folder in sorted(self.root.glob("global_step_*")):
            match = _STEP.fullmatch(folder.name)
            if match is None:
                continue
            if (folder / MARKER).is_file():
                steps.append(int(match[1]))
            else:
                shutil.rmtree(folder)
        return max(steps, default=None)

    def require_space(self) -> None:
        """Raises ResourceExhausted where the disk has no room for another checkpoint like the last one."""
        latest = self.latest()
        if latest is not None:
            storage.require_space(self.root, _size(self.folder(latest)))

    def export(self, step: int, written: Path) -> str:
        """Moves the Hugging Face model that verl wrote inside the checkpoint to where it is kept, and returns its URI.

        Raises what `ratchet_kit.storage.Folder` raises.
        """
        _correct_config(written)
        if self.export_uri:
            folder = Folder(self.export_uri).child(f"step-{step}")
            folder.delete()
            folder.upload(written)
            shutil.rmtree(written)
            return folder.uri
        target = self.export_folder(step)
        shutil.rmtree(target, ignore_errors=True)
        target.parent.mkdir(parents=True, exist_ok=True)
        os.replace(written, target)
        return str(target)

    def complete(self, step: int) -> None:
        """Marks the checkpoint of `step` and removes the older ones: one is enough to resume from."""
        folder = self.folder(step)
        temporary = folder / f".{MARKER}"
        temporary.write_text(json.dumps({"step": step}))
        with temporary.open() as opened:
            os.fsync(opened.fileno())
        os.replace(temporary, folder / MARKER)
        for other in self.root.glob("global_step_*"):
            if other != folder:
                shutil.rmtree(other)


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def _correct_config(model: Path) -> None:
    """verl writes bfloat16 into config.json whatever it stores, and how its own process computed attention; a reader
    that trusts the one loses precision, and one without flash-attention fails on the other."""
    weights = next(iter(sorted(model.glob("*.safetensors"))), None)
    if weights is None:
        return
    with weights.open("rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    stored = Counter(entry["dtype"] for name, entry in header.items() if name != "__metadata__").most_common(1)
    config = json.loads((model / "config.json").read_text())
    config.pop("attn_implementation", None)
    if stored and stored[0][0] in _DTYPES:
        config.pop("torch_dtype", None)
        config["dtype"] = _DTYPES[stored[0][0]]
    (model / "config.json").write_text(json.dumps(config, indent=2) + "\n")
