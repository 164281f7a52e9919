"""Completions whose advantages are all 0, as those of a group of one reward: the gradient of their loss is 0. They go
through the policy forwards alone, for the metrics of the step, in passes of their own.
"""

from functools import partial
from typing import Any

import torch
import verl.workers.engine.utils
from tensordict import TensorDict
from verl.utils import tensordict_utils as tu
from verl.workers.engine.fsdp.transformer_impl import FSDPEngineWithLMHead

from trainer_service.verl.rank.losses import policy_loss
from trainer_service.verl.rank.patches.padded_passes import rows_at

HELD = {
    "verl.workers.engine.fsdp.transformer_impl:FSDPEngine.forward_backward_batch": "be92c8d155f0c179",
    "verl.workers.engine.fsdp.transformer_impl:FSDPEngineWithLMHead.forward_step": "ec2681395b00c654",
    "verl.workers.engine.utils:prepare_micro_batches": "e3083217530fed22",
}

APART = "ratchet_without_signal_apart"
"""Of a batch of which those are to be apart."""
FORWARDS = "ratchet_forwards_alone"
"""Of a pass."""
LOSSES = {"vanilla", "gspo", "cispo"}
"""Those that are advantages times something. Others have a part of their own."""


def apply() -> None:
    """verl has no such choice. After `padded_passes`, whose passes these are."""
    together = verl.workers.engine.utils.rearrange_micro_batches
    engine: Any = FSDPEngineWithLMHead
    run, step = engine.forward_backward_batch, engine.forward_step

    def rearrange_micro_batches(
        batch: TensorDict, max_token_len: int, **options: Any
    ) -> tuple[list[TensorDict], list[list[int]]]:
        if not tu.get_non_tensor_data(batch, APART, default=False):
            return together(batch, max_token_len, **options)
        # The last pass is one with gradients: with it ranks exchange them.
        made, indices = [], []
        without, learned = parted(batch["advantages"], batch["response_mask"])
        for places, forwards in ((without, True), (learned, False)):
            if not places:
                continue
            part = rows_at(batch, places)
            passes, within = together(part, max_token_len, **options)
            for one in passes:
                tu.assign_non_tensor(one, **{FORWARDS: forwards})
            made += passes
            indices += [[places[place] for place in group] for group in within]
        return made, indices

    def forward_backward_batch(
        self: Any, data: TensorDict, loss_function: Any, forward_only: bool = False, **named: Any
    ) -> Any:
        alone = self.get_data_parallel_size() == 1  # else each rank has as many passes with gradients as the others
        if alone and not forward_only and "advantages" in data and _is_silent(loss_function):
            tu.assign_non_tensor(data, **{APART: True})
        return run(self, data, loss_function, forward_only=forward_only, **named)

    def forward_step(self: Any, micro_batch: TensorDict, loss_function: Any, forward_only: bool) -> Any:
        if not tu.get_non_tensor_data(micro_batch, FORWARDS, default=False):
            return step(self, micro_batch, loss_function, forward_only)
        with torch.no_grad():
            loss, found = step(self, micro_batch, loss_function, forward_only)
        return torch.zeros_like(loss, requires_grad=True), found

    verl.workers.engine.utils.rearrange_micro_batches = rearrange_micro_batches
    engine.forward_backward_batch = forward_backward_batch
    engine.forward_step = forward_step


def parted(advantages: torch.Tensor, mask: torch.Tensor) -> tuple[list[int], list[int]]:
    """The rows without an advantage, and those with one, of nested (rows, tokens). One row at least is of the latter:
    an update of zeros is still a step of the optimizer, by its moments."""
    learns = [bool((row * shown).any()) for row, shown in zip(advantages.unbind(), mask.unbind(), strict=True)]
    if not any(learns):
        learns[0] = True
    return [place for place, yes in enumerate(learns) if not yes], [place for place, yes in enumerate(learns) if yes]


def _is_silent(loss_function: Any) -> bool:
    """Whether it has no gradient where there is no advantage. Where a batch is learned from in several updates, verl's
    metrics are means over passes: there they stay as they are."""
    if not isinstance(loss_function, partial) or loss_function.func is not policy_loss:
        return False
    config = loss_function.keywords["config"]
    mode, once = config.policy_loss.get("loss_mode", "vanilla"), config.policy_loss.rollout_correction
    learned_once = once.get("bypass_mode", False)
    return learned_once and mode in LOSSES and not config.use_kl_loss and config.entropy_coeff == 0
