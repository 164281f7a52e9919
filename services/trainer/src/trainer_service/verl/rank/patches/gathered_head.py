"""verl shards a head that is not tied by itself (utils/fsdp_utils.py:549), so its weights are gathered for its own
forward only. The slices of logits are made of them outside of it (models/transformers/dense_common.py:123)."""

from typing import Any

import verl.utils.fsdp_utils

HELD = {"verl.utils.fsdp_utils:_select_fsdp2_wrap_targets": "d0407bee733b05d8"}


def apply() -> None:
    select = verl.utils.fsdp_utils._select_fsdp2_wrap_targets

    def without_head(model: Any, layers: Any) -> list[Any]:
        head = model.get_output_embeddings()
        return [module for module in select(model, layers) if module is not head]

    verl.utils.fsdp_utils._select_fsdp2_wrap_targets = without_head
