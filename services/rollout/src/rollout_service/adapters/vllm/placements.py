"""Where vLLM puts the tensors of a checkpoint: fused with others, cut to a rank's shard, padded.

Its own loader says so. It is given tensors without memory (torch's device "meta"), for a model whose parameters have
none either, as they were before kernels repacked them. Each copy from one to the other is noted, and nothing is copied.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from vllm.model_executor.model_loader.reload.layerwise import get_layerwise_info
from vllm.model_executor.model_loader.reload.meta import to_meta_tensor
from vllm.model_executor.model_loader.reload.sanitize import restore_layer_refs

_FILLS = {torch.ops.aten.fill_.Scalar, torch.ops.aten.zero_.default}
"""What a loader does to the padding."""


class Unpatchable(Exception):
    """What changed cannot be applied in place; says why."""


@dataclass(frozen=True, slots=True)
class Axis:
    """One dimension of what is copied."""

    size: int
    low: int
    """Where it begins in the checkpoint's tensor."""
    stride: int
    """There."""
    target_stride: int


@dataclass(frozen=True, slots=True)
class Placement:
    """A part of a checkpoint's tensor, and where it lies in a parameter. Both are counted in elements, flat."""

    module: nn.Module
    leaf: str
    axes: tuple[Axis, ...]
    target_offset: int

    def targets(self, places: Tensor) -> tuple[Tensor, Tensor | slice]:
        """Where the elements at `places` (ascending) of the checkpoint's tensor lie in the parameter; and which of them
        do: the others are elsewhere."""
        if len(self.axes) == 1 and self.axes[0].stride == self.axes[0].target_stride == 1:
            low, size = self.axes[0].low, self.axes[0].size
            first, last = torch.searchsorted(places, torch.tensor([low, low + size], dtype=places.dtype)).tolist()
            return places[first:last].long() + (self.target_offset - low), slice(first, last)
        rest, target = places.long(), torch.full_like(places, self.target_offset, dtype=torch.long)
        within = torch.ones_like(places, dtype=torch.bool)
        for axis in self.axes:
            own = rest.div(axis.stride, rounding_mode="floor") - axis.low
            rest = rest % axis.stride
            within &= (own >= 0) & (own < axis.size)
            target += own * axis.target_stride
        return target[within], within

    def copy(self, sent: Tensor, parameter: Tensor) -> None:
        """Copies the part of `sent` to its place. Both are contiguous."""
        sizes = [axis.size for axis in self.axes]
        offset = sum(axis.low * axis.stride for axis in self.axes)
        source = sent.reshape(-1)[offset:].as_strided(sizes, [axis.stride for axis in self.axes])
        target = parameter.view(-1)[self.target_offset :].as_strided(sizes, [axis.target_stride for axis in self.axes])
        target.copy_(source)


@dataclass(frozen=True, slots=True)
class Placements:
    of: Mapping[str, list[Placement]]
    """By the checkpoint's name of a tensor."""
    shapes: Mapping[tuple[nn.Module, str], tuple[torch.Size, torch.dtype]]
    """Of each parameter that is loaded, before a kernel repacks it."""


def find_placements(model: nn.Module, tensors: Mapping[str, tuple[tuple[int, ...], torch.dtype]]) -> Placements:
    """Where `model` puts tensors of these names, shapes and dtypes.

    Raises Unpatchable where its loader does more than to copy parts of them.
    """
    sent = {name: torch.empty(shape, dtype=dtype, device="meta") for name, (shape, dtype) in tensors.items()}
    with _without_memory(model):
        parameters = {
            _storage(parameter): (module, leaf)
            for module in model.modules()
            for leaf, parameter in module.named_parameters(recurse=False)
        }
        loader = _Loader({_storage(one): name for name, one in sent.items()}, parameters)
        try:
            with torch.no_grad(), loader:
                model.load_weights(iter(sent.items()))
        except Unpatchable:
            raise
        except Exception as error:
            raise Unpatchable(f"vLLM's loader looks at values: {type(error).__name__}: {error}") from error
        found: dict[str, list[Placement]] = {name: [] for name in tensors}
        shapes = {}
        for name, source, target in loader.copies:
            module, leaf = parameters[_storage(target)]
            found[name].append(_placement(name, module, leaf, source, target, tensors[name][0]))
            parameter = module.get_parameter(leaf)
            shapes[module, leaf] = parameter.shape, parameter.dtype
            loader.filled[_storage(target)] += target.numel()
        for storage, count in loader.filled.items():
            if (shape := shapes.get(parameters[storage])) is not None and count != shape[0].numel():
                raise Unpatchable(f"it is not known where all of a {parameters[storage][1]} comes from")
    return Placements(found, shapes)


