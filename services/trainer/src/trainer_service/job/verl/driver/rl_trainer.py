"""verl's synchronous trainer as a run of Ratchet: reports each step, exports validated models, fails closed.

verl's loop (trainer/ppo/v1/trainer_base.py, `fit`) calls, for each step: `step`, `_save_checkpoint`, `on_step_end`
(weights to the engine), `_validate`, `_compute_metrics`. The last is where everything about the step is known: there
the step is reported, and only then does its checkpoint count.
"""

from collections.abc import Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any

import ray
import transfer_queue as tq
from omegaconf import DictConfig
from verl.single_controller.ray import ResourcePoolManager
from verl.trainer.ppo.core_algos import agg_loss
from verl.trainer.ppo.utils import Role
from verl.trainer.ppo.v1 import trainer_base
from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync

from ratchet_kit.statistics import Estimate
from ratchet_problems import Problem
from ratchet_rewards import Combination
from trainer_service.domain.curriculum import Kind
from trainer_service.domain.plugins import PluginKind
from trainer_service.domain.run import TOKENS_SO_FAR, Phase
from trainer_service.job import plugins
from trainer_service.job.curriculum import Draws
from trainer_service.job.faults import check_data, check_faults, check_probabilities, check_versions
from trainer_service.job.lengths import left_out
from trainer_service.job.policy import WeightSync
from trainer_service.job.session import Session
from trainer_service.job.verl import metrics as names
from trainer_service.job.verl.driver.advantages import with_baselines
from trainer_service.job.verl.driver.datasets import prompt_ids, prompt_of, reply_ids
from trainer_service.job.verl.driver.replay import FAULTS, Replay
from trainer_service.job.verl.driver.rollouts import Rollouts, Weights
from trainer_service.job.verl.driver.samplers import CurriculumSampler, PluginSampler
from trainer_service.job.verl.driver.validation import validate
from trainer_service.job.verl.rank.losses import ENTROPY, GAP_MEAN
from trainer_service.job.verl.rank.worker import ActorWorker

GAP = "training/rollout_probs_diff_mean"
"""Of a pass for old log-probs; in one update per batch it is measured in the update (`GAP_MEAN`)."""

# DAPO may replace at most this many times the prompts of a step.
MAX_FILTERED_BATCHES = 3


class NoServers:
    """In the place of verl's LLMServerManager, whose servers, load balancer and clients are Ray actors that would only
    pass on what `Rollouts` asks rollout-service for directly."""

    @classmethod
    def create(cls, **unused: Any) -> "NoServers":
        return cls()

    def get_replicas(self) -> list[Any]:
        return []

    def get_client(self) -> None:
        return None

    def start_profile(self) -> None:
        """rollout-service is not traced."""

    def stop_profile(self) -> None:
        pass


class Pools(ResourcePoolManager):
    def _check_resource_available(self) -> None:
        """verl ends with a ValueError where accelerators are not free at once. Room was waited for already
        (`runtime.wait_for_room`); what somebody else has taken meanwhile, Ray waits for."""


