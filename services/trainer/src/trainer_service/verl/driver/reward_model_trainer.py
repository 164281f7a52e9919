"""A reward model as a run of Ratchet: the trainer of SFT with a head that scores, and pairs for examples.

In training it has a score for each token, of which the loss takes one; what is exported takes that one itself, as a
sequence classifier of transformers (rank/reward_head.py).
"""

import json
import time
from collections import defaultdict
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
import verl.workers.engine_workers

from ratchet_kit.statistics import Estimate, mean_over_problems
from trainer_service.domain.run.run import Phase
from trainer_service.job.run.faults import check_data
from trainer_service.job.samples.prompt_limits import left_out
from trainer_service.verl import metrics as names
from trainer_service.verl.driver.datasets import ConversationPairDataset
from trainer_service.verl.driver.pair_trainer import PairTrainer
from trainer_service.verl.driver.sft_trainer import StepMetrics
from trainer_service.verl.rank.pairs import TOGETHER, conversation_scores, reward_model_loss


class RewardModelTrainer(PairTrainer):
    names = names.REWARD_MODEL_NAMES

    def _build_dataset(self) -> None:
        """Raises DataLoss where the pairs to validate on have changed."""
        super()._build_dataset()
        held_out = self._session.job.spec.validation_pairs
        if held_out is None:
            return
        tokenizer, config = self.model_config.tokenizer, self.config.data
        self._held_out = ConversationPairDataset(held_out.name, tokenizer, config, held_out.limit or -1)
        check_data(held_out, self._held_out.digest)
        self.measure = self._validate

    def _build_engine(self) -> None:
        """verl's SFT trainer names the kind of model itself (trainer/sft_trainer_ray.py:127)."""
        made = verl.workers.engine_workers.TrainingWorkerConfig
        verl.workers.engine_workers.TrainingWorkerConfig = lambda **its: made(**its | {"model_type": "value_model"})
        try:
            super()._build_engine()
        finally:
            verl.workers.engine_workers.TrainingWorkerConfig = made
        self.training_client.set_loss_fn(partial(reward_model_loss, pad=self.model_config.tokenizer.pad_token_id))

    def _build_ckpt_handler(self) -> None:
        super()._build_ckpt_handler()
        if self.measure:
            self.first |= left_out(self.train_dataset.fitting, self._held_out.fitting)

    def finish(self, model: Path) -> None:
        config = json.loads((model / "config.json").read_text())
        kinds = (
            name.replace("ForTokenClassification", "ForSequenceClassification") for name in config["architectures"]
        )
        config |= {"architectures": [*kinds], "pad_token_id": self.model_config.tokenizer.pad_token_id}
        (model / "config.json").write_text(json.dumps(config, indent=2) + "\n")

    def _validate(self, step: int, model: Path, metrics: StepMetrics) -> Estimate:
        """The share of held-out pairs in the right order; its interval is over their prompts."""
        started = time.monotonic()
        self._session.reporter.phase(Phase.VALIDATING)
        scores = torch.stack([*self.infer([row for both in self._held_out for row in both], self._scores)])
        margins = (scores[0::TOGETHER] - scores[1::TOGETHER]).tolist()
        of_prompt = defaultdict[str, list[float]](list)
        for pair, margin in zip(self._held_out.fitting.problems, margins, strict=True):
            of_prompt[pair.as_problem.shown].append(float(margin > 0))
        values = [fmean(some) for some in of_prompt.values()]
        found = mean_over_problems(values, [""] * len(values), len(margins))
        measured = {names.SCORE: found.value, f"{names.SCORE}_low": found.low, f"{names.SCORE}_high": found.high}
        measured |= {"validation/pair_margin": fmean(margins), names.VALIDATION_TIME: time.monotonic() - started}
        metrics.add(measured, step)
        return found

    def _scores(self, found: Any, data: Any) -> torch.Tensor:
        return conversation_scores(found["values"], data["input_ids"], self.model_config.tokenizer.pad_token_id)
