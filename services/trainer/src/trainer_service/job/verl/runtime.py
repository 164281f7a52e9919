"""Ray and verl's config for a job, in this process: no shell, no second driver."""

import os
import time
from collections.abc import Sequence

import ray
import yaml
from hydra import compose, initialize_config_module
from omegaconf import DictConfig, OmegaConf

from ratchet_kit.logs import get_logger
from trainer_service.job.config import JobConfig
from trainer_service.job.record import without_secrets
from trainer_service.job.session import Session
from trainer_service.job.verl import ray_start
from trainer_service.job.verl.config import environment

log = get_logger(__name__)

# Ray would otherwise publish the machine's own address and listen there; 127.0.0.1 itself it rewrites.
LOOPBACK = "127.0.0.2"
# What verl's controllers ask for beside the ranks; they mostly wait.
CONTROLLER_CPUS = 8
QUEUE = "TransferQueueController"
QUEUE_NAMESPACE = "transfer_queue"


def compose_config(name: str, overrides: Sequence[str]) -> DictConfig:
    """verl's config `name` with `overrides` applied, in order."""
    with initialize_config_module(config_module="verl.trainer.config", version_base=None):
        return compose(config_name=name, overrides=list(overrides))


def put_on_record(session: Session, config: DictConfig) -> None:
    """What verl gets in this attempt, for people to read."""
    plain = without_secrets(OmegaConf.to_container(config, resolve=True))
    session.record.config(session.job.attempt, yaml.safe_dump(plain, sort_keys=False, allow_unicode=True))


def connect(job: JobConfig) -> None:
    """Joins the cluster of RAY_ADDRESS, or starts a local one that ends with this process."""
    ranks = job.spec.resources.ranks
    runtime_env = {"env_vars": environment(job)}
    if os.environ.get("RAY_ADDRESS"):
        ray.init(runtime_env=runtime_env, log_to_driver=True)
        return
    ray_start.wait_longer()
    ray.init(
        num_cpus=ranks + CONTROLLER_CPUS,
        num_gpus=ranks,
        include_dashboard=False,
        object_store_memory=300 * 1024 * 1024,
        runtime_env=runtime_env,
        _node_ip_address=LOOPBACK,
    )


def wait_for_transfer_queue() -> None:
    """Returns when no other job of this cluster holds the TransferQueue, of which verl has one per cluster.

    A job that was killed holds it for some seconds more; one of another trainer-service, to its end.
    """
    waited = 0
    while True:
        try:
            ray.get_actor(QUEUE, namespace=QUEUE_NAMESPACE)
        except ValueError:
            return
        if waited % 60 == 0:
            log.info("job.waiting", reason="another job of this Ray cluster trains")
        waited += 1
        time.sleep(1)
