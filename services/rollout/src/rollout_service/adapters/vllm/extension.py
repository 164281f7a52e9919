"""Runs inside the workers of vLLM (`worker_extension_cls`): loads new weights, checks that vLLM computes with them."""

import dataclasses
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol

from safetensors import safe_open
from torch import Tensor, nn
from vllm.logger import init_logger
from vllm.model_executor.layers.vocab_parallel_embedding import ParallelLMHead, VocabParallelEmbedding

from rollout_service.adapters.vllm.probe import Read, probe_model

logger = init_logger(__name__)


class Worker(Protocol):
    """What is used of a worker of vLLM."""

    def reload_weights(self, *, weights_iterator: Iterator[tuple[str, Tensor]], is_checkpoint_format: bool) -> None: ...

    def get_model(self) -> nn.Module: ...


class WeightExtension:
    """Mixed into the worker class of vLLM. `collective_rpc` calls it on every rank."""

    def ratchet_load_weights(self: Worker, folder: str, repack: bool = True) -> dict[str, Any]:
        """Loads the safetensors files of `folder` in place, then probes the model.

        `repack=False` skips the correction of a tied output layer; only the test of the probe uses it.
        Returns `error` (largest relative error) and `failures` (one sentence each; empty when all is right).
        """
        with ExitStack() as stack:
            sent = SentWeights(Path(folder), stack)
            self.reload_weights(weights_iterator=iter(sent), is_checkpoint_format=True)
            model = self.get_model()
            if repack:
                _repack_tied_heads(model)
            report = probe_model(model, sent.reader(model))
        if report.skipped:
            logger.warning("weight probe: nothing to compare these modules with: %s", ", ".join(report.skipped))
        logger.info("weight probe: %d comparisons, largest error %.3g", len(report.probes), report.error)
        failures = [f"{p.name} differs by {p.error:.3g} (allowed {p.tolerance:.3g})" for p in report.failures]
        failures += [f"{name} could not be probed" for name in report.skipped if _is_vocabulary(model, name)]
        return {"error": report.error, "failures": failures}


class SentWeights:
    """The tensors in the safetensors files of a folder, read on demand."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        files = [stack.enter_context(safe_open(file, framework="pt")) for file in sorted(folder.glob("*.safetensors"))]
        self._files = {name: file for file in files for name in file.keys()}  # noqa: SIM118 - not a dict

    def __iter__(self) -> Iterator[tuple[str, Tensor]]:
        return ((name, file.get_tensor(name)) for name, file in self._files.items())

    def reader(self, model: nn.Module) -> Read:
        """Reads by the module names of vLLM's model. Parts of fused layers keep their names of the checkpoint."""
        names = {name: name for name in self._files}
        mapper = getattr(model, "hf_to_vllm_mapper", None)
        if mapper is not None:
            mapper = dataclasses.replace(mapper, orig_to_new_stacked={})
            names = {own: name for name in self._files if (own := mapper.map_name(name)) is not None}

        def read(own: str) -> Tensor | None:
            name = names.get(own)
            return None if name is None else self._files[name].get_tensor(name)

        return read


def _repack_tied_heads(model: nn.Module) -> None:
    """vLLM 0.32 on CPU does not repack an output layer that is tied to the embedding: its kernel keeps the old one."""
    config = getattr(model, "config", None)
    if not getattr(config, "tie_word_embeddings", False):
        return
    embedding = next((m for m in model.modules() if type(m) is VocabParallelEmbedding), None)
    for head in model.modules():
        if isinstance(head, ParallelLMHead) and embedding is not None:
            head.weight = embedding.weight
            head.quant_method.process_weights_after_loading(head)


def _is_vocabulary(model: nn.Module, name: str) -> bool:
    return isinstance(model.get_submodule(name), VocabParallelEmbedding)
