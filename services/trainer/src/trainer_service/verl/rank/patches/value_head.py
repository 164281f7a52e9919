"""The critic hard-codes attn_implementation="flash_attention_2" (utils/model.py:645-676), not the config's, and nothing
seeds its head. A run that makes a reward model has the same kind of model, with a head of its own."""

from typing import Any

import torch
import verl.utils.model

from trainer_service.job.run.config import JobConfig
from trainer_service.verl.rank.reward_head import with_reward_head

HELD = {"verl.utils.model:load_valuehead_model": "2371ca280654b53b"}


def apply() -> None:
    verl.utils.model.load_valuehead_model = load_valuehead_model


def load_valuehead_model(local_path: str, torch_dtype: Any, model_config: Any, trust_remote_code: bool) -> Any:
    from transformers import AutoModelForTokenClassification

    job = JobConfig.from_env()
    torch.manual_seed(job.spec.seed)
    model = AutoModelForTokenClassification.from_pretrained(
        local_path,
        dtype=torch_dtype,
        config=model_config,
        trust_remote_code=trust_remote_code,
    )
    return with_reward_head(model, job.spec.seed) if job.algorithm.makes_reward_model else model
