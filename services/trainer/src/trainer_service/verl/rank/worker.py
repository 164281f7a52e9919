"""verl's actor worker, with an answer to "which weights does the engine have now?", and with our loss."""

from functools import partial

from verl.single_controller.base.decorator import Dispatch, register
from verl.trainer.ppo.core_algos import register_policy_loss
from verl.workers.engine_workers import ActorRolloutRefWorker

from trainer_service.domain.spec.plugins import PluginKind
from trainer_service.job.plugins import entry_points
from trainer_service.job.policy.transport import WeightSync
from trainer_service.job.run.config import JobConfig
from trainer_service.verl.config import PLUGIN_NAME
from trainer_service.verl.rank.losses import policy_loss
from trainer_service.verl.rank.memory import take_peak


class ActorWorker(ActorRolloutRefWorker):
    @register(dispatch_mode=Dispatch.ONE_TO_ALL)
    def init_model(self) -> None:
        # Before verl looks for the loss by its name.
        if loss := entry_points.load(JobConfig.from_env().spec.plugins, PluginKind.LOSS):
            register_policy_loss(PLUGIN_NAME)(loss)
        super().init_model()
        self.actor.set_loss_fn(partial(policy_loss, config=self.loss_fn.keywords["config"]))

    @register(dispatch_mode=Dispatch.ONE_TO_ALL, blocking=False)
    async def update_weights(self, global_steps: int | None = None, mode: str = "auto") -> WeightSync | None:
        """As verl's, which returns nothing; rank 0 returns what was sent."""
        await super().update_weights(global_steps=global_steps, mode=mode)
        return self.rollout.last_sync

    @register(dispatch_mode=Dispatch.ONE_TO_ALL, blocking=False)
    async def restore_weights(self, global_steps: int) -> WeightSync | None:
        """As `update_weights`, with those that were sent last, whatever was learned since. Where they are not kept,
        nothing may have been."""
        if JobConfig.from_env().keeps_sent:
            await self.rollout.send_again()
        else:
            await super().update_weights(global_steps=global_steps, mode="naive")
        return self.rollout.last_sync

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)
    def take_peak_memory(self) -> int:
        """Bytes at this rank's peak since it was last taken: resident on CPU, allocated on CUDA."""
        return take_peak()
