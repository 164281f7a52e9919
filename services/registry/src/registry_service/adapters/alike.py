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
from ratchet_problems.near.search import Known, Match, duplicates
from ratchet_problems.near.sketches import Sketches, sketch
from registry_service.domain.evidence import Pair
from registry_service.domain.finding import Finding, Kind

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
        self, splits: Mapping[str, str], others: Mapping[str, str], tell: Callable[[str, int, int], None]
    ) -> Mapping[str, Sequence[Finding]]:
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
            for match in Known(ours).matches(theirs)
            if ours.ids[match.other] not in but_learned and theirs.ids[match.row] not in but_measured
        }
        return [Pair(theirs.ids[row], ours.ids[match.other], str(match)) for row, match in sorted(first.items())]

    def _alike(
        self, splits: Mapping[str, str], others: Mapping[str, str], tell: Callable[[str, int, int], None]
    ) -> Mapping[str, Sequence[Finding]]:
        sketched = {split: sketches for split, digest in splits.items() if (sketches := self._find(digest)) is not None}
        found: dict[str, Sequence[Finding]] = {}
        for place, (split, sketches) in enumerate(sketched.items()):
            near = _Near(split, sketches)
            earlier = {name: splits[name] for name in list(sketched)[:place]}
            sets = [(split, splits[split]), *earlier.items(), *others.items()]
            total = len(sets) + len(_own())
            for done, (name, key) in enumerate(sets):
                tell(split, done, total)
                if name == split:
                    near.add(name, key, sketches, duplicates(sketches))
                elif (other := sketched[name] if name in earlier else self._find(key)) is not None:
                    near.add(name, key, other, Known(other).matches(sketches))
            for done, (name, known) in enumerate(_own(), len(sets)):
                tell(split, done, total)
                near.add(name, "", known.sketches, known.matches(sketches))
            found[split] = near.findings
        return found

    def _find(self, digest: str) -> Sketches | None:
        try:
            return Sketches.of_bytes(self._root.read(_key(digest)))
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

    def add(self, name: str, digest: str, others: Sketches, matches: Iterator[Match]) -> None:
        """One finding for each problem: its first match. `name`, `digest`: of the set of the others."""
        first: dict[int, Match] = {}
        for match in matches:
            first.setdefault(match.row, match)
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
