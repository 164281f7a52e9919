"""Checks that a model has the weights that it was sent.

Modules of torch compute with their parameters as they are: no kernel has a copy of its own, as in vLLM. So the sent
tensors are compared with the parameters, all of them and in every bit.
"""

import re
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import torch
from torch import Tensor, nn

from ratchet_kit.logs import get_logger
from rollout_service.adapters.engines.refusals import WeightsRefused
from rollout_service.adapters.engines.sent_weights import SentWeights

log = get_logger(__name__)


def check(model: nn.Module, folder: Path) -> None:
    """Raises WeightsRefused where the model differs from the files of `folder`, lacks layers that these have, or there
    is nothing to compare its embeddings or its output layer with."""
    errors, compared, without_place = dict[str, float](), set[int](), list[str]()
    layers = {_of_any_layer(name) for name, _ in model.named_parameters()}
    with ExitStack() as stack:
        for name, sent in SentWeights(folder, stack):
            parameter = _named(model, name)
            if parameter is None and not layers.isdisjoint(map(_of_any_layer, _names(model, name))):
                without_place.append(name)
            if parameter is None or parameter.shape != sent.shape:
                continue
            errors[name] = _difference(parameter, sent)
            compared.add(parameter.data_ptr())
    failures = [f"{name} differs by {error:.3g}" for name, error in errors.items() if error != 0]
    lacking = [name for name, one in model.named_parameters() if one.data_ptr() not in compared]
    failures += [f"{name} has no place in the model of the config" for name in without_place]
    failures += [f"{name} could not be compared" for name in lacking if _is_vocabulary(model, name)]
    if failures:
        raise WeightsRefused(
            f"the engine does not compute with the sent weights: {'; '.join(failures[:3])} ({len(failures)} in all)"
        )
    if lacking:
        log.warning("weights.not_compared", reason="no tensor of their names was sent", parameters=lacking)
    log.info("weights.compared", tensors=len(errors))


def _named(model: nn.Module, name: str) -> Tensor | None:
    for own in _names(model, name):
        parent, _, leaf = own.rpartition(".")
        try:
            found = getattr(model.get_submodule(parent), leaf, None)
        except AttributeError:
            continue
        if isinstance(found, Tensor):
            return found
    return None


def _names(model: nn.Module, name: str) -> Sequence[str]:
    """A checkpoint may lack the name of the part under the output layer, or have it where the model has not."""
    prefix = f"{getattr(model, 'base_model_prefix', '')}."
    return name, prefix + name, name.removeprefix(prefix)


def _of_any_layer(name: str) -> str:
    return re.sub(r"\d+", "*", name)


def _difference(parameter: Tensor, sent: Tensor) -> float:
    """The largest, relative to the largest magnitude that was sent."""
    expected = sent.to(device=parameter.device, dtype=parameter.dtype)
    if torch.equal(parameter, expected):
        return 0.0
    scale = expected.float().abs().max().clamp_min(torch.finfo(torch.float32).tiny)
    return float((parameter.float() - expected.float()).abs().max() / scale)


def _is_vocabulary(model: nn.Module, name: str) -> bool:
    owner = model.get_submodule(name.rpartition(".")[0])
    return owner in (model.get_input_embeddings(), model.get_output_embeddings())
