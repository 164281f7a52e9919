"""`ray start` for a machine with few cores: private functions of Ray, which is pinned, are wrapped.

The dashboard serves the job API and nothing else, and there is no server for remote clients. The whole of it is nine
more Python processes: on two busy cores they double the time to come up, and they hold some 0.2 GB. The dashboard
has an option for what to load, but `ray start` does not.

The node gets minutes to come up. Ray gives it 30 s (`ray._private.node.Node`), in which a machine that is at work on
something else does not get through the imports of Ray's agents.
"""

import inspect
import os
import time
from collections.abc import Callable
from typing import Any

import ray._private.services as services
from ray._private.node import Node
from ray._private.ray_constants import PROCESS_TYPE_DASHBOARD
from ray._raylet import (
    DASHBOARD_AGENT_LISTEN_PORT_NAME,
    METRICS_AGENT_PORT_NAME,
    METRICS_EXPORT_PORT_NAME,
    RUNTIME_ENV_AGENT_PORT_NAME,
    persist_port,
)

MODULES = "JobHead,NodeHead"
"""NodeHead says which node is the head: JobHead starts jobs there."""
START_TIMEOUT_S = 300
_AGENT_PORTS = (
    METRICS_AGENT_PORT_NAME,
    METRICS_EXPORT_PORT_NAME,
    DASHBOARD_AGENT_LISTEN_PORT_NAME,
    RUNTIME_ENV_AGENT_PORT_NAME,
)


def start_lean() -> None:
    """The dashboard loads MODULES only."""
    start = services.start_ray_process

    def start_ray_process(command: list[str], process_type: str, *args: Any, **kwargs: Any) -> Any:
        if process_type == PROCESS_TYPE_DASHBOARD:
            command = [*command, f"--modules-to-load={MODULES}"]
        return start(command, process_type, *args, **kwargs)

    services.start_ray_process = start_ray_process
    Node.start_ray_client_server = lambda node: None


def wait_longer() -> None:
    """A node that is started by this process gets START_TIMEOUT_S to register, as do its agents, for which it would end
    after half a minute; one that has ended is given up, and can be started again."""
    os.environ["RAY_agent_register_timeout_ms"] = str(START_TIMEOUT_S * 1000)  # noqa: SIM112 (its name)
    look: Callable[..., Any] = services.get_node

    def get_node(*args: Any, **kwargs: Any) -> Any:
        end = time.monotonic() + START_TIMEOUT_S
        while True:
            try:
                return look(*args, **kwargs)
            except RuntimeError:  # it has not registered yet
                if has_lost_child():
                    raise ChildProcessError(
                        "a process of Ray ended while it came up; raylet.err has its reason"
                    ) from None
                if time.monotonic() > end:
                    raise
                time.sleep(0.2)

    services.get_node = get_node
    services.start_raylet = _with_known_ports(services.start_raylet)


def _with_known_ports(start: Callable[..., Any]) -> Callable[..., Any]:
    """The raylet asks files for its agents' ports, and ends when an agent has not written its own after 15 s. A port
    that was given is known before."""

    def start_raylet(*args: Any, **kwargs: Any) -> Any:
        given = inspect.signature(start).bind(*args, **kwargs).arguments
        for name in _AGENT_PORTS:
            if port := given.get(name):
                persist_port(given["session_dir"], given["node_id"], name, port)
        return start(*args, **kwargs)

    return start_raylet


def has_lost_child() -> bool:
    """Whether a process that this one has started is over, and has not been waited for."""
    try:
        return os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return False


if __name__ == "__main__":
    from ray.scripts.scripts import main

    start_lean()
    wait_longer()
    main()