class _Loader(TorchDispatchMode):  # type: ignore[misc]
    """Notes what is copied from tensors of a checkpoint to parameters; copies nothing."""

    def __init__(self, sent: Mapping[int, str], parameters: Mapping[int, Any]) -> None:
        """Both by their storage."""
        super().__init__()
        self._sent, self._targets = sent, parameters
        self.copies: list[tuple[str, Tensor, Tensor]] = []
        """Name, the part of the checkpoint's tensor, the part of the parameter."""
        self.filled: Counter[int] = Counter()
        """Elements of padding, by the parameter's storage."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        named = kwargs or {}
        written = named.get("out", args[0] if args and str(func).split(".")[1].endswith("_") else None)
        if isinstance(written, Tensor):
            target = _storage(written)
            source = self._sent.get(_storage(args[1])) if func is torch.ops.aten.copy_.default else None
            if source is not None and target in self._targets:
                self.copies.append((source, args[1], written))
                return written
            if func in _FILLS and target in self._targets:
                self.filled[target] += written.numel()
                return written
            if source is not None or target in self._targets or not written.is_meta:
                raise Unpatchable(f"vLLM's loader does more than to copy what was sent ({func})")
        return func(*args, **named)


def _placement(
    name: str, module: nn.Module, leaf: str, source: Tensor, target: Tensor, shape: tuple[int, ...]
) -> Placement:
    if source.is_contiguous() and target.is_contiguous():  # one run of elements, whatever its shape
        axes: tuple[Axis, ...] = (Axis(source.numel(), source.storage_offset(), 1, 1),)
        return Placement(module, leaf, axes, target.storage_offset())
    strides = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
    own = list(zip(source.shape, source.stride(), strict=True))
    if len(own) != len(shape) or any(size > 1 and stride != strides[axis] for axis, (size, stride) in enumerate(own)):
        raise Unpatchable(f"{name} is turned round before it is loaded")
    axes, rest = (), source.storage_offset()
    for axis, size in enumerate(source.shape):
        axes += (Axis(size, rest // strides[axis], strides[axis], target.stride(axis)),)
        rest %= strides[axis]
    return Placement(module, leaf, axes, target.storage_offset())


@contextmanager
def _without_memory(model: nn.Module) -> Iterator[None]:
    """Inside, the parameters of `model` are as before they were loaded, and have no memory. Nothing may compute."""
    kept = [(module, dict(module.named_parameters(recurse=False))) for module in model.modules()]
    try:
        for module, own in kept:
            for leaf, parameter in get_layerwise_info(module).restore_metadata[0].items():
                if leaf in own:
                    module.register_parameter(leaf, _as_before(parameter, module))
        yield
    finally:
        for module, own in kept:
            for leaf, parameter in own.items():
                module.register_parameter(leaf, parameter)


def _as_before(parameter: nn.Parameter, module: nn.Module) -> nn.Parameter:
    """A copy of what vLLM keeps of a parameter, with the loader that it had: a reload leaves another there, which loads
    nothing once that has ended."""
    kept: nn.Parameter = restore_layer_refs(to_meta_tensor(parameter), module)
    loader: Any = getattr(kept, "weight_loader", None)
    while getattr(loader, "__name__", "") == "online_process_loader":
        loader = loader.__wrapped__
        kept.weight_loader = loader
    return kept


def _storage(tensor: Tensor) -> int:
    """The same for all views of a tensor that is kept."""
    return id(tensor.untyped_storage())
