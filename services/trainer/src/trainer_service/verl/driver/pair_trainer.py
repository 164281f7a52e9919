"""The trainer of SFT with pairs of answers for examples: what DPO and reward models have in common."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from verl.utils import tensordict_utils as tu

from trainer_service.verl.driver.sft_trainer import RatchetSftTrainer
from trainer_service.verl.rank.pairs import TOGETHER

Row = dict[str, torch.Tensor]


class PairTrainer(RatchetSftTrainer):
    def _build_engine(self) -> None:
        super()._build_engine()
        update = self.training_client.train_batch

        def update_by_pairs(data: Any) -> Any:
            tu.assign_non_tensor(data, force_group_size=TOGETHER)
            return update(data)

        # `fit` calls it by this name, with settings of its own alone (trainer/sft_trainer_ray.py:342).
        self.training_client.train_batch = update_by_pairs

    def collate(self, pairs: Any) -> dict[str, Any]:
        """Rows in twos, the better answer first."""
        return super().collate([row for both in pairs for row in both])

    def infer(self, rows: Sequence[Row], read: Callable[[Any, Any], Sequence[torch.Tensor]]) -> Iterator[torch.Tensor]:
        """Of each row by the weights that the ranks have now, what `read` finds in the model's outputs for a batch."""
        size = TOGETHER * self.config.data.train_batch_size
        for start in range(0, len(rows), size):
            some = rows[start : start + size]
            # The ranks share a batch evenly.
            more = -len(some) % self._session.job.spec.resources.ranks
            filled = [*some, *([some[0]] * more)]
            data = tu.get_tensordict(RatchetSftTrainer.collate(self, filled), self._settings())
            yield from read(self.training_client.infer_batch(data).get(), data)[: len(some)]

    def _settings(self) -> dict[str, Any]:
        """As `fit` has them for its own batches (trainer/sft_trainer_ray.py:283)."""
        return {
            "use_remove_padding": self.config.model.use_remove_padding,
            "use_dynamic_bsz": True,
            "max_token_len_per_gpu": self.config.data.max_token_len_per_gpu,
            "temperature": 1.0,
            "pad_mode": self.config.data.pad_mode,
            "pad_token_id": self.model_config.tokenizer.pad_token_id,
            "compute_loss": False,
        }
