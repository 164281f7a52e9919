"""Log-probs and entropies of tokens from hidden states, with the logits of `memory.SLICE` tokens at a time.

What verl's own does (utils/experimental/torch_functional.py), which has seven copies of such logits at once where this
has two, and computes them for tokens whose output nobody uses.
"""

from typing import Any

import torch

from trainer_service.domain.create.memory import SLICE

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
        hidden = hidden_states.reshape(-1, hidden_states.shape[-1]).to(vocab_weights.dtype)
        log_probs, entropies = _Head.apply(hidden, vocab_weights, input_ids.reshape(-1).long(), temperature)
        return log_probs.view(shape), entropies.view(shape)


class _Head(torch.autograd.Function):
    """A slice's logits are gone when the next one's are made: each has a function of its own."""

    @staticmethod
    def forward(
        context: Any, hidden: torch.Tensor, head: torch.Tensor, labels: torch.Tensor, temperature: float
    ) -> tuple[torch.Tensor, torch.Tensor]:
        context.set_materialize_grads(False)
        log_probs, entropies, scales = (hidden.new_zeros(len(labels), dtype=torch.float32) for _ in range(3))
        for taken in (labels != UNUSED).nonzero().squeeze(1).split(SLICE):
            of_slice = _read(hidden[taken], head, labels[taken], temperature)
            log_probs[taken], entropies[taken], scales[taken] = of_slice
        context.save_for_backward(hidden, head, labels, scales, entropies)
        context.temperature = temperature
        return log_probs, entropies

    @staticmethod
    def backward(
        context: Any, of_log_probs: torch.Tensor | None, of_entropies: torch.Tensor | None
    ) -> tuple[torch.Tensor | None, torch.Tensor | None, None, None]:
        hidden, head, labels, scales, entropies = context.saved_tensors
        needs_hidden, needs_head, *_ = context.needs_input_grad
        to_hidden = torch.zeros_like(hidden) if needs_hidden else None
        # Sums over all slices: in bfloat16 what a slice adds is soon less than half of the last bit of what is there.
        to_head = torch.zeros_like(head, dtype=torch.float32) if needs_head else None
        if of_log_probs is None:
            of_log_probs = torch.zeros_like(scales)
        used = labels != UNUSED
        if of_entropies is None:
            used &= of_log_probs != 0  # nothing is learned from the others
        for taken in used.nonzero().squeeze(1).split(SLICE):
            inputs = hidden[taken]
            slopes = of_log_probs[taken, None].float()
            if of_entropies is None:
                by_entropy = None
            else:
                by_entropy = of_entropies[taken, None].float(), entropies[taken, None]
            gradient = _slopes(
                inputs, head, labels[taken], context.temperature, scales[taken, None], slopes, by_entropy
            )
            if to_hidden is not None:
                to_hidden[taken] = gradient @ head
            if to_head is not None:
                to_head += gradient.t() @ inputs
            del gradient
        return to_hidden, None if to_head is None else to_head.to(head.dtype), None, None


def _read(
    hidden: torch.Tensor, head: torch.Tensor, labels: torch.Tensor, temperature: float
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Log-probs of the labels, entropies, and the logarithms of what probabilities are divided by; (tokens,) each."""
    logits = _logits(hidden, head, temperature)
    scales = logits.logsumexp(1)
    log_probs = logits.gather(1, labels[:, None]).squeeze(1) - scales
    probabilities = (logits - scales[:, None]).exp_()
    return log_probs, scales - logits.mul_(probabilities).sum(1), scales


def _slopes(
    hidden: torch.Tensor,
    head: torch.Tensor,
    labels: torch.Tensor,
    temperature: float,
    scales: torch.Tensor,
    of_log_probs: torch.Tensor,
    by_entropy: tuple[torch.Tensor, torch.Tensor] | None,
) -> torch.Tensor:
    """The loss's gradient by what the head makes, (tokens, vocabulary). `by_entropy`: the loss's gradient by entropies,
    and these. With p the probabilities and H the entropy, d log p_label / d logits is one_hot - p, and dH / d logits is
    -p (log p + H)."""
    logs = _logits(hidden, head, temperature).sub_(scales)
    if by_entropy is None:
        gradient = logs.exp_().mul_(-of_log_probs)
    else:
        of_entropies, entropies = by_entropy
        probabilities = logs.exp()
        gradient = logs.add_(entropies).mul_(-of_entropies).sub_(of_log_probs).mul_(probabilities)
    return gradient.scatter_add_(1, labels[:, None], of_log_probs).div_(temperature).to(head.dtype)


def _logits(hidden: torch.Tensor, head: torch.Tensor, temperature: float) -> torch.Tensor:
    return (hidden @ head.t()).float().div_(temperature)
