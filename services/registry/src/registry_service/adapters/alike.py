"""SketchStore in a folder, or in an object store: sketches/<sha256> holds those of a split, or of a benchmark.

A split's are kept by the digest of its problems, so that a gate finds what a version learned from and was measured on;
a benchmark's by the sha256 of its rows, and each of its parts by its digest. They stay when a data set is deleted:
models learned from it.
"""

import asyncio
import re
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from ratchet_benchmarks import BENCHMARKS, OWN
from ratchet_benchmarks import rows as benchmark_rows
from ratchet_kit import storage
from ratchet_kit.disk_errors import disk_errors
from ratchet_kit.errors import DataLoss, InvalidArgument, NotFound, RatchetError
from ratchet_kit.logs import get_logger
from ratchet_problems import Problem, data_digest, load
from ratchet_problems.near.search import Known, Match, duplicates, matches
from ratchet_problems.near.sketches import Sketches, sketch
from registry_service.domain.dataset import TRAINING
from registry_service.domain.evidence import Pair
from registry_service.domain.finding import Alike, Finding, Kind, Other

log = get_logger(__name__)

_DIGEST = re.compile(r"(?:sha256:)?([0-9a-f]{64})")
_LEARNED = ("composed/train", "composed/demonstrations")
"""Ratchet's own sets that nothing is measured on."""


class FsspecSketchStore:
    """Keeps sketches under `root`."""

    def __init__(self, root: str) -> None:
        """Raises InvalidArgument for a URL that cannot be used."""
        self._root = storage.Folder(root)

    async def pairs(
        self, learned: str, measured: str, but_learned: Collection[str] = (), but_measured: Collection[str] = ()
    ) -> Sequence[Pair]:
        return await asyncio.to_thread(self._pairs, learned, measured, but_learned, but_measured)

    async def alike(
        self, splits: Mapping[str, str], others: Sequence[Other], tell: Callable[[str, int, int], None]
    ) -> Mapping[str, Alike]:
        return await asyncio.to_thread(self._alike, splits, others, tell)

    def keep(self, digest: str, sketches: Sketches) -> None:
        """Raises ResourceExhausted, Unavailable."""
        with disk_errors(tempfile.gettempdir()), tempfile.NamedTemporaryFile(prefix="ratchet-sketches-") as file:
            sketches.write(file)
            file.flush()
            self._root.put(_key(digest), Path(file.name))

    def keep_benchmark(self, dataset: str, sha256: str, data: bytes) -> None:
        """Keeps the sketches of all its parts; nothing for an unknown benchmark, or one that must be prepared first."""
        problems: dict[str, Problem] = {}
        for benchmark in BENCHMARKS.values():
            if benchmark.dataset != dataset or benchmark.needs_truth:
                continue
            for part in benchmark.parts:
                try:
                    found = benchmark.read(benchmark_rows.lines(data), part, {}).problems
                except (RatchetError, KeyError, TypeError, ValueError) as error:  # rows of another form
                    log.warning("benchmark.unread", benchmark=benchmark.name, part=part, reason=str(error))
                    continue
                self.keep(data_digest(found), sketch(found))
                problems |= {problem.id: problem for problem in found}
        if problems:
            self.keep(sha256, sketch(problems.values()))

    def _pairs(
        self, learned: str, measured: str, but_learned: Collection[str], but_measured: Collection[str]
    ) -> Sequence[Pair]:
        ours, theirs = self._find(learned), self._find(measured)
        if ours is None or theirs is None:
            return ()
        first = {
            match.row: match
            for match in matches(ours, theirs)
            if ours.ids[match.other] not in but_learned and theirs.ids[match.row] not in but_measured
        }
        return [Pair(theirs.ids[row], ours.ids[match.other], str(match)) for row, match in sorted(first.items())]

    def _alike(
        self, splits: Mapping[str, str], others: Sequence[Other], tell: Callable[[str, int, int], None]
    ) -> Mapping[str, Alike]:
        """Keeps the sketches of all splits and of one other set in memory."""
        sketched = {split: sketches for split, digest in splits.items() if (sketches := self._find(digest)) is not None}
        found: dict[str, Alike] = {}
        for place, (split, sketches) in enumerate(sketched.items()):
            near = _Near(split, sketches)
            earlier = [Other(name, splits[name]) for name in list(sketched)[:place]]
            wanted = [*earlier, *(one for one in others if split == TRAINING or not one.training_alone)]
            total = 1 + len(wanted) + len(_own())
            tell(split, 0, total)
            near.add(split, splits[split], sketches, duplicates(sketches))
            for done, one in enumerate(wanted, 1):
                tell(split, done, total)
                other = sketched[one.name] if done <= place else self._find(one.key)
                if other is not None:
                    near.compare(one.name, one.key, other, matches(other, sketches))
            for done, (name, known) in enumerate(_own(), 1 + len(wanted)):
                tell(split, done, total)
                near.compare(name, "", known.sketches, known.matches(sketches))
            found[split] = Alike(near.findings, near.sets, near.problems)
        return found

    def _find(self, digest: str) -> Sketches | None:
        try:
            with self._root.opened(_key(digest)) as file:  # a million problems are 800 MB: not twice
                return Sketches.read(file)
        except (NotFound, InvalidArgument):
            return None
        except DataLoss as error:  # the platform's fault, and not that of the set that is compared
            log.error("sketches.damaged", digest=digest, reason=error.message)
            return None


def _key(digest: str) -> str:
    """Raises InvalidArgument for what is no digest: lineages come from callers."""
    found = _DIGEST.fullmatch(digest)
    if found is None:
        raise InvalidArgument(f"{digest[:80]!r} is not a sha256")
    return found[1]


class _Near:
    """Collects the problems of a split that are nearly the same as others."""

    def __init__(self, split: str, sketches: Sketches) -> None:
        self._split = split
        self._sketches = sketches
        self.findings: list[Finding] = []
        self.sets = self.problems = 0
        """Other sets that it was compared with, and problems in these."""
        self._found: dict[str, set[int]] = {}

    def compare(self, name: str, digest: str, others: Sketches, found: Iterator[Match]) -> None:
        """As `add`, of another set."""
        self.sets, self.problems = self.sets + 1, self.problems + len(others)
        self.add(name, digest, others, found)

    def add(self, name: str, digest: str, others: Sketches, found: Iterator[Match]) -> None:
        """One finding for each problem: its first match. `name`, `digest`: of the set of the others. Of two sets of one
        name the first decides."""
        first: dict[int, Match] = {}
        known = self._found.setdefault(name, set())
        for match in found:
            if match.row not in known:
                first.setdefault(match.row, match)
        known |= first.keys()
        self.findings += [
            Finding(
                Kind.NEAR_DUPLICATE,
                self._split,
                self._sketches.ids[row],
                other_set=name,
                other=others.ids[match.other],
                detail=str(match),
                other_digest=digest,
            )
            for row, match in sorted(first.items())
        ]


@lru_cache(maxsize=1)
def _own() -> Sequence[tuple[str, Known]]:
    return [(name, Known(sketch(load(name)))) for name in OWN if name not in _LEARNED]
