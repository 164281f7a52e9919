"""verl's synchronous trainer as a run of Ratchet: reports each step, exports validated models, fails closed.

verl's loop (trainer/ppo/v1/trainer_base.py, `fit`) calls, for each step: `prepare_step`, `_balance_batch` when its
samples are there, the update, `_save_checkpoint`, `on_step_end` (weights to the engine), `_validate`,
`_compute_metrics`. What of it may come when is in `job/samples/steps.py`: each hook here asks for the state that it
goes on from. In the last one everything about the step is known: there it is reported, and only then does its
checkpoint count.
"""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from statistics import fmean
from typing import Any

import ray
import transfer_queue as tq
from omegaconf import DictConfig
from torch.utils.data import Sampler
from verl.single_controller.ray import ResourcePoolManager
from verl.trainer.ppo.core_algos import agg_loss
from verl.trainer.ppo.utils import Role
from verl.trainer.ppo.v1 import trainer_base
from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync

from ratchet_kit import policy_id
from ratchet_problems import Problem
from ratchet_rewards import Combination
from trainer_service.domain.run.run import TOKENS_SO_FAR, Phase
from trainer_service.domain.run.sample import Sample
from trainer_service.domain.spec.curriculum import Kind
from trainer_service.domain.spec.plugins import PluginKind
from trainer_service.job.plugins import entry_points
from trainer_service.job.policy.transport import WeightSync
from trainer_service.job.policy.weight_versions import WeightVersions
from trainer_service.job.run.faults import check_cut_off, check_data, check_probabilities
from trainer_service.job.samples.curriculum import Draws
from trainer_service.job.samples.groups import Groups
from trainer_service.job.samples.prompt_limits import left_out
from trainer_service.job.samples.prompting import Prompting
from trainer_service.job.samples.sample_log import SampleLog
from trainer_service.job.samples.step_samples import StepSamples
from trainer_service.job.samples.steps import Ahead, Generating, Idle, Learning, Moves, State
from trainer_service.job.session import Session
from trainer_service.verl import metrics as names
from trainer_service.verl.driver.own_advantages import by_turn, noted, with_baselines
from trainer_service.verl.driver.replaced import NoServers, Pools
from trainer_service.verl.driver.rollouts import Rollouts
from trainer_service.verl.driver.samplers import (
    CurriculumSampler,
    EarningSampler,
    FollowingSampler,
    PluginSampler,
    takes_earned,
)
from trainer_service.verl.driver.step_sampling import CUT_OFF, FAULTS, Replay
from trainer_service.verl.driver.validation import Validated, validate
from trainer_service.verl.precision import round_weights
from trainer_service.verl.rank.losses import ENTROPY, GAP_MEAN
from trainer_service.verl.rank.worker import ActorWorker

GAP = "training/rollout_probs_diff_mean"
"""Of a pass for old log-probs; in one update per batch it is measured in the update (`GAP_MEAN`)."""

# DAPO may replace at most this many times the prompts of a step.
MAX_FILTERED_BATCHES = 3


