"""Runs inside the workers of vLLM (`worker_extension_cls`): loads new weights, checks that vLLM computes with them."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol

from torch import Tensor, nn
from vllm.config import VllmConfig, set_current_vllm_config
from vllm.logger import init_logger
from vllm.model_executor.layers.vocab_parallel_embedding import ParallelLMHead, VocabParallelEmbedding

from rollout_service.adapters.engines.sent_weights import SentWeights
from rollout_service.adapters.vllm import compile_cache
from rollout_service.adapters.vllm.patch import Patcher
from rollout_service.adapters.vllm.probe import Report, probe_model

logger = init_logger(__name__)
compile_cache.apply()  # this module is imported in each worker before it compiles


class Worker(Protocol):
    """What is used of a worker of vLLM."""

    vllm_config: VllmConfig

    def reload_weights(self, *, weights_iterator: Iterator[tuple[str, Tensor]], is_checkpoint_format: bool) -> None: ...

    def get_model(self) -> nn.Module: ...


class WeightExtension:
    """Mixed into the worker class of vLLM. `collective_rpc` calls it on every rank."""

    def ratchet_load_weights(self: Worker, folder: str, policy_id: str = "", repack: bool = True) -> dict[str, Any]:
        """Loads the safetensors files of `folder` in place, then probes the model.

        `policy_id`: theirs. `repack=False` skips the correction of a tied output layer; only the test of the probe uses
        it. Returns `error` (largest relative error) and `failures` (one sentence each; empty when all is right).
        """
        patcher = _patcher(self)
        patcher.drop()
        patcher.held = ""
        with ExitStack() as stack:
            sent = SentWeights(Path(folder), stack)
            self.reload_weights(weights_iterator=iter(sent), is_checkpoint_format=True)
            model = self.get_model()
            if repack:
                _repack_tied_heads(model)
            report = probe_model(model, sent.reader(model))
        return _said(report, patcher, policy_id)

    def ratchet_prepare_changes(self: Worker, folder: str, policy_id: str, base: str, digest: str) -> None:
        """See `Patcher.begin`."""
        _patcher(self).begin(Path(folder), policy_id, base, digest)

    def ratchet_prepare_on(self: Worker) -> str | None:
        """See `Patcher.go_on`."""
        with set_current_vllm_config(self.vllm_config):
            return _patcher(self).go_on()

    def ratchet_apply_changes(self: Worker, policy_id: str) -> dict[str, Any]:
        """Applies what is ready, which makes the weights `policy_id`, and probes the model. Returns as the first.

        Raises Unpatchable.
        """
        patcher = _patcher(self)
        return _said(patcher.apply(policy_id), patcher, policy_id)

    def ratchet_drop_changes(self: Worker) -> bool:
        """See `Patcher.drop_some`."""
        return _patcher(self).drop_some()


def _patcher(worker: Any) -> Patcher:
    if "ratchet_patcher" not in vars(worker):
        worker.ratchet_patcher = Patcher(worker.get_model(), worker.vllm_config)
    patcher: Patcher = worker.ratchet_patcher
    return patcher


def _said(report: Report, patcher: Patcher, policy_id: str) -> dict[str, Any]:
    """What a load says of the probe. `patcher` knows from now on which weights the model has."""
    if report.skipped:
        logger.warning("weight probe: nothing to compare these modules with: %s", ", ".join(report.skipped))
    logger.info("weight probe: %d comparisons, largest error %.3g", len(report.probes), report.error)
    failures = [f"{p.name} differs by {p.error:.3g} (allowed {p.tolerance:.3g})" for p in report.failures]
    failures += [f"{name} could not be probed" for name in report.skipped if _is_vocabulary(patcher.model, name)]
    patcher.held = "" if failures else policy_id
    return {"error": report.error, "failures": failures}


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
