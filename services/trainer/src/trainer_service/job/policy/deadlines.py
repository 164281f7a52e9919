"""How long a job's call to rollout-service may take. Deadlines end what hangs, and so are those of the slowest machine
that is worth waiting for; an engine that has died is noticed at once."""

from datetime import timedelta

from trainer_service.domain.spec.hyperparameters import Hyperparameters

LEAST = timedelta(minutes=10)
_TOKENS_PER_SECOND = 50
"""Of all completions together. Two cores give 110 and more of a model of 135 million parameters, a GPU thousands."""
_BYTES_PER_SECOND = 20 << 20
"""Of weights that are sent, hashed twice, written and loaded."""


def generation(hyper: Hyperparameters, waiting: int) -> timedelta:
    """For the completions of a prompt. `waiting`: completions that may be asked for at once, and be served before."""
    tokens = waiting * (hyper.max_response_tokens or 0)
    return LEAST + timedelta(seconds=tokens / _TOKENS_PER_SECOND)


def weights(size_bytes: int) -> timedelta:
    """For weights to be fetched or received by rollout-service, and loaded."""
    return LEAST + timedelta(seconds=size_bytes / _BYTES_PER_SECOND)
