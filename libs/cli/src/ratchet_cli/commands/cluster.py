"""`ratchet cluster`: the machines that train."""

from ratchet_cli.terminal.output import JsonFlag, print_json, print_list, say
from ratchet_client import Client


def cluster(as_json: JsonFlag = False) -> None:
    """The machines that train, the runs on each, and those that wait."""
    with Client() as client:
        found = client.runs.cluster()
    if as_json:
        print_json(found)
        return
    say(f"Ray of {found.place}")
    print_list(
        found.machines,
        0,
        as_json,
        {
            "node": lambda node: node.address or "this one",
            "id": lambda node: node.id[:8] or "-",
            "CPUs": lambda node: f"{node.cpus:g}",
            "accelerators": lambda node: f"{node.accelerators:g}",
            "runs": lambda node: ", ".join(node.run_ids) or "none",
        },
        breakable=("runs",),
    )
    if found.waiting:
        say("")
        print_list(
            found.waiting,
            0,
            as_json,
            {
                "waiting": lambda run: run.run_id,
                "nodes": lambda run: run.nodes,
                "ranks on each": lambda run: run.accelerators_per_node,
                "waits for": lambda run: run.waits_for or "its turn",
            },
            breakable=("waits for",),
        )
