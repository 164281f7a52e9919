"""DPO as a run of Ratchet: the trainer of SFT with pairs for examples, and completions for validation.

What is learned from is compared with the base. Its log-probs are computed once, by the training ranks before the first
step, and kept in the run's folder: a later attempt, whose ranks resume from a checkpoint, reads them there.
"""

import json
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any

import torch
from omegaconf import DictConfig, OmegaConf
from safetensors import safe_open

from ratchet_kit import files
from ratchet_kit.statistics import Estimate
from trainer_service.domain.run.run import Phase
from trainer_service.job.policy.transport import Weights
from trainer_service.job.policy.weight_versions import WeightVersions
from trainer_service.job.run.faults import check_data
from trainer_service.job.samples.groups import Groups
from trainer_service.job.samples.prompt_limits import left_out
from trainer_service.job.samples.prompting import Prompting
from trainer_service.job.session import Session
from trainer_service.verl import metrics as names
from trainer_service.verl.driver.datasets import PromptDataset
from trainer_service.verl.driver.pair_trainer import PairTrainer
from trainer_service.verl.driver.sft_trainer import StepMetrics
from trainer_service.verl.driver.validation import Validated, validate
from trainer_service.verl.rank.pairs import REFERENCE, TOGETHER, answer_log_probs, dpo_loss
from trainer_service.verl.rank.weights import gather

REFERENCE_FILE = "reference-log-probs.json"


class RatchetDpoTrainer(PairTrainer):
    names = names.DPO_NAMES

    def __init__(self, config: DictConfig, session: Session, loading: Future[None] | None, base_is_validated: bool):
        self._loading = loading
        self._base_is_validated = base_is_validated
        super().__init__(config, session)

    # What verl builds, in this order.

    def _build_dataset(self) -> None:
        """Raises DataLoss where the validation problems have changed."""
        super()._build_dataset()
        spec, tokenizer = self._session.job.spec, self.model_config.tokenizer
        hyper, validated = spec.hyperparameters, spec.validation_problems
        if validated is None:
            return
        limits = {
            "max_prompt_length": hyper.max_prompt_tokens,
            "filter_overlong_prompts": not spec.refuse_long_prompts,
        }
        config = OmegaConf.create({**self.config.data, **limits})
        self._asked = PromptDataset(validated.name, tokenizer, config, validated.limit or -1)
        check_data(validated, self._asked.digest)
        self._model = Path(self._session.job.base_path)
        self._sent = WeightVersions(push=lambda: self._push(self._sent.version.step))
        prompting, its = Prompting.of(tokenizer, self.config.data), self._session
        self._groups = Groups(its.job, its.policy, its.environment, its.rewarding, self._sent, prompting, its.reporter)
        self.measure = self._validate

    def _build_engine(self) -> None:
        super()._build_engine()
        beta = self._session.job.spec.hyperparameters.dpo_beta
        assert beta is not None  # of a complete spec
        self.training_client.set_loss_fn(partial(dpo_loss, beta=beta))

    def _build_ckpt_handler(self) -> None:
        """After the ranks have the base's weights, and before they have those of a checkpoint."""
        for both, known in zip(self.train_dataset, self._reference_log_probs(), strict=True):
            for row, value in zip(both, known, strict=True):
                row[REFERENCE] = torch.tensor(value)
        super()._build_ckpt_handler()
        if self.measure:
            self.first |= left_out(self.train_dataset.fitting, self._asked.fitting)

    def _reference_log_probs(self) -> Sequence[Sequence[float]]:
        """Of the better and of the other answer of each pair, nats."""
        file = self._session.job.work_dir / REFERENCE_FILE
        if file.is_file():
            known: Sequence[Sequence[float]] = json.loads(file.read_text())
            return known
        rows = [row for both in self.train_dataset for row in both]
        found = [float(value) for value in self.infer(rows, _of_answers)]
        made = list(zip(found[0::TOGETHER], found[1::TOGETHER], strict=True))
        with files.whole(file) as draft:
            draft.write_text(json.dumps(made))
        return made

    # Batches.

    def collate(self, pairs: Any) -> dict[str, Any]:
        """With each answer's log-prob by the base."""
        reference = torch.stack([row[REFERENCE] for both in pairs for row in both])
        tokens = [[{name: row[name] for name in row if name != REFERENCE} for row in both] for both in pairs]
        return super().collate(tokens) | {REFERENCE: reference}

    # The loop.

    def fit(self) -> None:
        if self._loading is not None:
            self._session.reporter.phase(Phase.LOADING_POLICY)
            self._loading.result()
            if self._base_is_validated:
                self._sent.now(self._push(0), 0)
                found = self._measured(0)
                self.first |= names.rename(found.base_metrics, self.names) | dict(found.components)
            self._session.reporter.phase(Phase.UPDATING)
        super().fit()

    def _validate(self, step: int, model: Path, metrics: StepMetrics) -> Estimate | None:
        started = time.monotonic()
        self._model = model
        self._sent.now(self._push(step), step)
        found = self._measured(step)
        metrics.add(found.metrics | {names.VALIDATION_TIME: time.monotonic() - started}, step)
        self.first |= found.components
        return found.interval

    def _measured(self, step: int) -> Validated:
        self._session.reporter.phase(Phase.VALIDATING)
        validating = validate(self._groups, self._asked.problems, step)
        return self._session.background.wait(validating)

    def _push(self, step: int) -> str:
        """The weights of the model's folder to rollout-service, in the precision that it computes in; their id."""
        dtype = getattr(torch, self._session.job.dtype)
        tensors = gather(_tensors(self._model), dtype, keep=True)
        sending = self._session.policy.push(Weights.of(tensors), step)
        return self._session.background.wait(sending).policy_id


def _of_answers(found: Any, data: Any) -> torch.Tensor:
    return answer_log_probs(found["log_probs"], data["loss_mask"])


def _tensors(model: Path) -> Iterator[tuple[str, torch.Tensor]]:
    for file in sorted(model.glob("*.safetensors")):
        with safe_open(file, framework="pt") as tensors:
            for name in tensors.keys():  # noqa: SIM118 - it is no mapping
                yield name, tensors.get_tensor(name)
