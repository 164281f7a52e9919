"""`ray start` for a machine with few cores: private functions of Ray, which is pinned, are wrapped.

The dashboard serves the job API and nothing else, and there is no server for remote clients. The whole of it is nine
more Python processes: on two busy cores they double the time to come up, and they hold some 0.2 GB. The dashboard
has an option for what to load, but `ray start` does not.

The node gets minutes to come up. Ray gives it 30 s (`ray._private.node.Node`), in which a machine that is at work on
something else does not get through the imports of Ray's agents.
"""

import time
from collections.abc import Callable
from typing import Any

import ray._private.services as services
from ray._private.node import Node
from ray._private.ray_constants import PROCESS_TYPE_DASHBOARD
from ray.scripts.scripts import main

MODULES = "JobHead,NodeHead"
"""NodeHead says which node is the head: JobHead starts jobs there."""
PATIENCE_S = 300


def lean(start: Callable[..., Any]) -> Callable[..., Any]:
    def start_ray_process(command: list[str], process_type: str, *args: Any, **kwargs: Any) -> Any:
        if process_type == PROCESS_TYPE_DASHBOARD:
            command = [*command, f"--modules-to-load={MODULES}"]
        return start(command, process_type, *args, **kwargs)

    return start_ray_process


def patient(look: Callable[..., Any]) -> Callable[..., Any]:
    def get_node(*args: Any, **kwargs: Any) -> Any:
        end = time.monotonic() + PATIENCE_S
        while True:
            try:
                return look(*args, **kwargs)
            except RuntimeError:  # it has not registered yet
                if time.monotonic() > end:
                    raise
                time.sleep(0.2)

    return get_node


if __name__ == "__main__":
    services.start_ray_process = lean(services.start_ray_process)
    services.get_node = patient(services.get_node)
    Node.start_ray_client_server = lambda node: None
    main()
