"""The policy's weights with what LoRA learned in them, as the base names them."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from peft.tuners.lora import LoraLayer
from peft.utils import transpose
from torch.distributed.tensor import DTensor
from verl.utils.model import convert_weight_keys

from ratchet_kit.errors import Unimplemented

ADAPTER = "default"
"""PEFT's name of the only one there is."""


def is_in(model: torch.nn.Module) -> bool:
    return hasattr(model, "peft_config")


@contextmanager
def without(model: Any) -> Iterator[None]:
    """The policy as its base is. PEFT takes the adapters' gradients away for that time, and FSDP2, which looks in its
    first pass at what is trained, would not know in what precision they are kept."""
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    with model.disable_adapter():
        for parameter in trained:
            parameter.requires_grad_(True)
        yield


@torch.no_grad()
def merged(model: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """W + (alpha / rank) B A (arXiv:2106.09685, section 4.1), one tensor at a time, in the precision of training. All
    ranks must take each; neither base nor adapters change. Raises Unimplemented for layers that are no linear ones."""
    layers = {f"{name}.base_layer.weight": one for name, one in model.named_modules() if isinstance(one, LoraLayer)}
    for name, value in model.state_dict().items():
        if ".lora_" in name:
            continue
        whole = _whole(value)
        if layer := layers.get(name):
            down, up = (_whole(part[ADAPTER].weight) for part in (layer.lora_A, layer.lora_B))
            whole = whole + transpose(up @ down, layer.fan_in_fan_out) * layer.scaling[ADAPTER]
        of_base = name.removeprefix("base_model.model.").replace(".base_layer.", ".")
        if "base_layer" in of_base:
            raise Unimplemented(f"LoRA cannot be merged into {of_base}: train all weights (lora_rank=0)")
        yield from convert_weight_keys({of_base: whole}, model).items()


def _whole(value: torch.Tensor) -> torch.Tensor:
    return value.full_tensor() if isinstance(value, DTensor) else value
