"""Whether the base can be loaded as it is: transformers makes up what its weights lack, and says so in a log alone."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from transformers import MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING, AutoConfig, AutoTokenizer
from transformers.utils import logging
from verl.utils.model import get_hf_auto_model_class

from ratchet_kit import policy_id
from ratchet_kit.errors import DataLoss, InvalidArgument

_NAMED = 3


def check(folder: Path, scores: bool = False) -> None:
    """Reads headers, then each tensor once. Raises InvalidArgument where they are not those of the config's model, the
    passes of training cannot be made of it, or a number is none. `scores`: a reward model is made of it."""
    logging.disable_progress_bar()
    try:
        config = AutoConfig.from_pretrained(folder)
        AutoTokenizer.from_pretrained(folder)
        model, found = get_hf_auto_model_class(config).from_pretrained(
            folder, device_map="meta", output_loading_info=True, ignore_mismatched_sizes=True
        )
    except MemoryError:
        raise
    except Exception as error:
        sentence = str(error).strip().splitlines() or [type(error).__name__]
        raise InvalidArgument(f"the base cannot be loaded: {sentence[0]}") from error
    if missing := sorted(found["missing_keys"]):
        raise InvalidArgument(f"the base's weights are incomplete: they lack {_shown(missing)}")
    if mismatched := sorted(name for name, *_ in found["mismatched_keys"]):
        raise InvalidArgument(f"the base's weights do not match its config.json: {_shown(mismatched)} differ in shape")
    if lacks := next(_lacking(model), ""):
        raise InvalidArgument(f"a {config.model_type} model cannot be trained: {lacks}")
    if scores and type(config) not in MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING:
        raise InvalidArgument(f"no reward model can be made of a {config.model_type} model")
    try:
        policy_id.check_finite(folder)
    except DataLoss as error:
        raise InvalidArgument(f"the base's {error.message}") from error


def _lacking(model: Any) -> Iterator[str]:
    """What verl (models/transformers/dense_common.py, monkey_patch.py) and the head in slices take for granted."""
    config = model.config.get_text_config()
    for name in ("hidden_size", "num_attention_heads", "num_key_value_heads"):
        if not isinstance(getattr(config, name, None), int):
            yield f"its config has no {name}, as Llama's and Qwen's have"
    head = getattr(model, "lm_head", None)
    if head is None or not hasattr(model, "model"):
        yield "it is not made of a `model` and an `lm_head`, as Llama and Qwen are"
    if getattr(head, "bias", None) is not None:
        yield "its head has a bias, which would be left out"
    for name in ("final_logit_softcapping", "logit_scale", "logits_scaling", "lm_head_multiplier"):
        if getattr(config, name, None) not in (None, 1, 1.0):
            yield f"its {name} would be left out"


def _shown(names: list[str]) -> str:
    more = f", and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{', '.join(names[:_NAMED])}{more}"
