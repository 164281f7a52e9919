"""TransferQueue 0.1.11 finds its controller by a name in a namespace that is the same for a whole cluster
(interface.py:119, 201): a second run would write into the queue of the first. Each attempt has its own here."""

from typing import Any

import ray
from transfer_queue import interface
from transfer_queue.controller import TransferQueueController

from trainer_service.job.run.config import JobConfig

HELD = {
    "transfer_queue.interface:init": "4a75f86c544eea7e",
    "transfer_queue.interface:_init_from_existing": "ed43e32c550d3e6f",
}


def apply() -> None:
    interface.ray, interface.TransferQueueController = _Ray(), _Controller()


def _namespace() -> str:
    job = JobConfig.from_env()
    return f"transfer_queue-{job.run_id}-{job.attempt}"


class _Ray:
    def get_actor(self, name: str, **unused: Any) -> Any:
        return ray.get_actor(name, namespace=_namespace())

    def __getattr__(self, name: str) -> Any:
        return getattr(ray, name)


class _Controller:
    def options(self, **options: Any) -> Any:
        return TransferQueueController.options(**options | {"namespace": _namespace()})
