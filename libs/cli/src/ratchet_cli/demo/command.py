"""`ratchet demo`."""

from typing import Annotated

import typer

from ratchet_cli.commands.options import PortBase
from ratchet_local.home import Home


def demo(
    keep: Annotated[bool, typer.Option(help="Leave the platform up afterwards.")] = False,
    port_base: PortBase = 0,
    steps: Annotated[int, typer.Option(help="GRPO steps.", min=1)] = 24,
    seed: Annotated[int, typer.Option(help="Seed of training and evaluation.")] = 1,
) -> None:
    """Run the main job end to end: train the starter, measure, gate, release, report. Fails if it is not better."""
    from ratchet_cli.demo.turn import run_demo  # matplotlib: only for this command

    run_demo(Home.default(), keep=keep, port_base=port_base, steps=steps, seed=seed)
