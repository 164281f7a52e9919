"""verl's SFT trainer on Ray as a run of Ratchet: the same reports, exports and checkpoints as for RL.

verl's loop (trainer/sft_trainer_ray.py, `fit`) has no hooks but two objects that it calls: the tracker, with the
metrics of a step and then those of its validation, and the checkpoint handler, once the step is over.
"""

import time
from collections.abc import Callable, Mapping, MutableMapping
from functools import partial
from pathlib import Path
from typing import Any

import verl.single_controller.ray
from omegaconf import DictConfig
from torch.utils.data import DistributedSampler
from torchdata.stateful_dataloader import StatefulDataLoader
from verl.trainer import sft_trainer_ray
from verl.utils.checkpoint import CheckpointHandler
from verl.utils.dataset.dataset_utils import SFTTensorCollator
from verl.utils.metric import Metric

from ratchet_kit import policy_id
from ratchet_kit.errors import InvalidArgument
from ratchet_kit.statistics import Estimate
from trainer_service.domain.run.run import TOKENS_SO_FAR, Phase
from trainer_service.job.run.faults import check_data
from trainer_service.job.samples.prompt_limits import left_out
from trainer_service.job.session import Session
from trainer_service.verl import metrics as names
from trainer_service.verl.precision import round_weights

VALIDATION_LOSS = "val/loss"
CHECKPOINT_TIME = "timing_s/save_checkpoint"
STEP_TIME = "timing_s/step"
TOKENS = "train/global_tokens"


class StepMetrics:
    """verl's tracker, which also keeps the metrics of the step under way."""

    def __init__(self, tracking: Any, spend: Callable[[int, int], None]) -> None:
        """`spend` is given each step with the tokens that it trained on."""
        self._tracking = tracking
        self._spend = spend
        self._since = time.monotonic()
        self.values: dict[str, Any] = {}

    def log(self, data: dict[str, Any], step: int) -> None:
        data = {name: _number(value) for name, value in data.items()}
        if VALIDATION_LOSS in data:
            # A loss is better when it is lower; a score, when it is higher.
            data = data | {names.SCORE: -data[VALIDATION_LOSS]}
        else:
            data = data | {STEP_TIME: time.monotonic() - self._since}
            self._spend(step, int(data[TOKENS]))
        self.values.update(data)
        self._tracking.log(data=data, step=step)

    def add(self, data: dict[str, Any], step: int) -> None:
        """What we measured of the step ourselves."""
        self.values.update(data)
        self._tracking.log(data=data, step=step)

    def take(self) -> dict[str, Any]:
        values, self.values = self.values, {}
        return values

    def finish(self) -> None:
        self._tracking.finish()

    def next_step(self) -> None:
        """A step's time is counted from here: neither validation nor checkpoint is part of it."""
        self._since = time.monotonic()


Measure = Callable[[int, Path, StepMetrics], Estimate | None]
"""Of the step and its model's folder: adds to the metrics what validation found, and gives the score's interval."""


class StepEnd:
    """verl's checkpoint handler, called after every step: saves the steps that are to be saved, and reports each."""

    def __init__(
        self,
        handler: CheckpointHandler,
        session: Session,
        metrics: Callable[[], StepMetrics],
        first: MutableMapping[str, float],
        names: Mapping[str, tuple[str, ...]],
        measure: Measure | None = None,
        finish: Callable[[Path], None] = lambda model: None,
    ) -> None:
        """`first`: metrics of the first step, by our names; `names`: ours of verl's. `measure`: validates, where verl
        does not. `finish`: makes the model's folder what is exported."""
        self._finish = finish
        self._first = first
        self._names = names
        self._measure = measure
        self._handler = handler
        self._session = session
        self._metrics = metrics

    def load_checkpoint(self) -> int:
        loaded = self._handler.load_checkpoint()
        self._session.reporter.phase(Phase.UPDATING)
        return loaded

    def save_checkpoint(self, step: int) -> None:
        session = self._session
        saved = session.is_saved(step)
        identity, interval = "", None
        took = 0.0
        model = session.checkpoints.folder(step) / "huggingface"
        if saved:
            session.reporter.phase(Phase.SAVING)
            started = time.monotonic()
            session.require_space()
            self._handler.save_checkpoint(step=step)
            self._finish(model)
            round_weights(model, session.job.dtype)
            identity = policy_id.of_folder(model)
            took = time.monotonic() - started
        if self._measure and session.schedule.is_validated(step):
            interval = self._measure(step, model, self._metrics())
        values = self._metrics().take()
        if saved:
            values[CHECKPOINT_TIME] = took
        measured = names.rename(values, self._names) | dict(self._first)
        self._first.clear()
        measured[TOKENS_SO_FAR] = session.schedule.tokens
        session.reporter.step(step, measured, identity, platform_faults=0)
        if saved:
            session.keep(step, model, identity, values.get(names.SCORE), interval)
        session.end_step(step)
        session.reporter.phase(Phase.UPDATING)
        self._metrics().next_step()


