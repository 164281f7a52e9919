"""The precision of exports: that of the run, whose engine samples, validates and is served with it."""

import json
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from ratchet_kit import files
from trainer_service.job.run.config import Dtype

_INDEX = "model.safetensors.index.json"


def round_weights(model: Path, dtype: Dtype) -> None:
    """Rounds verl's float32 weights in a folder as `rank.weights.gather` rounds what it sends, so that both have one
    policy id. One file at a time is in memory. May be done twice."""
    kind: torch.dtype = getattr(torch, dtype)
    for file in sorted(model.glob("*.safetensors")):
        tensors = load_file(file)
        if all(tensor.dtype == kind or not tensor.is_floating_point() for tensor in tensors.values()):
            continue
        rounded = {name: one.to(kind) if one.is_floating_point() else one for name, one in tensors.items()}
        with files.whole(file) as draft:
            save_file(rounded, draft, metadata={"format": "pt"})
    if (index := model / _INDEX).is_file():
        described = json.loads(index.read_text())
        described["metadata"] = {"total_size": sum(file.stat().st_size for file in model.glob("*.safetensors"))}
        index.write_text(json.dumps(described, indent=2) + "\n")
