"""Reinforcement learning: verl's V1 trainer, driven from this process."""

from concurrent.futures import Future, ThreadPoolExecutor

import transfer_queue
from omegaconf import OmegaConf
from verl.trainer.ppo.core_algos import register_adv_est
from verl.trainer.ppo.utils import need_critic, need_reference_policy
from verl.utils.config import validate_config

from trainer_service.domain.spec.plugins import PluginKind
from trainer_service.job.plugins import entry_points
from trainer_service.job.session import Session
from trainer_service.verl.config import PLUGIN_NAME, rl_overrides
from trainer_service.verl.driver import own_advantages as own_advantages  # registers them
from trainer_service.verl.driver.rl_trainer import RatchetTrainer
from trainer_service.verl.runtime import compose_config, put_on_record


def run(session: Session, loading: Future[None]) -> None:
    """Trains to the last step. `loading` ends when the policy is there to take weights.

    As verl's own TaskRunnerV1.run (trainer/main_ppo.py:139), without its Ray actor, and with what takes long at the
    start side by side: the queue's actors, the ranks, and vLLM.
    """
    if estimate := entry_points.load(session.job.spec.plugins, PluginKind.ADVANTAGE):
        register_adv_est(PLUGIN_NAME)(estimate)
    config = compose_config("ppo_trainer", rl_overrides(session.job, session.resume_from))
    validate_config(config, use_reference_policy=need_reference_policy(config), use_critic=need_critic(config))
    config.transfer_queue.enable = True
    OmegaConf.resolve(config)
    put_on_record(session, config)

    if loading.done():
        loading.result()  # an engine that can never load ends the run before ranks are made
    try:
        with ThreadPoolExecutor(max_workers=1) as pool:
            queue = pool.submit(transfer_queue.init, config.transfer_queue)
            trainer = RatchetTrainer(config, session, loading)
            trainer.init()
            queue.result()
        trainer.fit(trainer.rollouts)
    finally:
        transfer_queue.close()
    session.free_engine()
