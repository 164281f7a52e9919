"""verl's model with a value for each token, made for a reward model: a sequence classifier of transformers."""

from typing import Any

import torch
from transformers import AutoModelForSequenceClassification

from ratchet_kit.errors import InvalidArgument


def with_reward_head(model: Any, seed: int) -> Any:
    """The token classifier, with a head that has no bias, whose weights the seed decides: the names of its weights are
    then those of the sequence classifier, which differs in where it takes the score.

    Raises InvalidArgument for an architecture of which that is not so.
    """
    head = getattr(model, "score", None)
    if isinstance(head, torch.nn.Linear):
        model.score = torch.nn.Linear(
            head.in_features, 1, bias=False, device=head.weight.device, dtype=head.weight.dtype
        )
        if not model.score.weight.is_meta:
            drawn = torch.Generator().manual_seed(seed)
            deviation = getattr(model.config, "initializer_range", 0.02)
            torch.nn.init.normal_(model.score.weight, std=deviation, generator=drawn)
    with torch.device("meta"):
        twin = AutoModelForSequenceClassification.from_config(model.config)
    if {*twin.state_dict()} != {*model.state_dict()}:
        raise InvalidArgument(f"no reward model can be made of a {model.config.model_type} model")
    # By which verl chooses what to write (utils/checkpoint/fsdp_checkpoint_manager.py:431).
    model.config.architectures = [type(model).__name__]
    return model
