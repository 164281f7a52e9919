"""Versions of data sets, for people."""

from ratchet.registry.v1 import dataset_pb2 as pb
from ratchet_cli.terminal.errors import CommandError
from ratchet_cli.terminal.output import print_json, say


def show_made(made: pb.Dataset, *, as_json: bool) -> None:
    """Raises CommandError for a version that FAILED."""
    if as_json:
        print_json(made)
    elif made.state == pb.Dataset.STATE_READY:
        say(f"{version(made)}: {rows(made)}. Use it as {version(made)}/{made.splits[0].name}.")
        for split in made.splits:
            for notice in split.notices:
                say(f"{split.name}: {notice}")
        if any(split.notices for split in made.splits):
            say(f"All of them: ratchet data findings {version(made)}")
    check_usable(made)


def check_usable(made: pb.Dataset) -> None:
    """Raises CommandError for a version that FAILED."""
    if made.state == pb.Dataset.STATE_FAILED:
        raise CommandError(f"{version(made)} cannot be used: {made.failure.message}.")


def version(dataset: pb.Dataset) -> str:
    return f"{dataset.name}@{dataset.number}"


def rows(dataset: pb.Dataset) -> str:
    return ", ".join(f"{split.name} {split.rows:,}" for split in dataset.splits)
