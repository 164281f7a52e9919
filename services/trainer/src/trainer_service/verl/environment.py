"""The environment of every process of the job: what verl, Ray and torch read before any config."""

import os

from trainer_service.job.run import process_usage
from trainer_service.job.run.config import JobConfig

PLUGIN = "trainer_service.verl.rank"
"""The module that verl imports in each of its processes."""


def environment(job: JobConfig) -> dict[str, str]:
    """verl reads its own when it is imported."""
    shared = {
        "VERL_USE_EXTERNAL_MODULES": PLUGIN,
        "VERL_LOGGING_LEVEL": "WARN",
        # verl 0.9.1 sets this itself where it starts Ray.
        "TRANSFER_QUEUE_ENABLE": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "HF_HUB_OFFLINE": "1",
        # Every import of verl warns of the engines that are not installed; TransferQueue, of each of its threads.
        "PYTHONWARNINGS": "ignore::UserWarning",
        "TQ_LOGGING_LEVEL": "ERROR",
        "WANDB_MODE": "offline",
        "MLFLOW_TRACKING_URI": f"sqlite:///{job.work_dir.absolute() / 'mlflow.db'}",
        "RAY_USAGE_STATS_ENABLED": "0",
        # A local Ray would start a Python for each CPU that it believes to have.
        "RAY_prestart_worker_first_driver": "0",
        "RAY_enable_worker_prestart": "0",
        "RAY_OVERRIDE_JOB_RUNTIME_ENV": "1",
        process_usage.FOLDER: str(job.usage_folder.absolute()),
        **job.to_env(),
    }
    if job.is_cuda:
        return shared
    return (
        shared
        | {
            "VERL_PLATFORM": "cpu",
            # verl finds its FSDP engine under the device "cuda" only; the platform above is what it then runs on.
            "VERL_ENGINE_DEVICE": "cuda",
            "OMP_NUM_THREADS": str(_threads(job)),
            # Threads that wait keep a core from whoever has work: by default for milliseconds. So many turns are 20 us.
            "GOMP_SPINCOUNT": "1000",
            # The logical GPUs of a CPU machine have no device behind them.
            "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
        }
        | ({"GLOO_SOCKET_IFNAME": "lo"} if job.spec.resources.nodes == 1 else {})
    )


def _threads(job: JobConfig) -> int:
    """Of each rank. Engine and sandbox have little to do while ranks compute, but where samples are made meanwhile: a
    lone rank then leaves the engine a core, and none of its threads waits for one that is without."""
    cores, ranks = len(os.sched_getaffinity(0)), job.spec.resources.ranks_per_node
    if job.spec.hyperparameters.max_staleness and ranks == 1:
        cores -= 1
    return max(1, cores // ranks)
