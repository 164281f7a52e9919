"""verl asks for "cpu:gloo,<device>:<backend>" (utils/distributed.py, engine_workers.py); on CPU that names the device
twice, which torch refuses."""

from typing import Any

import torch.distributed

HELD = {"verl.utils.distributed:initialize_global_process_group_ray": "761a94d1a2e058d3"}


def apply() -> None:
    original = torch.distributed.init_process_group

    def init_process_group(backend: str | None = None, *args: Any, **kwargs: Any) -> Any:
        return original("cpu:gloo" if backend == "cpu:gloo,cpu:gloo" else backend, *args, **kwargs)

    torch.distributed.init_process_group = init_process_group
