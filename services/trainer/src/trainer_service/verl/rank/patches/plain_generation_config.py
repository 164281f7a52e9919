"""verl writes a model with its base's generation config, which transformers refuses to write where a setting has no use
in it, as temperature without sampling (utils/checkpoint/fsdp_checkpoint_manager.py:382). What is exported has the
base's file in its place (job/run/exports.py)."""

from typing import Any

from transformers import GenerationConfig
from verl.utils.checkpoint import fsdp_checkpoint_manager

HELD = {"verl.utils.checkpoint.fsdp_checkpoint_manager:FSDPCheckpointManager.save_checkpoint": "408622f180370088"}


def apply() -> None:
    class Plain(GenerationConfig):
        @classmethod
        def from_pretrained(cls, *args: Any, **options: Any) -> GenerationConfig:
            return GenerationConfig()

    fsdp_checkpoint_manager.GenerationConfig = Plain
