"""From a verdict, and from what else is measured of a completion, to a number. How a program comes by its verdict is
not known here: see `ratchet_environments`; what measures is `ratchet_quality.measuring`."""

from ratchet_rewards.catalogue import COMPONENTS, NAMES, PRESETS, kind
from ratchet_rewards.check import check, check_own
from ratchet_rewards.combine import Measured, is_vetoed, rewards, score
from ratchet_rewards.complete import completed
from ratchet_rewards.grade import PASSED, TAMPERED, UNTESTED, Grade
from ratchet_rewards.registered import Lookup, Registered, look_up, ref_of
from ratchet_rewards.reward import PLUGIN, Combination, Component, Point, Reward, digest

__all__ = [
    "COMPONENTS",
    "NAMES",
    "PASSED",
    "PLUGIN",
    "PRESETS",
    "TAMPERED",
    "UNTESTED",
    "Combination",
    "Component",
    "Grade",
    "Lookup",
    "Measured",
    "Point",
    "Registered",
    "Reward",
    "check",
    "check_own",
    "completed",
    "digest",
    "is_vetoed",
    "kind",
    "look_up",
    "ref_of",
    "rewards",
    "score",
]