class RatchetTrainer(PPOTrainerSync):
    resource_pool_manager: ResourcePoolManager
    global_steps: int

    def __init__(self, config: DictConfig, session: Session, loading: Future[None]) -> None:
        self._session = session
        self._loading = loading
        self._max_staleness = session.job.spec.hyperparameters.max_staleness or 0
        self._sent = WeightVersions(self._restore_weights, self._max_staleness)
        self._moves = Moves(draw=self._draw, learn=self._learn, save=self._save, renew=self._renew)
        self._state: State | None = None
        """None until the engine has weights."""
        self._fresh = True
        self._validated: Validated | None = None
        self._earning: EarningSampler | None = None
        self._following: FollowingSampler | None = None
        # What else the next report of a step says: by verl's names, and for its loggers too; by ours.
        self._logged: dict[str, float] = {}
        self._reported: dict[str, float] = {}
        self._components: dict[str, float] = {}
        self._advantages: dict[str, float] = {}
        """The samples' of the step under way, by their keys."""
        super().__init__(config)

    # What verl builds.

    def _setup(self) -> None:
        trainer_base.LLMServerManager = NoServers
        super()._setup()
        self._prompting = Prompting.of(self.tokenizer, self.config.data)
        its = self._session
        self._groups = Groups(
            its.job,
            its.policy,
            its.environment,
            its.rewarding,
            self._sent,
            self._prompting,
            its.reporter,
            its.second_hand,
            its.folders,
        )
        self.rollouts = Rollouts(its.job, its.background, self._sent, self._groups, self.train_dataset.problems)
        compute = trainer_base.compute_advantage_for_multi_trajectories
        if its.job.algorithm.has_greedy:
            compute = with_baselines(compute, self.rollouts.greedy_of)
        if its.job.spec.hyperparameters.turn_discount:
            compute = by_turn(compute, self.rollouts.credit_of)
        trainer_base.compute_advantage_for_multi_trajectories = noted(compute, self._advantages.update)
        self._samples = SampleLog(its.job.work_dir, its.job.samples_uri)

    def _init_dataloader(self) -> None:
        """Raises InvalidArgument when the problems that have room make no batch, DataLoss when they have changed."""
        spec = self._session.job.spec
        self._draws: Draws | None = None
        if spec.curriculum:
            trainer_base.create_rl_sampler = lambda config, dataset: CurriculumSampler(self._drawing(dataset.problems))
        elif spec.follow_problems:
            trainer_base.create_rl_sampler = lambda config, dataset: self._follower(len(dataset))
        elif draw := entry_points.load(spec.plugins, PluginKind.SAMPLER):
            trainer_base.create_rl_sampler = lambda config, dataset: self._sampling(draw, dataset.problems)
        super()._init_dataloader()
        check_data(spec.problems, self.train_dataset.digest)
        if spec.validation_problems:
            check_data(spec.validation_problems, self.val_dataset.digest)
        self.train_dataset.fitting.require(self.config.data.train_batch_size)
        of_validation = self.val_dataset.fitting if self.val_dataset.problems else None
        self._reported |= left_out(self.train_dataset.fitting, of_validation)

    def _sampling(self, draw: Callable[..., Iterable[Any]], problems: Sequence[Problem]) -> Sampler[int]:
        seed = self._session.job.spec.seed
        if not takes_earned(draw):
            return PluginSampler(draw, problems, seed)
        self._earning = EarningSampler(draw, problems, seed)
        return self._earning

    def _follower(self, count: int) -> Sampler[int]:
        self._following = FollowingSampler(count, self._session.job.spec.seed)
        return self._following

    def _follow(self, following: FollowingSampler, step: int) -> None:
        """Adds the newer versions of the problems that are drawn from up to this step. Raises as `_init_dataloader`."""
        for ref in self._session.drawn(step)[following.followed :]:
            found = self.train_dataset.follow(ref.name, ref.limit)
            check_data(ref, found.digest)
            found.fitting.require(self.config.data.train_batch_size)
            following.follow(found.places)
            self._reported |= left_out(found.fitting, None)

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
            source=lambda: self.rollouts,
            max_staleness=self._max_staleness,
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
        role = Role.ActorRolloutRef if Role.ActorRolloutRef in self.role_worker_mapping else Role.ActorRollout
        self.role_worker_mapping[role] = ray.remote(ActorWorker)
        # One process per rank holds actor, critic and reference: verl's default reserves CPUs for three.
        self.resource_pool_manager = Pools(
            resource_pool_spec=self.resource_pool_manager.resource_pool_spec, mapping=self.mapping, max_colocate_count=1
        )

    def fit(self, agent_loop_manager: Rollouts) -> None:
        try:
            super().fit(agent_loop_manager)
        finally:
            agent_loop_manager.abandon()
            self._samples.close()
            # wandb and MLflow write the last of it here, and hold up the end of the process otherwise.
            if (tracking := getattr(self, "logger", None)) is not None:
                tracking.finish()

    # The moves from state to state.

    def _draw(self, step: int) -> None:
        if self._following:
            self._follow(self._following, step)
        now, self.global_steps = self.global_steps, step  # verl's methods take it for that of what they submit
        self._add_batch_to_generate()
        self.global_steps = now

    def _learn(self, step: int) -> None:
        if self._draws:
            self._reported |= self._draws.learn(self.rollouts.evidence(step))
        if self._earning:
            self._earning.learn(step, self.rollouts.evidence(step))

    def _save(self, step: int) -> None:
        self._session.reporter.phase(Phase.SAVING)
        self._session.require_space()
        super()._save_checkpoint()

    def _renew(self, step: int) -> None:
        """Waits for all that is under way, unless it goes on with the new weights."""
        if not self._session.job.is_partial:
            with trainer_base.marked_timer("wait", self.timing_raw):
                self.rollouts.wait_made()
        with trainer_base.marked_timer("update_weights", self.timing_raw):
            self._send_weights(step)

    def _send_weights(self, step: int) -> None:
        with self._sent.renewing():
            sync = _sync_of(self.actor_rollout_wg.update_weights(global_steps=step, mode="naive"))
            self._sent.now(sync.policy_id, step)
        self._logged |= {"sync/bytes": sync.sent_bytes, "sync/probe_error": sync.probe_error}
        self._logged |= {f"sync/{part}_s": seconds for part, seconds in sync.seconds.items()}

    def _restore_weights(self) -> str:
        """To rollout-service what it had; their policy id. Called while the main thread waits, or does a step."""
        return _sync_of(self.actor_rollout_wg.restore_weights(global_steps=self._sent.version.step)).policy_id

    # The step.

    def on_init_end(self) -> None:
        self._session.reporter.phase(Phase.LOADING_POLICY)
        self._loading.result()
        self._send_weights(self.global_steps)
        self._state = Idle(self._moves, self.global_steps)

    def on_train_begin(self) -> None:
        """The base has been validated where that is wanted: the first step comes next."""
        self._session.reporter.phase(Phase.GENERATING)

    def on_step_begin(self) -> None:
        """What is sampled at a temperature is learned from at the same."""
        self.config.actor_rollout_ref.rollout.temperature = self._session.job.spec.temperature_at(self.global_steps)

    def prepare_step(self) -> dict[str, Any]:
        """The prompts of all steps but the first are with the engine by now: `_go_on`."""
        if isinstance(self._state, Idle):
            self._state = self._state.generate(self._ahead(self._state.step + 1, self._max_staleness - 1))
        return {}

    def _balance_batch(self, batch: Any, metrics: dict[str, Any], **options: Any) -> Any:
        """Before anything is computed on the samples: are they enough?"""
        self._session.reporter.phase(Phase.UPDATING)
        spec, lost = self._session.job.spec, metrics[FAULTS]
        self._groups.check_faults(self.global_steps, lost, spec.hyperparameters.samples)
        if spec.resources.shares_gpu:
            self._session.background.wait(self._session.policy.sleep())
        metrics[names.TOKENS] = sum(tag["seq_len"] for tag in batch.tags)  # before verl pads it
        if self._session.spend(self.global_steps, metrics[names.TOKENS]):
            # verl's loop has asked already whether this step is its last: it ends before the next, and validates now
            self.total_training_steps = self.global_steps
            self.config.trainer.test_freq = 1
        self._fresh = self._sent.check(self.global_steps, batch.tags)
        if isinstance(self._state, Generating):
            self._state = self._state.learn(self._ahead(self.global_steps, self._max_staleness))
        assert isinstance(self._state, Learning | Ahead)
        assert self._state.step == self.global_steps
        if self._session.folders:
            check_cut_off(self.global_steps, metrics[CUT_OFF], spec.hyperparameters.samples)
            self._fit_updates(len(batch))
        elif spec.resources.ranks == 1 and not lost:
            return batch  # nothing to balance, which takes verl 30 ms
        return super()._balance_batch(batch, metrics, **options)

    def _fit_updates(self, trajectories: int) -> None:
        """Makes the updates of a step as many as without branches: verl fills the last one up otherwise, and a step of
        one trajectory too many would have two updates."""
        config, spec = self.config.actor_rollout_ref, self._session.job.spec
        hyper, ranks = spec.hyperparameters, spec.resources.ranks
        updates = (hyper.batch_size or 1) // (hyper.mini_batch_size or 1)
        prompts = -(-trajectories // (updates * config.rollout.n))
        while prompts * config.rollout.n % ranks:
            prompts += 1
        config.actor.ppo_mini_batch_size = prompts

    def _ahead(self, step: int, steps: int) -> int:
        """The last step whose prompts may be drawn before `step` is over: so many later at most."""
        return step if self._session.reporter.preempted else self._session.schedule.ahead(step, steps)

    @property
    def _is_known_ahead(self) -> bool:
        """True where all of a step is known once the weights before it are sent: its samples are made by then, none is
        drawn in the place of others, and no step is the last for the tokens that it has, or for what it costs."""
        spec = self._session.job.spec
        is_counted = spec.max_tokens is not None or spec.budget is not None
        job = self._session.job
        return not (job.is_partial or is_counted or job.algorithm.replaces_groups)

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

    def _compute_ref_log_prob(self, batch: Any, *given: Any, **named: Any) -> Any:
        """verl leaves in the batch that it goes without adapters (trainer/ppo/v1/trainer_base.py:1704): a critic, which
        has none, would read it next."""
        batch = super()._compute_ref_log_prob(batch, *given, **named)
        batch.extra_info.pop("no_lora_adapter", None)
        return batch

    def _update_actor(self, batch: Any, metrics: dict[str, Any]) -> Any:
        """Raises as `_compute_old_log_prob`. What such an update has made is not saved, and goes to no engine."""
        batch = super()._update_actor(batch, metrics)
        self._check_probabilities(metrics, GAP_MEAN)
        return batch

    def _check_probabilities(self, metrics: dict[str, Any], gap: str) -> None:
        if gap in metrics and self._fresh:  # else they are two policies'
            check_probabilities(self.global_steps, metrics[gap], self._session.job.probability_gap_limit)

    def _save_checkpoint(self) -> None:
        self._validated = None
        # Where the next step's samples are made already it goes on: it makes room with that step.
        if isinstance(self._state, Learning) and self._session.is_saved(self.global_steps):
            self._state.save()

    def on_step_end(self) -> None:
        assert isinstance(self._state, Learning | Ahead)
        self._state = self._state.renew()

    def _validate(self) -> dict[str, float]:
        """Mean score on the validation problems of the weights that the engine now has."""
        if not self.val_dataset.problems:
            return {}
        self._session.reporter.phase(Phase.VALIDATING)
        validating = validate(self._groups, self.val_dataset.problems, self.global_steps)
        found = self._session.background.wait(validating)
        self._components |= found.components
        if self.global_steps == 0:  # the base, before the first step
            self._logged |= found.base_metrics
            return found.base_metrics
        self._validated = found
        return found.metrics

    def _compute_metrics(self, batch: Any, metrics: dict[str, Any], timing_raw: Any, **options: Any) -> None:
        """The end of a step: its metrics are whole, so it is reported, and its checkpoint counts from here on."""
        step, made = self.global_steps, self.rollouts.take(self.global_steps)
        reported, self._reported = self._reported, {}
        self._go_on(step)
        metrics.update(self._logged)
        if not self._fresh:
            metrics["timing_s/overlapped"] = made.overlapped(timing_raw["gen"])
        of_rewards = self._of_rewards(step, made) | self._components
        if self._session.folders:
            of_rewards["episodes_cut_off"] = metrics[CUT_OFF] / self._session.job.spec.hyperparameters.samples
        super()._compute_metrics(batch, metrics, timing_raw, **options)
        # verl's own counts those that are as long as the longest of the batch (trainer/ppo/metric_utils.py:576).
        most = self._session.job.spec.hyperparameters.max_response_tokens or 0
        lengths = [tag["response_len"] for tag in batch.tags if not tag.get("is_padding")]
        metrics[names.CLIPPED] = fmean(length >= most for length in lengths) if lengths else 0.0
        metrics |= {f"rewards/{name}": value for name, value in of_rewards.items()}  # for verl's loggers
        measured = names.rename(metrics, names.RL_NAMES) | names.of_plugins(metrics) | of_rewards | reported
        measured[TOKENS_SO_FAR] = self._session.schedule.tokens
        measured["temperature"] = self.config.actor_rollout_ref.rollout.temperature
        measured |= names.memory(self.actor_rollout_wg.take_peak_memory()) | self._samples.metrics()
        self._logged, self._components = {}, {}
        kept = self._keep_samples(step, made)
        self._session.reporter.step(step, measured, self._sent.version.policy_id, platform_faults=int(metrics[FAULTS]))
        if self._session.schedule.is_saved(step):
            score, interval = (self._validated.score, self._validated.interval) if self._validated else (None, None)
            kept.result()  # a step that is saved is not repeated
            model = self._session.checkpoints.folder(step) / "actor" / "huggingface"
            round_weights(model, self._session.job.dtype)
            self._session.keep(step, model, policy_id.of_folder(model), score, interval)
        self._session.end_step(step)
        self._session.reporter.phase(Phase.GENERATING)

    def _keep_samples(self, step: int, made: StepSamples) -> Future[None]:
        advantages = dict(self._advantages)
        self._advantages.clear()
        job = self._session.job
        most = job.spec.hyperparameters.max_response_tokens or 0

        def records() -> Sequence[Sample]:
            return made.records(self._prompting.whole_text, advantages, job.attempt, most)

        return self._samples.keep(step, records)

    def _go_on(self, step: int) -> None:
        """The engine has the weights after `step`: what it makes next need not wait until that is reported."""
        is_last = step >= self.total_training_steps or step == self._session.schedule.leaves_at
        if isinstance(self._state, Idle) and not is_last:
            self.prepare_step()
        elif isinstance(self._state, Generating) and self._is_known_ahead:
            self._state = self._state.learn(self._ahead(step + 1, self._max_staleness))

    def _of_rewards(self, step: int, made: StepSamples) -> dict[str, float]:
        rewarding = self._session.rewarding
        tallied = made.tally.take() | rewarding.weights(step)
        if self._session.job.algorithm.has_greedy:
            tallied["greedy_reward_mean"] = made.greedy_mean
        if (self._session.folders or rewarding.reward.combination == Combination.GDPO) and "score_mean" in tallied:
            # The mean over a group is 0 whatever is learned, or over trajectories, of which an episode has several.
            tallied["reward_mean"] = tallied["score_mean"]
        return tallied


def _sync_of(called: Any) -> WeightSync:
    """Of a call to all ranks, the answer of the one that sends."""
    return next(result for result in ray.get(called) if isinstance(result, WeightSync))
