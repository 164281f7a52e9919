"""Ray and verl's config for a job, in this process: no shell, no second driver."""

import os
import time
from collections.abc import Sequence
from datetime import timedelta

import ray
import yaml
from hydra import compose, initialize_config_module
from omegaconf import DictConfig, OmegaConf
from ray._private import state

from ratchet_kit.logs import get_logger
from trainer_service.job.run import process_usage
from trainer_service.job.run.config import JobConfig
from trainer_service.job.run.record import without_secrets
from trainer_service.job.session import Session
from trainer_service.verl import ray_start
from trainer_service.verl.environment import environment

log = get_logger(__name__)

# Ray would otherwise publish the machine's own address and listen there; 127.0.0.1 itself it rewrites.
LOOPBACK = "127.0.0.2"
# What verl's controllers ask for beside the ranks; they mostly wait.
CONTROLLER_CPUS = 8
RECORD = f"{process_usage.record.__module__}.{process_usage.record.__name__}"
"""Called by Ray in each of the job's processes."""
PATIENCE_IF_TOO_SMALL = timedelta(seconds=20)
"""How long a job waits for a cluster that is too small for it: a node may be coming back."""


class NoRoom(Exception):
    """The cluster has no room for the ranks."""


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
    runtime_env = {"env_vars": environment(job), "worker_process_setup_hook": RECORD}
    if os.environ.get("RAY_ADDRESS"):
        ray.init(runtime_env=runtime_env, log_to_driver=True)
        return
    ray_start.wait_longer()
    ray.init(
        address="local",  # else one that somebody started on this machine is joined
        num_cpus=ranks + CONTROLLER_CPUS,
        num_gpus=ranks,
        include_dashboard=False,
        object_store_memory=300 * 1024 * 1024,
        runtime_env=runtime_env,
        _node_ip_address=LOOPBACK,
    )


def alive() -> frozenset[str]:
    """The ids of the cluster's nodes."""
    return frozenset(node["NodeID"] for node in ray.nodes() if node["Alive"])


def ending_node() -> str:
    """The address of a machine with this job's driver or actors that Ray drains: a spot node that was told to end, say
    (`ray drain-node`). Empty: none."""
    ending = state.state.get_draining_nodes()
    if not ending:
        return ""
    context = ray.get_runtime_context()
    actors = state.actors(job_id=ray.JobID.from_hex(context.get_job_id()), actor_state_name="ALIVE").values()
    ours = {actor["Address"]["NodeID"] for actor in actors} | {context.get_node_id()}
    addresses = {node["NodeID"]: node["NodeManagerAddress"] for node in ray.nodes()}
    return next((addresses.get(id, id) for id in sorted(ending) if id in ours), "")


def wait_for_room(job: JobConfig) -> None:
    """Returns when the cluster has free accelerators for all ranks. A job that ended, or was killed, holds its own for
    some seconds more; those of other services are not counted by the one that gives runs their turn.

    Raises NoRoom after the job's patience; soon where the cluster has too few, taken ones included: one of its nodes
    was lost, which Ray says some time later.
    """
    resources, began, waiting = job.spec.resources, time.monotonic(), False
    wanted = resources.nodes or 1

    def seats(accelerators: Sequence[int]) -> int:
        return sum(have // resources.ranks_per_node for have in accelerators)

    while True:
        free = [int(node.get("GPU", 0)) for node in state.available_resources_per_node().values()]
        if seats(free) >= wanted:
            return
        there = [int(node["Resources"].get("GPU", 0)) for node in ray.nodes() if node["Alive"]]
        patience = min(job.patience, PATIENCE_IF_TOO_SMALL) if seats(there) < wanted else job.patience
        if time.monotonic() - began > patience.total_seconds():
            has = f"it has {sum(there)} accelerators, {sum(free)} of them free"
            raise NoRoom(f"no room on the cluster for {resources.ranks} ranks: {has}")
        if not waiting:
            waiting = True
            log.info("job.waiting", reason="too few accelerators are free", free=sum(free), ranks=resources.ranks)
        time.sleep(1)
