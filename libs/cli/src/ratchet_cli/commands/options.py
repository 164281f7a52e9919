"""Arguments and options that several commands share."""

from typing import Annotated

import typer

Id = Annotated[str, typer.Argument(help="Id of the resource.")]
Name = Annotated[str, typer.Argument(help="Model.")]
Limit = Annotated[int, typer.Option(help="At most this many; 0: all.", min=0)]
DetachFlag = Annotated[bool, typer.Option("--detach", "-d", help="Print the id and return.")]
PortBase = Annotated[int, typer.Option(help="First port of the block that is used; 0 finds a free block.")]
TargetOption = Annotated[str, typer.Option(help="host:port of a sandbox; default: the one that `ratchet up` started.")]
