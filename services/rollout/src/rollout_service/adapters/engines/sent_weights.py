"""The tensors of a folder of safetensors files, as torch sees them."""

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import torch
from safetensors import safe_open
from torch import Tensor, nn

Read = Callable[[str], Tensor | None]
"""The sent tensor of this name in the model's own naming, or None when none was sent."""
DTYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}


class SentWeights:
    """Read on demand, while `stack` is open."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        files = [stack.enter_context(safe_open(file, framework="pt")) for file in sorted(folder.glob("*.safetensors"))]
        self._files = {name: file for file in files for name in file.keys()}  # noqa: SIM118 - not a dict

    def __iter__(self) -> Iterator[tuple[str, Tensor]]:
        return ((name, self[name]) for name in self._files)

    def __getitem__(self, name: str) -> Tensor:
        tensor: Tensor = self._files[name].get_tensor(name)
        return tensor

    def shapes(self) -> dict[str, tuple[tuple[int, ...], torch.dtype]]:
        """Raises KeyError for a dtype that no weights are trained in."""
        slices = {name: file.get_slice(name) for name, file in self._files.items()}
        return {name: (tuple(one.get_shape()), DTYPES[one.get_dtype()]) for name, one in slices.items()}

    def reader(self, model: nn.Module) -> Read:
        """Reads by the model's own names, which in vLLM may be others than the checkpoint's; parts of fused layers keep
        those of the checkpoint."""
        names = {name: name for name in self._files}
        mapper = getattr(model, "hf_to_vllm_mapper", None)
        if mapper is not None:
            mapper = dataclasses.replace(mapper, orig_to_new_stacked={})
            names = {own: name for name in self._files if (own := mapper.map_name(name)) is not None}

        def read(own: str) -> Tensor | None:
            name = names.get(own)
            return None if name is None else self[name]

        return read
