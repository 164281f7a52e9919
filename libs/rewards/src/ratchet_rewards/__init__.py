"""From a verdict, and from what else is measured of a completion, to a number. How a program comes by its verdict is
not known here: see `ratchet_environments`; what measures is `ratchet_quality.measuring`."""

from ratchet_rewards.catalogue import COMPONENTS, PRESETS, completed, kind
from ratchet_rewards.check import check
from ratchet_rewards.combine import Measured, is_vetoed, rewards, score
from ratchet_rewards.grade import PASSED, TAMPERED, Grade
from ratchet_rewards.reward import Combination, Component, Point, Reward

__all__ = [
    "COMPONENTS",
    "PASSED",
    "PRESETS",
    "TAMPERED",
    "Combination",
    "Component",
    "Grade",
    "Measured",
    "Point",
    "Reward",
    "check",
    "completed",
    "is_vetoed",
    "kind",
    "rewards",
    "score",
]
