"""Problems composed of small operations, split by structure so that held-out ones are compositions never trained on."""

from ratchet_problems.composed.generate import SPLITS, composed_problems, demonstrations

__all__ = ["SPLITS", "composed_problems", "demonstrations"]
