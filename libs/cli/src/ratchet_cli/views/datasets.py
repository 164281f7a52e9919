"""Versions of data sets, for people."""

from collections.abc import Sequence

from ratchet.registry.v1 import dataset_pb2 as pb
from ratchet_cli.terminal.errors import CommandError
from ratchet_cli.terminal.following import Count
from ratchet_cli.terminal.output import print_json, print_table, say
from ratchet_environments.folders.sets import Entry

MIB = 1 << 20
MOST_COUNTS = 5
COUNTED = {
    pb.ExaminationProgress.CHECK_ROWS: "rows read",
    pb.ExaminationProgress.CHECK_NEAR_DUPLICATES: "sets compared",
}


def show_made(made: pb.Dataset, *, as_json: bool) -> None:
    """Raises CommandError for a version that FAILED."""
    if as_json:
        print_json(made)
    elif made.state == pb.Dataset.STATE_READY:
        use = f"Check it: ratchet tasks verify {version(made)}"
        if not made.card.folders:
            use = f"Use it as {version(made)}/{made.splits[0].name}."
        say(f"{version(made)}: {rows(made)}. {use}")
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


def holds(card: pb.DatasetCard) -> str:
    if card.folders:
        return "task folders"
    return "pairs" if card.pairs else "rows of a benchmark" if card.edition else "problems"


def show_tasks(tasks: Sequence[Entry], most: int) -> None:
    """The first `most`, with their judge and the beginnings of their digests."""
    columns = ("task", "judge", "environment", "tests", "solution")
    rows = [
        (one.name, f"{one.judge}, forgeable" if one.forgeable else one.judge, *(it[7:19] or "-" for it in digests))
        for one in tasks[:most]
        for digests in [(one.environment, one.tests, one.solution)]
    ]
    print_table(columns, rows)
    if len(tasks) > most:
        say(f"{len(tasks) - most} more: ratchet data download writes them all.")


def version(dataset: pb.Dataset) -> str:
    return f"{dataset.name}@{dataset.number}"


def progress(dataset: pb.Dataset) -> str:
    """How far its examination is: "train: 3,000 of 10,000 rows read". Empty where nothing is known."""
    return "; ".join(f"{split.name}: {_done(split.progress)}" for split in dataset.splits if split.HasField("progress"))


def _done(progress: pb.ExaminationProgress) -> str:
    return f"{progress.done:,} of {f'{progress.total:,}' if progress.total else '?'} {COUNTED[progress.check]}"


class Examining(Count):
    """A View of a version while it is examined: of the split that is at work."""

    def __init__(self, dataset: pb.Dataset) -> None:
        self._of = f"examining {version(dataset)}"
        super().__init__(self._of, "rows read")

    def show(self, dataset: pb.Dataset) -> None:
        found = [split for split in dataset.splits if split.HasField("progress")]
        if not found:
            return
        split = max(reversed(found), key=lambda one: one.progress.check)  # one after another, check by check
        title, progress = f"{self._of}/{split.name}", split.progress
        if title != self.title:
            self.title = title
            self._begin()
        self.update(progress.done, progress.total, COUNTED[progress.check])


BALANCE = ("split", "prompt", "reference", "tests", "languages", "difficulty", "tags")


def balance(name: str, found: pb.Balance) -> tuple[str, ...]:
    """A row of BALANCE: characters of prompts and references, tests a problem, problems by language and the like."""
    reference = _spread(found.reference) if found.HasField("reference") else "-"
    counts = map(_counts, (found.languages, found.difficulties, found.tags))
    return (name, _spread(found.prompt), reference, _spread(found.tests), *counts)


def _spread(quantiles: pb.Quantiles) -> str:
    return f"{quantiles.median:,.0f} ({quantiles.p5:,.0f} to {quantiles.p95:,.0f})"


def references(found: pb.ReferenceRuns) -> str:
    """How they ran, and the limits that are proposed."""
    sentence = f"{found.strict + found.shared:,} of {found.problems:,} references pass"
    if found.shared:
        sentence += f", {found.shared:,} of them in the shared kind"
    parts, proposed = [sentence], list[str]()
    if found.HasField("cpu_time"):
        parts.append(f"CPU time {found.cpu_time.median:.3g} s, {found.cpu_time.most:.3g} s at most")
        proposed.append(f"{found.cpu_time_limit.seconds} s")
    if found.HasField("memory_bytes"):
        parts.append(f"memory {found.memory_bytes.median / MIB:,.0f} MiB, {found.memory_bytes.most / MIB:,.0f} at most")
        proposed.append(f"{found.memory_limit_bytes // MIB} MiB")
    return "; ".join(parts) + (f". Proposed limits: {', '.join(proposed)}." if proposed else ".")


def _counts(counts: Sequence[pb.Count]) -> str:
    more = " ..." * (len(counts) > MOST_COUNTS)
    return ", ".join(f"{one.name} {one.problems:,}" for one in counts[:MOST_COUNTS]) + more or "-"


def rows(dataset: pb.Dataset) -> str:
    return ", ".join(f"{split.name} {split.rows:,}" for split in dataset.splits)
