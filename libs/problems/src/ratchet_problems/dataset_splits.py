"""The split of a data set that a name means."""

from ratchet.registry.v1 import dataset_pb2 as pb
from ratchet_kit.errors import FailedPrecondition, NotFound
from ratchet_kit.names import DatasetRef


def chosen(ref: DatasetRef, dataset: pb.Dataset, *, pairs: bool = False, folders: bool = False) -> pb.DatasetSplit:
    """The split that is named, or the only one. Raises NotFound, with those that there are; FailedPrecondition where
    several are and none is named, for a version that is not READY, for a benchmark's rows, and for one of pairs or of
    task folders where problems are wanted, or the reverse."""
    version = f"{dataset.name}@{dataset.number}"
    if dataset.card.edition:
        raise FailedPrecondition(f"{version} holds the rows of a public benchmark: name it {dataset.name}")
    if dataset.card.folders and not folders:
        raise FailedPrecondition(
            f"{version} holds task folders, which programs work on that call the model: name the environment tools, or "
            "a command after -- (docs/tasks.md)"
        )
    if folders and not dataset.card.folders:
        raise FailedPrecondition(f"{version} holds no task folders")
    if dataset.card.pairs and not pairs:
        raise FailedPrecondition(f"{version} holds pairs, which DPO and reward models learn from, and no problems")
    if pairs and not dataset.card.pairs:
        raise FailedPrecondition(f"{version} holds problems, and no pairs of answers")
    if dataset.state != pb.Dataset.STATE_READY:
        state = pb.Dataset.State.Name(dataset.state).removeprefix("STATE_").lower()
        reason = f": {dataset.failure.message}" if dataset.failure.message else ""
        raise FailedPrecondition(f"data set {version} is {state}{reason}")
    names = [split.name for split in dataset.splits]
    if not ref.split and len(names) > 1:
        several = f"{', '.join(names)}: name one, such as {version}/{names[0]}"
        raise FailedPrecondition(f"data set {version} has the splits {several}")
    found = [split for split in dataset.splits if ref.split in ("", split.name)]
    if not found:
        raise NotFound(f"data set {version} has no split {ref.split!r}; it has {', '.join(names)}")
    return found[0]
