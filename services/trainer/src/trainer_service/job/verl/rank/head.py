"""Log-probs and entropies of tokens from hidden states, with the logits of `footprint.SLICE` tokens at a time.

What verl's own does (utils/experimental/torch_functional.py), which has seven copies of such logits at once where this
has two, and computes them for tokens whose output nobody uses.
"""

from typing import Any

import torch

from trainer_service.domain.footprint import SLICE

UNUSED = -100
"""The label of a token whose outputs are not used: they are 0. As in PyTorch's cross entropy."""


class FusedHead(torch.nn.Module):
    """In the place of verl's FusedLinearForPPO."""

    def __init__(self, impl_backend: str = "torch") -> None:
        super().__init__()

    def forward(
        self, hidden_states: torch.Tensor, vocab_weights: torch.Tensor, input_ids: torch.Tensor, temperature: float
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """`hidden_states`: (..., hidden); `input_ids`: the labels, (...). Returns log-probs and entropies in float32,
        (...)."""
        shape = input_ids.shape
        hidden_states, labels = hidden_states.reshape(-1, hidden_states.shape[-1]), input_ids.reshape(-1).long()
        log_probs, entropies = _Head.apply(hidden_states, vocab_weights, labels, temperature)
        return log_probs.view(shape), entropies.view(shape)


class _Head(torch.autograd.Function):
    @staticmethod
    def forward(
        context: Any, hidden: torch.Tensor, head: torch.Tensor, labels: torch.Tensor, temperature: float
    ) -> tuple[torch.Tensor, torch.Tensor]:
        context.set_materialize_grads(False)
        log_probs, entropies, scales = (hidden.new_zeros(len(labels), dtype=torch.float32) for _ in range(3))
        for taken in (labels != UNUSED).nonzero().squeeze(1).split(SLICE):
            logits = _logits(hidden[taken], head, temperature)
            scales[taken] = scale = logits.logsumexp(1)
            log_probs[taken] = logits.gather(1, labels[taken, None]).squeeze(1) - scale
            probabilities = (logits - scale[:, None]).exp_()
            entropies[taken] = scale - logits.mul_(probabilities).sum(1)
        context.save_for_backward(hidden, head, labels, scales, entropies)
        context.temperature = temperature
        return log_probs, entropies

    @staticmethod
    def backward(
        context: Any, of_log_probs: torch.Tensor | None, of_entropies: torch.Tensor | None
    ) -> tuple[torch.Tensor | None, torch.Tensor | None, None, None]:
        """With p the probabilities, l the logits, H the entropy: d log p_label / dl = one_hot - p, and
        dH / dl = -p (log p + H)."""
        hidden, head, labels, scales, entropies = context.saved_tensors
        needs_hidden, needs_head, *_ = context.needs_input_grad
        to_hidden = torch.zeros_like(hidden) if needs_hidden else None
        to_head = torch.zeros_like(head) if needs_head else None
        used = labels != UNUSED
        if of_entropies is None and of_log_probs is not None:
            used &= of_log_probs != 0  # nothing is learned from the others
        for taken in used.nonzero().squeeze(1).split(SLICE):
            inputs = hidden[taken]
            logs = _logits(inputs, head, context.temperature).sub_(scales[taken, None])
            slopes = torch.zeros(len(taken), 1, device=head.device)
            if of_log_probs is not None:
                slopes = of_log_probs[taken, None].float()
            if of_entropies is None:
                gradient = logs.exp_().mul_(-slopes)
            else:
                of_entropy = of_entropies[taken, None].float()
                probabilities = logs.exp()
                gradient = logs.add_(entropies[taken, None]).mul_(-of_entropy).sub_(slopes).mul_(probabilities)
            gradient.scatter_add_(1, labels[taken, None], slopes)
            scaled = gradient.div_(context.temperature).to(head.dtype)
            if to_hidden is not None:
                to_hidden[taken] = scaled @ head
            if to_head is not None:
                to_head.addmm_(scaled.t(), inputs)
        return to_hidden, to_head, None, None


def _logits(hidden: torch.Tensor, head: torch.Tensor, temperature: float) -> torch.Tensor:
    return (hidden @ head.t()).float().div_(temperature)
