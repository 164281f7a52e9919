"""verl's models take this class when they are called (models/transformers/dense_common.py:89)."""

import verl.utils.experimental.torch_functional

from trainer_service.verl.rank.head import FusedHead

HELD = {
    "verl.utils.experimental.torch_functional:FusedLinearForPPO": "ade3cc04678fe81c",
    "verl.models.transformers.dense_common:forward_with_torch_backend": "9dfa2d5c62a05668",
}


def apply() -> None:
    verl.utils.experimental.torch_functional.FusedLinearForPPO = FusedHead
