"""`ray start`, with a dashboard that serves the job API and nothing else.

The whole dashboard is eight more Python processes: on two busy cores they double the time to come up, for which Ray
gives a node 30 s and no more, and they hold 0.17 GB. The dashboard can be told what to load, but `ray start` has no
option for it: hence this patch of a private function, of the Ray that is pinned.
"""

from collections.abc import Callable
from typing import Any

import ray._private.services as services
from ray._private.ray_constants import PROCESS_TYPE_DASHBOARD
from ray.scripts.scripts import main

MODULES = "JobHead,NodeHead"
"""NodeHead says which node is the head: JobHead starts jobs there."""


def lean(start: Callable[..., Any]) -> Callable[..., Any]:
    def start_ray_process(command: list[str], process_type: str, *args: Any, **kwargs: Any) -> Any:
        if process_type == PROCESS_TYPE_DASHBOARD:
            command = [*command, f"--modules-to-load={MODULES}"]
        return start(command, process_type, *args, **kwargs)

    return start_ray_process


if __name__ == "__main__":
    services.start_ray_process = lean(services.start_ray_process)
    main()
