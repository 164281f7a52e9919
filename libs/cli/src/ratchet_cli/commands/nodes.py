"""`ratchet nodes`: the machines that hold policies."""

import time
from typing import Annotated

import typer

from ratchet.common.v1 import node_pb2 as pb
from ratchet_cli.terminal.output import JsonFlag, print_list, say
from ratchet_client import Client

POLL_S = 1.0

Address = Annotated[str, typer.Argument(help="host:port, as `ratchet nodes list` shows it.")]

app = typer.Typer(help="Rollout nodes: their policies and load.", no_args_is_help=True)


@app.command("list")
def list_nodes(as_json: JsonFlag = False) -> None:
    """List every node with its policies, as the gateway saw it last."""
    with Client() as client:
        print_list(
            client.nodes.list(),
            0,
            as_json,
            {
                "address": lambda node: node.address,
                "state": lambda node: pb.Node.State.Name(node.state).removeprefix("STATE_").lower(),
                "policies": lambda node: ", ".join(map(_policy, node.engines)) or "none",
                "of": lambda node: node.capacity,
                "sequences": _sequences,
                "KV tokens": lambda node: ", ".join(str(engine.kv_cache_tokens) for engine in node.engines) or "-",
                "GPUs": lambda node: ",".join(node.devices) or "-",
                "free GiB": lambda node: f"{node.free_memory_bytes / 2**30:.1f}",
                "": lambda node: node.detail,
            },
            breakable=("policies", ""),
        )


@app.command()
def drain(
    address: Address,
    wait: Annotated[bool, typer.Option("--wait", help="Return once its work is finished.")] = False,
) -> None:
    """Drain a node: it takes no new work and finishes what it has. Other nodes load its policies if they are needed."""
    with Client() as client:
        left = _sequences(client.nodes.drain(address))
        while wait and left:
            time.sleep(POLL_S)
            left = sum(_sequences(node) for node in client.nodes.list() if node.address == address)
    say(f"{address} is drained." if wait else f"{address} takes nothing new; {left} completions are still being made.")


@app.command()
def resume(address: Address) -> None:
    """Let a node take policies and requests again."""
    with Client() as client:
        client.nodes.resume(address)
    say(f"{address} takes requests again.")


def _policy(engine: pb.Node.Engine) -> str:
    return f"{engine.policy} ({engine.library})" if engine.library else engine.policy


def _sequences(node: pb.Node) -> int:
    return sum(engine.sequences for engine in node.engines)