class RatchetSftTrainer(sft_trainer_ray.SFTTrainer):
    ckpt_handler: Any
    names = names.SFT_NAMES
    measure: Measure | None = None

    def __init__(self, config: DictConfig, session: Session) -> None:
        self._session = session
        self._metrics: StepMetrics | None = None
        self.first: dict[str, float] = {}
        super().__init__(config)
        if self.resume_global_step % self.steps_per_epoch == 0:
            # The state that is saved after an epoch's last batch is that of its end, where no batch is left: the epoch
            # that comes next would be passed over.
            self.train_dataloader.next_iter_state = None

    def _build_engine(self) -> None:
        """verl reserves CPUs for ten processes per rank (single_controller/ray/base.py:119), of which there is one."""
        pool = verl.single_controller.ray.RayResourcePool
        verl.single_controller.ray.RayResourcePool = partial(pool, max_colocate_count=1)
        try:
            super()._build_engine()
        finally:
            verl.single_controller.ray.RayResourcePool = pool

    def _build_dataloader(self) -> None:
        """As verl's, which starts 16 processes to read examples that are in memory already, and leaves out of the
        validation what does not fill a training batch. Here it is as few as can be.

        Raises InvalidArgument when the training set has no batch of examples, or the validation set fewer than there
        are ranks.
        """
        config, spec = self.config, self._session.job.spec
        check_data(spec.learned, self.train_dataset.digest)
        if self.val_dataset and spec.chosen_by:
            check_data(spec.chosen_by, self.val_dataset.digest)
        self.train_dataset.fitting.require(config.data.train_batch_size)
        self.global_batch_size = config.data.train_batch_size
        self.train_sampler = DistributedSampler(
            self.train_dataset, shuffle=True, num_replicas=1, rank=0, seed=config.trainer.seed, drop_last=True
        )
        self.train_dataloader = self._loader(self.train_dataset, self.global_batch_size, self.train_sampler)
        self.val_dataloader = None
        if self.val_dataset:
            ranks = self._session.job.spec.resources.ranks
            if len(self.val_dataset) < ranks:
                raise InvalidArgument(f"the validation set has {len(self.val_dataset)} examples; {ranks} are needed")
            self.val_dataloader = self._loader(self.val_dataset, _validation_batch(len(self.val_dataset), ranks))
        self.steps_per_epoch = len(self.train_dataloader)
        self.total_training_steps = config.trainer.total_training_steps
        self.optimizer_config.total_training_steps = self.total_training_steps
        self.save_freq = config.trainer.save_freq
        self.test_freq = config.trainer.test_freq if self.val_dataset else -1

    def _loader(self, dataset: Any, batch_size: int, sampler: Any = None) -> StatefulDataLoader:
        return StatefulDataLoader(
            dataset,
            batch_size=batch_size,
            sampler=sampler,
            collate_fn=self.collate,
            num_workers=0,
            drop_last=True,
        )

    def collate(self, rows: Any) -> dict[str, Any]:
        """A batch of what the data set gives."""
        return SFTTensorCollator(self.config.data.pad_mode)(rows)

    def _build_ckpt_handler(self) -> None:
        super()._build_ckpt_handler()
        of_validation = self.val_dataset.fitting if self.val_dataset else None
        self.first |= left_out(self.train_dataset.fitting, of_validation)
        self.ckpt_handler = StepEnd(
            self.ckpt_handler, self._session, self._step_metrics, self.first, self.names, self.measure, self.finish
        )

    def finish(self, model: Path) -> None:
        """Makes of a model's folder, as verl has written it, what is exported."""

    def _spend(self, step: int, tokens: int) -> None:
        if self._session.spend(step, tokens):
            self.total_training_steps = step  # verl's loop asks right after it has logged the step

    def _step_metrics(self) -> StepMetrics:
        assert self._metrics is not None  # verl makes its tracker before the first step
        return self._metrics

    def fit(self) -> None:
        tracking = sft_trainer_ray.Tracking

        def remember(*args: Any, **kwargs: Any) -> StepMetrics:
            self._metrics = StepMetrics(tracking(*args, **kwargs), self._spend)
            return self._metrics

        # `fit` makes its tracker itself, by this name (sft_trainer_ray.py:253).
        sft_trainer_ray.Tracking = remember
        try:
            super().fit()
        finally:
            sft_trainer_ray.Tracking = tracking
            if self._metrics is not None:
                self._metrics.finish()


def _number(value: Any) -> Any:
    """A metric of a loss comes from each rank, in a list."""
    if isinstance(value, list) and value and isinstance(value[0], Metric):
        return float(Metric.aggregate_dp(value))
    return value


def _validation_batch(examples: int, ranks: int) -> int:
    """The size of the batches that leave out the fewest of so many examples; of such sizes the largest. Each rank has
    the same share of a batch, at most 32."""
    sizes = range(ranks, min(32 * ranks, examples) + 1, ranks)
    return min(sizes, key=lambda size: (examples % size, -size))
