"""Whether the base can be loaded as it is: transformers makes up what its weights lack, and says so in a log alone."""

from pathlib import Path

from transformers import AutoConfig
from transformers.utils import logging
from verl.utils.model import get_hf_auto_model_class

from ratchet_kit.errors import InvalidArgument

_NAMED = 3


def check(folder: Path) -> None:
    """Reads headers, and no weights. Raises InvalidArgument where they are not those of the config's model."""
    logging.disable_progress_bar()
    try:
        config = AutoConfig.from_pretrained(folder)
        _, found = get_hf_auto_model_class(config).from_pretrained(
            folder, device_map="meta", output_loading_info=True, ignore_mismatched_sizes=True
        )
    except MemoryError:
        raise
    except Exception as error:
        sentence = str(error).strip().splitlines() or [type(error).__name__]
        raise InvalidArgument(f"the base cannot be loaded: {sentence[0]}") from error
    if missing := sorted(found["missing_keys"]):
        raise InvalidArgument(f"the base's weights are not whole: they lack {_shown(missing)}")
    if mismatched := sorted(name for name, *_ in found["mismatched_keys"]):
        raise InvalidArgument(
            f"the base's weights are not those of its config.json: {_shown(mismatched)} differ in shape"
        )


def _shown(names: list[str]) -> str:
    more = f", and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{', '.join(names[:_NAMED])}{more}"
