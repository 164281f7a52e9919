"""What runs inside vLLM's workers (`worker_extension_cls`): new weights go in, and are proven to be computed with."""

import dataclasses
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors import safe_open
from torch import Tensor, nn
from vllm.logger import init_logger
from vllm.model_executor.layers.vocab_parallel_embedding import ParallelLMHead, VocabParallelEmbedding

from rollout_service.adapters.vllm.probe import Read, probe_model

if TYPE_CHECKING:
    from vllm.v1.worker.gpu_worker import Worker

    _Base = Worker
else:
    _Base = object

logger = init_logger(__name__)


class WeightExtension(_Base):
    """Mixed into vLLM's worker class; called by `collective_rpc` on every rank."""

    def ratchet_load_weights(self, folder: str, repack: bool = True) -> dict[str, Any]:
        """Loads the safetensors of `folder` in place and probes them.

        `repack=False` leaves out what makes a tied output layer right; only the test of the probe uses it.
        Returns `error` (largest relative error) and `failures` (one sentence each; empty when proven).
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
    """The tensors of a folder's safetensors files, read when asked for."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        files = [stack.enter_context(safe_open(file, framework="pt")) for file in sorted(folder.glob("*.safetensors"))]
        self._files = {name: file for file in files for name in file.keys()}  # noqa: SIM118 - not a dict

    def __iter__(self) -> Iterator[tuple[str, Tensor]]:
        return ((name, file.get_tensor(name)) for name, file in self._files.items())

    def reader(self, model: nn.Module) -> Read:
        """Reads by the names of the model's modules; the parts of fused layers keep their names of the checkpoint."""
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
    """vLLM 0.32 on CPU does not re-pack an output layer that is tied to the embedding: its kernel keeps the old one."""
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