class RatchetTrainer(PPOTrainerSync):
    resource_pool_manager: ResourcePoolManager
    global_steps: int

    def __init__(self, config: DictConfig, session: Session, loading: Future[None]) -> None:
        self._session = session
        self._loading = loading
        self._weights = Weights(push=self._restore_weights)
        self._versions: dict[int, str] = {}
        self._fresh = True
        self._waited = 0.0
        self._score: float | None = None
        self._interval: Estimate | None = None
        self._base: dict[str, float] = {}
        self._excluded: dict[str, float] = {}
        self._validated: dict[str, float] = {}
        self._syncs: dict[str, float] = {}
        self._asked_for = 0
        super().__init__(config)

    # What verl builds.

    def _setup(self) -> None:
        trainer_base.LLMServerManager = NoServers
        super()._setup()

    def _init_dataloader(self) -> None:
        """Raises InvalidArgument when the problems that have room make no batch, DataLoss when they have changed."""
        spec = self._session.job.spec
        self._draws: Draws | None = None
        if spec.curriculum:
            trainer_base.create_rl_sampler = lambda config, dataset: CurriculumSampler(self._drawing(dataset.problems))
        elif draw := plugins.load(spec.plugins, PluginKind.SAMPLER):
            trainer_base.create_rl_sampler = lambda config, dataset: PluginSampler(draw, dataset.problems, spec.seed)
        super()._init_dataloader()
        check_data(spec.problems, self.train_dataset.digest)
        if spec.validation_problems:
            check_data(spec.validation_problems, self.val_dataset.digest)
        self.train_dataset.fitting.require(self.config.data.train_batch_size)
        of_validation = self.val_dataset.fitting if self.val_dataset.problems else None
        self._excluded = left_out(self.train_dataset.fitting, of_validation)

    def _drawing(self, problems: Sequence[Problem]) -> Draws:
        spec = self._session.job.spec
        assert spec.curriculum is not None
        self._draws = Draws(spec.curriculum, [Kind(one.difficulty, one.tags) for one in problems], spec.seed)
        return self._draws

    def _build_replay_buffer(self) -> Replay:
        sampler = self.config.trainer.v1.sampler
        prompts = self.config.data.train_batch_size
        metric = self._resolve_filter_groups_metric()
        return Replay(
            group_size=self.config.actor_rollout_ref.rollout.n,
            max_filtered=MAX_FILTERED_BATCHES * prompts,
            wait=lambda seconds: self.rollouts.wait(seconds),
            last_fault=lambda: self.rollouts.last_fault,
            place_of=lambda uid: self.rollouts.place_of(uid),
            trainer_mode=self.trainer_mode,
            trainer_config=self.config.trainer.v1.sync,
            max_off_policy_threshold=sampler.max_off_policy_threshold,
            max_off_policy_strategy=sampler.max_off_policy_strategy,
            sampler_kwargs=sampler.sampler_kwargs,
            refill_fn=self._add_prompts_to_generate,
            filter_groups_metric=metric,
            train_batch_size=prompts,
            gen_batch_size=1 if metric else prompts,
        )

    def _init_resource_pool_mgr(self) -> None:
        super()._init_resource_pool_mgr()
        role = Role.ActorRolloutRef if self.use_reference_policy else Role.ActorRollout
        self.role_worker_mapping[role] = ray.remote(ActorWorker)
        # One process per rank holds actor, critic and reference: verl's default reserves CPUs for three.
        self.resource_pool_manager = Pools(
            resource_pool_spec=self.resource_pool_manager.resource_pool_spec, mapping=self.mapping, max_colocate_count=1
        )

    def build_rollouts(self) -> Rollouts:
        """The agent loop manager that `fit` is given. Call after `init`."""
        session, rollout = self._session, self.config.actor_rollout_ref.rollout
        self.rollouts = Rollouts(
            background=session.background,
            policy=session.policy,
            environment=session.environment,
            weights=self._weights,
            put=lambda problem: prompt_of(problem, self.config.data.prompt_form),
            tokenize=lambda prompt: prompt_ids(self.tokenizer, prompt),
            detokenize=lambda tokens: self.tokenizer.decode(tokens, skip_special_tokens=True),
            reply=partial(reply_ids, self.tokenizer),
            problems=self.train_dataset.problems,
            group_size=rollout.n,
            fewest=2 if session.job.algorithm.is_grouped else 1,
            seed=session.job.spec.seed,
            temperature=session.job.spec.temperature_at,
            max_tokens=self.config.data.max_response_length,
            rewarding=session.rewarding,
            last_step=session.job.spec.steps,
            has_greedy=session.job.algorithm.has_greedy,
            has_steps=session.job.algorithm.has_steps,
            has_turns=session.job.spec.environment is not None,
        )
        if session.job.algorithm.has_greedy:
            compute = trainer_base.compute_advantage_for_multi_trajectories
            baselined = with_baselines(compute, self.rollouts.greedy_of)
            trainer_base.compute_advantage_for_multi_trajectories = baselined
        return self.rollouts

    def fit(self, agent_loop_manager: Rollouts) -> None:
        try:
            super().fit(agent_loop_manager)
        finally:
            agent_loop_manager.abandon()
            # wandb and MLflow write the last of it here, and hold up the end of the process otherwise.
            if (tracking := getattr(self, "logger", None)) is not None:
                tracking.finish()

    # Weights.

    def on_init_end(self) -> None:
        self._session.reporter.phase(Phase.LOADING_POLICY)
        self._loading.result()
        self._sync_weights()

    def on_train_begin(self) -> None:
        """The base has been validated where that is wanted: the first step comes next."""
        self._session.reporter.phase(Phase.GENERATING)

    def on_step_begin(self) -> None:
        """What is sampled at a temperature is learned from at the same."""
        self.config.actor_rollout_ref.rollout.temperature = self._session.job.spec.temperature_at(self.global_steps)

    def on_step_end(self) -> None:
        with trainer_base.marked_timer("wait", self.timing_raw):
            self.rollouts.wait_made()  # by the weights that are replaced now
        with trainer_base.marked_timer("update_weights", self.timing_raw):
            self._sync_weights()

    def _sync_weights(self) -> None:
        step = self.global_steps
        sync = _sent(self.actor_rollout_wg.update_weights(global_steps=step, mode="naive"))
        self._syncs = {"sync/bytes": sync.sent_bytes, "sync/probe_error": sync.probe_error}
        self._weights.policy_id, self._weights.step = sync.policy_id, step
        kept = {version: id for version, id in self._versions.items() if version >= step - self._max_staleness}
        self._versions = kept | {step: sync.policy_id}

    def _restore_weights(self) -> str:
        """To rollout-service what it had; their policy id. Called while the main thread waits, or does a step."""
        return _sent(self.actor_rollout_wg.restore_weights(global_steps=self._weights.step)).policy_id

    # The step.

    @property
    def _max_staleness(self) -> int:
        return self._session.job.spec.hyperparameters.max_staleness or 0

    def prepare_step(self) -> dict[str, Any]:
        """The prompts of all steps but the first are with the engine by now: `_compute_metrics`."""
        self._ask_for(self.global_steps)
        return {}

    def _ask_for(self, step: int) -> None:
        """Hands the prompts of a step to the engine, once."""
        if step == self._asked_for:
            return
        self._asked_for, now = step, self.global_steps
        self.global_steps = step  # verl's methods take it for that of what they submit
        self._add_batch_to_generate()
        self.global_steps = now

    def _ask_ahead(self) -> None:
        """For the next step's samples, by the weights that the engine still has, while this step is learned from.

        Over a checkpoint nothing is made ahead: a run that resumes there does what it would have done.
        """
        is_last = self._session.schedule.is_saved(self.global_steps) or self._session.reporter.preempted
        if self._max_staleness and not is_last:
            self._ask_for(self.global_steps + 1)

    def _balance_batch(self, batch: Any, metrics: dict[str, Any], **options: Any) -> Any:
        """Before anything is computed on the samples: are they enough?"""
        self._session.reporter.phase(Phase.UPDATING)
        evidence = self.rollouts.evidence.take()
        self._drawn = self._draws.learn(evidence) if self._draws else {}  # before the checkpoint of the step
        self._check_faults(metrics[FAULTS], self.config.data.train_batch_size * self.config.actor_rollout_ref.rollout.n)
        metrics[names.TOKENS] = sum(tag["seq_len"] for tag in batch.tags)  # before verl pads it
        if self._session.schedule.spend(self.global_steps, metrics[names.TOKENS]):
            # verl's loop has asked already whether this step is its last: it ends before the next, and validates now
            self.total_training_steps = self.global_steps
            self.config.trainer.test_freq = 1
        self._fresh = check_versions(self.global_steps, batch.tags, self._versions, self._max_staleness)
        self._ask_ahead()
        return super()._balance_batch(batch, metrics, **options)

    def _compute_old_log_prob(self, batch: Any, metrics: dict[str, Any]) -> Any:
        """Raises DataLoss when the engine's probabilities are not those of the trained weights."""
        if self.config.algorithm.rollout_correction.bypass_mode:
            return batch  # they come with the update: rank/losses.py
        batch = super()._compute_old_log_prob(batch, metrics)
        self._check_probabilities(metrics, GAP)
        if self.config.actor_rollout_ref.actor.loss_agg_mode != "token-mean":  # else it is nats a token already
            fields = ["entropy", "response_mask"]
            data = tq.kv_batch_get(keys=batch.keys, partition_id=batch.partition_id, select_fields=fields)
            padded = data.to_padded_tensor()
            metrics[ENTROPY] = agg_loss(padded["entropy"], padded["response_mask"], "token-mean").item()
        return batch

    def _update_actor(self, batch: Any, metrics: dict[str, Any]) -> Any:
        """Raises as `_compute_old_log_prob`. What such an update has made is not saved, and goes to no engine."""
        batch = super()._update_actor(batch, metrics)
        self._check_probabilities(metrics, GAP_MEAN)
        return batch

    def _check_probabilities(self, metrics: dict[str, Any], gap: str) -> None:
        if gap in metrics and self._fresh:  # else they are two policies'
            check_probabilities(self.global_steps, metrics[gap], self._session.job.probability_gap_limit)

    def _validate(self) -> dict[str, float]:
        """Mean score on the validation problems of the weights that the engine now has."""
        if not self.val_dataset.problems:
            return {}
        self._session.reporter.phase(Phase.VALIDATING)
        found = validate(self.rollouts, self.val_dataset.problems, self._session.job, self.global_steps)
        self._validated = dict(found.components)
        if self.global_steps == 0:  # the base, before the first step
            self._base = found.base_metrics
            return self._base
        self._score, self._interval = found.score, found.interval
        return found.metrics

    def _compute_metrics(self, batch: Any, metrics: dict[str, Any], timing_raw: Any, **options: Any) -> None:
        """The end of a step: its metrics are whole, so it is reported, and its checkpoint counts from here on."""
        metrics.update(self._syncs | self._base | self._overlapped(timing_raw))
        self._base = {}
        step = self.global_steps
        of_rewards, samples = self._of_rewards(step) | self._validated, self.rollouts.shown(step)
        if step < self.total_training_steps and step != self._session.schedule.leaves_at:
            self._ask_for(step + 1)  # it has the new weights: it need not wait for what follows
        self.rollouts.forget(step)
        super()._compute_metrics(batch, metrics, timing_raw, **options)
        metrics |= {f"rewards/{name}": value for name, value in of_rewards.items()}  # for verl's loggers
        measured = names.rename(metrics, names.RL_NAMES) | names.of_plugins(metrics) | of_rewards | self._excluded
        measured |= self._drawn
        self._excluded, self._validated = {}, {}
        measured[TOKENS_SO_FAR] = self._session.schedule.tokens
        measured["temperature"] = self.config.actor_rollout_ref.rollout.temperature
        measured |= names.memory(self.actor_rollout_wg.take_peak_memory())
        self._session.reporter.step(step, measured, self._weights.policy_id, platform_faults=int(metrics[FAULTS]))
        if self._session.schedule.is_saved(step):
            self._session.record.samples(step, samples)
            self._session.keep(step, self._model_folder(step), self._weights.policy_id, self._score, self._interval)
        self._session.end_step(step)
        self._session.reporter.phase(Phase.GENERATING)

    def _overlapped(self, timing_raw: Any) -> dict[str, float]:
        """What it took to make the samples, without what the trainer stood still for them."""
        waited, self._waited = self._waited + timing_raw["gen"], timing_raw["wait"]
        if self._fresh:
            return {}
        return {"timing_s/overlapped": max(0.0, self.rollouts.made(self.global_steps).seconds - waited)}

    def _of_rewards(self, step: int) -> dict[str, float]:
        rewarding, made = self._session.rewarding, self.rollouts.made(step)
        tallied = made.tally.take() | rewarding.weights(step)
        if self._session.job.algorithm.has_greedy:
            tallied["greedy_reward_mean"] = made.greedy_mean
        if rewarding.reward.combination == Combination.GDPO and "score_mean" in tallied:
            tallied["reward_mean"] = tallied["score_mean"]  # the mean over a group is 0 whatever is learned
        return tallied

    def _save_checkpoint(self) -> None:
        self._score, self._interval = None, None
        # Where the next step's samples are made already it goes on: it makes room with that step.
        if self._asked_for <= self.global_steps and self._session.is_saved(self.global_steps):
            self._session.reporter.phase(Phase.SAVING)
            self._session.require_space()
            super()._save_checkpoint()

    def _model_folder(self, step: int) -> Path:
        return self._session.checkpoints.folder(step) / "actor" / "huggingface"

    def _check_faults(self, lost: int, expected: int) -> None:
        limit = self._session.job.max_fault_share
        check_faults(self.global_steps, lost, expected, limit, self.rollouts.last_fault)


def _sent(called: Any) -> WeightSync:
    """Of a call to all ranks, the answer of the one that sends."""
    return next(result for result in ray.get(called) if isinstance(result, WeightSync))
