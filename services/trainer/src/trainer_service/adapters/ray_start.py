"""`ray start`, with a dashboard that serves the job API and nothing else.

The whole dashboard is ten more Python processes, which keep two cores busy for as long as Ray gives a node to come up
(30 s, not to be changed), and hold 0.4 GB. Ray has the option (`--modules-to-load`) but no way to give it: hence this
patch of a private function, for the Ray that is pinned.
"""

from collections.abc import Callable
from typing import Any

import ray._private.services as services
from ray._private.ray_constants import PROCESS_TYPE_DASHBOARD
from ray.scripts.scripts import main

MODULES = "JobHead,NodeHead"


def lean(start: Callable[..., Any]) -> Callable[..., Any]:
    def start_ray_process(command: list[str], process_type: str, *args: Any, **kwargs: Any) -> Any:
        if process_type == PROCESS_TYPE_DASHBOARD:
            command = [*command, f"--modules-to-load={MODULES}"]
        return start(command, process_type, *args, **kwargs)

    return start_ray_process


if __name__ == "__main__":
    services.start_ray_process = lean(services.start_ray_process)
    main()
