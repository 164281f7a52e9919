"""The ports of inputs: the registry, folders, sets of problems, plug-ins."""

from collections.abc import Sequence
from typing import Protocol

from ratchet_kit.names import AliasRef, BareModel, RewardRef, VersionRef
from ratchet_rewards import Registered
from trainer_service.domain.inputs.found import FetchedModel, FoundModel, FoundSet, Stored, Trial
from trainer_service.domain.run.run import RunId
from trainer_service.domain.spec.plugins import Installed
from trainer_service.domain.spec.recipes import Recipe
from trainer_service.domain.spec.spec import ProblemSetRef, RunSpec, Validation


class ModelRegistry(Protocol):
    """The registry's models."""

    async def resolve(self, ref: VersionRef | AliasRef | BareModel) -> FoundModel:
        """Version and URI of what `ref` names now. Raises Unavailable; NotFound when there is none that is READY."""
        ...


class RewardRegistry(Protocol):
    """The registry's rewards of users' own."""

    async def find(self, ref: RewardRef) -> Registered:
        """Without a number the newest. Raises NotFound, with what there is; Unavailable."""
        ...

    async def use(self, ref: RewardRef, id: RunId) -> None:
        """Notes that the run is made with it, so that it is not deleted unawares. Raises NotFound, Unavailable."""
        ...


class ModelFolders(Protocol):
    """Folders of models, here or behind a URL."""

    async def inspect(self, uri: str, chat_template: str = "") -> FoundModel:
        """The model in a folder, under a name and URI that hold everywhere (an absolute path). With a chat template in
        place of its own, where one is given.

        Raises:
            NotFound: there is no such folder, or it holds no config.json or no safetensors; the text says which.
            Unavailable: the place cannot be reached.
        """
        ...

    async def fetch(self, model: FoundModel, id: RunId, name: str = "base", chat_template: str = "") -> FetchedModel:
        """The model in a local folder: copied into the run's own, under that name, where it is not local. With a chat
        template in place of its own it is in a folder of the run's. Raises like `inspect`."""
        ...

    async def tidy(self, id: RunId) -> None:
        """Deletes what only a run under way needs: its last checkpoint, and the copy of its base."""
        ...

    async def with_leftovers(self) -> Sequence[RunId]:
        """The runs that `tidy` has something to delete of."""
        ...

    async def remove_export(self, id: RunId, uri: str) -> None:
        """Deletes a model that the run exported; nothing where it lies elsewhere, or is not there."""
        ...

    async def stored(self) -> Sequence[Stored]:
        """Everything that runs have on disks: by run, what `tidy` deletes, then its exports. Raises Unavailable."""
        ...

    async def free_bytes(self) -> int:
        """What is free for the folders of runs."""
        ...

    async def remove(self, id: RunId) -> None:
        """Deletes the run's own folder, with its checkpoints, exports and logs. One that is not there is fine."""
        ...


class ProblemSets(Protocol):
    """The sets of problems, and of pairs, that jobs can read."""

    async def look_up(self, ref: ProblemSetRef) -> FoundSet:
        """What the set holds now.

        Raises:
            NotFound: there is no such set or file.
            InvalidArgument: it is no problem set, or empty; the text says where.
        """
        ...

    async def tasks(self, ref: ProblemSetRef) -> FoundSet:
        """A data set of task folders. Raises like `look_up`, and InvalidArgument for any other."""
        ...

    async def newer(self, ref: ProblemSetRef) -> ProblemSetRef | None:
        """The newest READY version of the same split of a data set, where `ref` is of an older one; without a digest.
        Raises like `look_up`, and Unavailable."""
        ...

    async def pairs(self, ref: ProblemSetRef) -> FoundSet:
        """What a set or file of pairs holds now. Raises like `look_up`."""
        ...

    async def examples(self, ref: ProblemSetRef) -> FoundSet:
        """A set whose first solved problems are examples, `limit` of them. Raises like `look_up`, and InvalidArgument
        where it has too few."""
        ...

    async def use(self, ref: ProblemSetRef, id: RunId) -> None:
        """Notes that the run is made with it, where it is a data set of the registry. Raises NotFound, Unavailable."""
        ...

    async def forget(self) -> None:
        """Deletes copies of pairs in which somebody is forgotten. Raises Unavailable."""
        ...

    async def trial(self, ref: ProblemSetRef) -> Trial:
        """Runs the references of a caller's problems, of as many as some seconds allow. `ref`: of a FoundSet."""
        ...


class Suites(Protocol):
    """The sets of problems that evaluations measure."""

    async def check(self, spec: RunSpec) -> Validation:
        """The spec's, with exact versions of data sets. Raises Unavailable; InvalidArgument, with fields below the
        spec, where its checkpoints cannot be evaluated so."""
        ...


class Plugins(Protocol):
    async def installed(self) -> Sequence[Installed]:
        """Plug-ins that jobs can import, each with whether the operator allows it."""
        ...

    async def recipe(self, name: str) -> Recipe:
        """What an installed and allowed plug-in of the kind algorithm says. Raises InvalidArgument, DataLoss."""
        ...

    async def check_environment(self, name: str) -> None:
        """Raises InvalidArgument, with one sentence, where an installed and allowed plug-in of the kind environment
        cannot be imported, or takes other arguments; DataLoss where it has gone since."""
        ...
