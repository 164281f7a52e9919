"""verl pads rows by the tokenizer's pad token, or by its eos where it has none, and fills a batch with rows of eos
(utils/tokenizer/tokenizer.py:152, trainer/ppo/padding_utils.py:97): a tokenizer may have neither, or one that the model
has no row for. All of it is masked, so any token that there is will do."""

from pathlib import Path
from typing import Any

import verl.workers.config.model

from ratchet_kit.model_config import base_config, stops_of
from trainer_service.job.samples.endings import vocabulary

HELD = {"verl.workers.config.model:HFModelConfig.__post_init__": "a18620cfff22adeb"}


def apply() -> None:
    load = verl.workers.config.model.hf_tokenizer

    def hf_tokenizer(path: str, **options: Any) -> Any:
        tokenizer, config = load(path, **options), base_config(Path(path))
        rows = vocabulary(config) or len(tokenizer)
        there = [id for id in (tokenizer.eos_token_id, *stops_of(Path(path)), 0) if id is not None and id < rows]
        for name in ("eos_token", "pad_token"):
            known = getattr(tokenizer, f"{name}_id")
            if known is None or known >= rows:
                setattr(tokenizer, name, tokenizer.convert_ids_to_tokens(there[0]))
        return tokenizer

    verl.workers.config.model.hf_tokenizer = hf_tokenizer
