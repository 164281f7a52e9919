"""The seeds of completions. With them, a run draws the same samples again, also when it was killed and resumed."""

import hashlib


def group_seed(run_seed: int, purpose: str, step: int, problem_id: str, time: int = 0) -> int:
    """48 bits, for the completions of a problem at a step: rollout-service adds a completion's number to it.

    `purpose`: what the completions are for, so that validation and training draw different ones. `time`: how often the
    problem was drawn in the step before.
    """
    return _seed(f"{run_seed}:{purpose}:{step}:{time}:{problem_id}")


def turn_seed(seed: int, turn: int) -> int:
    """48 bits, for a later answer of the episode whose first one was drawn with `seed`. `turn`: from 1."""
    return _seed(f"{seed}:{turn}")


def continued_seed(seed: int, tokens: int) -> int:
    """48 bits, for the rest of a completion that was drawn with `seed` and broken off after so many tokens."""
    return _seed(f"{seed}:after:{tokens}")


def _seed(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:6], "big")
