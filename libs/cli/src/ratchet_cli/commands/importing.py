"""Samples that were made elsewhere: from their file to the platform, and what the file said beside what was found."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from ratchet.common.v1 import verdict_pb2
from ratchet.eval.v1 import eval_pb2 as pb
from ratchet_cli.terminal.errors import CommandError
from ratchet_cli.terminal.following import Count, following
from ratchet_cli.terminal.output import say
from ratchet_client import Client, sample_files
from ratchet_client.errors import RatchetClientError
from ratchet_client.sample_files import FileSample, SampleFileError

SAMPLES_AT_ONCE = 2_000
BYTES_AT_ONCE = 4 << 20
SHOWN = 20
"""Differences that are named."""


@dataclass(frozen=True, slots=True)
class FileOfSamples:
    path: Path
    count: int
    most: int
    """Samples of one problem."""
    is_judged: bool
    """It says which of them pass."""

    @classmethod
    def look(cls, path: str) -> "FileOfSamples":
        """Reads all of it once, and keeps nothing. Raises CommandError."""
        numbers: Counter[str] = Counter()
        judged = False
        for sample in _read(Path(path)):
            numbers[sample.problem_id] += 1
            judged = judged or sample.passed is not None
        if not numbers:
            raise CommandError(f"{path} holds no samples.", code=2)
        return cls(Path(path), numbers.total(), max(numbers.values()), judged)

    def read(self) -> Iterator[FileSample]:
        return _read(self.path)

    def add_to(self, client: Client, evaluation_id: str, *, quiet: bool = False) -> None:
        """In parts that a request holds. Where one is refused, or the user interrupts, the evaluation is deleted."""
        count, done = Count(f"sending {self.path.name}", "samples"), 0
        with _deleted_unless_whole(client, evaluation_id), following(count, quiet=quiet) as changed:
            for part in _parts(self.read()):
                client.evaluations.add_samples(evaluation_id, part)
                done += len(part)
                count.update(done, self.count)
                changed()


@contextmanager
def _deleted_unless_whole(client: Client, evaluation_id: str) -> Iterator[None]:
    try:
        yield
    except BaseException:
        for step in (client.evaluations.cancel, client.evaluations.delete):
            with suppress(RatchetClientError):  # what cannot be reached now ends by itself
                step(evaluation_id)
        raise


def show_agreement(client: Client, evaluation: pb.Evaluation, file: FileOfSamples) -> None:
    """How many of the file's own verdicts were found again, and which were not."""
    plus = has_plus_tests(evaluation.spec.problems.name)
    found = {
        (sample.problem_id, sample.index): sample.verdict == verdict_pb2.VERDICT_PASSED
        for sample in client.evaluations.samples(evaluation.id)
    }
    differences, compared = [], 0
    for sample in file.read():
        said, ours = sample.passed if plus else sample.base_passed, found.get((sample.problem_id, sample.index))
        if said is None or ours is None:
            continue
        compared += 1
        if said != ours:
            differences.append(f"{sample.problem_id}, sample {sample.index}: the file says {_word(said)}")
    say(f"{compared - len(differences)} of {compared} verdicts are those of the file")
    for line in differences[:SHOWN]:
        say(f"  {line}")
    if len(differences) > SHOWN:
        say(f"  and {len(differences) - SHOWN} more")


def has_plus_tests(benchmark: str) -> bool:
    """True where EvalPlus' own inputs are among its tests, as in `mbpp+@v0.1.0` and not in `mbpp+/base`."""
    whole, _, part = benchmark.partition("/")
    return whole.partition("@")[0].endswith("+") and part != "base"


def _word(passed: bool) -> str:
    return "passed" if passed else "not passed"


def _read(path: Path) -> Iterator[FileSample]:
    try:
        yield from sample_files.read(path)
    except SampleFileError as error:
        raise CommandError(f"{error}.", code=2) from error
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{path} cannot be read: {error}.", code=2) from error


def _parts(samples: Iterator[FileSample]) -> Iterator[list[pb.ImportedSample]]:
    part: list[pb.ImportedSample] = []
    size = 0
    for sample in samples:
        if part and (len(part) == SAMPLES_AT_ONCE or size + len(sample.text) > BYTES_AT_ONCE):
            yield part
            part, size = [], 0
        part.append(sample_files.to_proto(sample))
        size += len(sample.text)
    if part:
        yield part
