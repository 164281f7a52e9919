"""Problems that `ratchet data` commands run programs for, and make more of."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

import ratchet_benchmarks
from ratchet.registry.v1 import dataset_pb2 as pb
from ratchet_cli.terminal.errors import CommandError
from ratchet_cli.terminal.following import Count, following
from ratchet_client import Client
from ratchet_environments.task import Task
from ratchet_kit.names import DatasetRef
from ratchet_problems import Problem, jsonl
from ratchet_workflows.datasets import local, pinned, with_split

NameArgument = Annotated[str, typer.Argument(help="Data set (mine@1/train), benchmark, or file of problems.")]
OutOption = Annotated[
    Path | None, typer.Option(help="File of JSON lines; default: the next version of the data set.", show_default=False)
]


@dataclass(frozen=True, slots=True)
class Source:
    """Problems of which more are made: the next version of their data set, or a file."""

    name: str
    """A data set's exact version and split."""
    here: str
    """The name by which they are read on this machine."""
    platform: Client | None
    ref: DatasetRef | None
    out: Path | None

    def write(self, problems: Sequence[Problem], *, changed: bool) -> pb.Dataset | None:
        """The next version, where something has changed; None for a file."""
        if self.out:
            jsonl.write(problems, self.out)
        elif self.platform is not None and self.ref is not None and changed:
            return with_split(self.platform, self.ref, problems)
        return None


@contextmanager
def stronger_set(name: str, out: Path | None, *, part: bool = False) -> Iterator[Source]:
    """`part`: not all of its problems are used. Raises CommandError where there is no next version, and no file."""
    ref = ratchet_benchmarks.dataset_of(name)
    if out is None and (ref is None or part):
        raise CommandError("Give --out FILE: only a whole data set has a next version.", code=2)
    with Client() if out is None else nullcontext() as platform:
        if platform is not None and ref is not None:
            ref = pinned(platform, ref)  # another may become the newest meanwhile
            name = str(ref)
        with local(name) as here:
            yield Source(name, here, platform, ref, out)


def tasks_of(here: str, limit: int | None) -> list[Task]:
    loaded = ratchet_benchmarks.load(here, limit)
    return [Task.of(one, runtime=loaded.runtime, limits=loaded.limits(one)) for one in loaded.problems]


@contextmanager
def counting(title: str, *, quiet: bool, of: str = "problems") -> Iterator[Callable[[int, int], None]]:
    count = Count(title, of)
    with following(count, quiet=quiet) as changed:

        def tell(done: int, total: int) -> None:
            count.update(done, total)
            changed()

        yield tell
