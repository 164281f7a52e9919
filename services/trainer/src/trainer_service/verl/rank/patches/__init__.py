"""Every change to verl 0.9.1 and torch that has no public hook: a file each, which names the line that needs it and
goes with it. `HELD`: the functions that it replaces or rests on, by a hash of their source. Another verl fails by name.
"""

import os

from trainer_service.verl.rank.patches import (
    checkpoints_of_any_ranks,
    cpu,
    gathered_head,
    head_of_used_tokens,
    held,
    learning_rates,
    merged_lora,
    own_transfer_queue,
    padded_passes,
    plain_generation_config,
    reported_learning_rate,
    rollout_adapter,
    seeded_lora,
    tokens_of_the_embedding,
    value_head,
    without_signal,
)

EVERYWHERE = (
    rollout_adapter,
    own_transfer_queue,
    tokens_of_the_embedding,
    value_head,
    padded_passes,
    without_signal,
    gathered_head,
    head_of_used_tokens,
    plain_generation_config,
    merged_lora,
    seeded_lora,
    learning_rates,
    reported_learning_rate,
    checkpoints_of_any_ranks,
)


def apply() -> None:
    """Raises ImportError where verl is not the one that they were written for. For each process once: verl imports its
    external modules once."""
    patches = EVERYWHERE + (cpu.PATCHES if os.environ.get("VERL_PLATFORM") == "cpu" else ())
    for patch in patches:  # all of them before any is in place
        held.check(patch.HELD)
    for patch in patches:
        patch.apply()
