"""From a verdict to a number. How a program comes by its verdict is not known here: see `ratchet_environments`."""

from ratchet_rewards.functions import RewardFunction, compose, get, names, reward
from ratchet_rewards.grade import PASSED, TAMPERED, Grade

__all__ = ["PASSED", "TAMPERED", "Grade", "RewardFunction", "compose", "get", "names", "reward"]
