"""The registry of rollout adapters is a private dict without a register function (workers/rollout/base.py:83)."""

from verl.workers.rollout.base import _ROLLOUT_REGISTRY

from trainer_service.verl.config import ROLLOUT

HELD = {"verl.workers.rollout.base:get_rollout_class": "d0be5827f1214f04"}


def apply() -> None:
    _ROLLOUT_REGISTRY[(ROLLOUT, "async")] = "trainer_service.verl.rank.weights.WeightSender"
