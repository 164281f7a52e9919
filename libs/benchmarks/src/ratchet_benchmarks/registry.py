"""Benchmarks by name: `humaneval`, `mbpp/train` (a part), `mbpp+@v0.1.0` (another edition), or the path of a file."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import ratchet_problems
from ratchet_benchmarks import folder, users
from ratchet_benchmarks.benchmark import Benchmark, Contents, Edition, LoadedBenchmark
from ratchet_benchmarks.big_code_bench import BIG_CODE_BENCH, BIG_CODE_BENCH_HARD
from ratchet_benchmarks.evalplus import HUMAN_EVAL_PLUS, MBPP_PLUS, truth
from ratchet_benchmarks.human_eval import HUMAN_EVAL
from ratchet_benchmarks.human_eval_x import HUMAN_EVAL_X
from ratchet_benchmarks.leetcode import LEETCODE
from ratchet_benchmarks.mbpp import MBPP, MBPP_SANITIZED
from ratchet_benchmarks.standard_input import APPS, CODE_CONTESTS
from ratchet_environments.executor import Executor
from ratchet_kit.errors import FailedPrecondition, NotFound
from ratchet_kit.names import DatasetRef
from ratchet_problems import Problem, sets
from ratchet_problems.prompting import OWN_PROMPTING, Form, Prompt

_ALL = (
    HUMAN_EVAL,
    HUMAN_EVAL_PLUS,
    MBPP,
    MBPP_SANITIZED,
    MBPP_PLUS,
    BIG_CODE_BENCH,
    BIG_CODE_BENCH_HARD,
    CODE_CONTESTS,
    APPS,
    LEETCODE,
    *HUMAN_EVAL_X,
)
BENCHMARKS = {one.name: one for one in _ALL}
OWN = ratchet_problems.NAMES
"""Sets that Ratchet makes itself; they need no data."""


@dataclass(frozen=True, slots=True)
class _Named:
    benchmark: Benchmark
    part: str
    version: str

    @property
    def edition(self) -> Edition:
        """Raises NotFound where it is not here."""
        name, here = self.benchmark.name, folder.editions(self.benchmark)
        found = [edition for edition in here if self.version in ("", edition.version)]
        if not found:
            known = {edition.version for edition in self.benchmark.editions}
            wanted = f"{name}@{self.version}" if self.version in known and self.version else name
            raise NotFound(f"the data of {wanted} are not here: run `ratchet data fetch {wanted}`")
        return found[0]


def get(name: str) -> Benchmark:
    """The benchmark of this name, of its part or edition. Raises NotFound."""
    return _named(name).benchmark


def dataset_of(name: str) -> DatasetRef | None:
    """The data set that a name stands for; None for a benchmark, a set of Ratchet's own, and a file."""
    base = name.partition("/")[0].partition("@")[0]
    return None if base in BENCHMARKS or users.is_path(name) else sets.dataset_of(name)


def require(name: str) -> None:
    """Raises NotFound, saying what to do, for a name that stands for nothing or whose data are not here.
    Takes no time."""
    if users.is_path(name):
        users.stamp(name)
    elif name not in OWN:
        _ = _named(name).edition


def load(name: str, limit: int | None = None, *, untested: bool = False) -> LoadedBenchmark:
    """A benchmark, a set of Ratchet's own, or the file when it ends in .jsonl, .json or .parquet: all its problems or
    the first `limit`. `untested`: takes problems without tests, too.

    Raises NotFound for an unknown name or for data that are not here, InvalidArgument for a file that cannot be used,
    DataLoss for damaged data, FailedPrecondition for data that must be prepared first.
    """
    found = _read(name, limit)
    if users.is_path(name) and not untested:
        users.check_tested(found.problems, name)
    return found


def _read(name: str, limit: int | None) -> LoadedBenchmark:
    if limit is not None and name.endswith(".parquet"):  # which may be large
        return _loaded(name, "", "", Contents(users.read(Path(name), limit), OWN_PROMPTING))
    found = _whole(name, _stamp(name))
    if limit is None or limit >= len(found.problems):
        return found
    contents = found.contents
    some = Contents(contents.problems[:limit], contents.prompting, contents.limits, contents.own_limits)
    return _loaded(found.name, found.version, found.licence, some, found.runtime)


def runtime_of(name: str) -> str:
    """The sandbox's Python environment that its programs need; empty: the imports choose it, or nobody knows the name.
    No data are read."""
    try:
        return "" if users.is_path(name) or name in OWN else get(name).runtime
    except NotFound:
        return ""


def put(name: str, problem: Problem, form: Form, shots: int | None = None) -> Prompt:
    """How a problem of the set is put to a model. Raises what `load` raises, InvalidArgument for too many shots."""
    return load(name).put(problem, form, shots)


def program(name: str, problem: Problem, completion: str) -> str:
    """The program that the benchmark's own evaluator would run for a completion. Raises like `load`."""
    return load(name).program(problem, completion)


async def prepare(
    name: str, executor: Executor, progress: Callable[[int, int], None] = lambda done, total: None
) -> None:
    """Computes what the benchmark needs once, in the sandbox; done at once where it is there. `progress` is given the
    number of problems that are done, and of all.

    Raises NotFound, DataLoss, InvalidArgument where a reference fails, Unavailable when the platform failed again and
    again.
    """
    if users.is_path(name) or name in OWN:
        return
    named = _named(name)
    edition = named.edition
    if named.benchmark.needs_truth and folder.read_truth(named.benchmark, edition) is None:
        rows = folder.read_rows(named.benchmark, edition)
        found = await truth.compute(executor, rows, lambda done: progress(done, len(rows)))
        folder.write_truth(named.benchmark, edition, found)


def _named(name: str) -> _Named:
    rest, _, part = name.partition("/")
    base, _, version = rest.partition("@")
    benchmark = BENCHMARKS.get(base)
    if benchmark is None:
        names = ", ".join([*BENCHMARKS, *OWN])
        raise NotFound(f"no benchmark {name!r}: use one of {names}, or the path of a .jsonl, .json or .parquet file")
    if part not in benchmark.parts:
        parts = ", ".join(f"{base}/{each}" for each in benchmark.parts if each)
        raise NotFound(f"{base} has no part {part!r}: use {base}{f', {parts}' if parts else ''}")
    return _Named(benchmark, part, version)


def _stamp(name: str) -> tuple[object, ...]:
    if users.is_path(name):
        return users.stamp(name)
    if name in OWN:
        return ()
    named = _named(name)
    edition = named.edition
    return (folder.root(), edition.version, *folder.stamp(named.benchmark, edition))


@lru_cache(maxsize=8)
def _whole(name: str, stamp: tuple[object, ...]) -> LoadedBenchmark:
    if users.is_path(name):
        return _loaded(name, "", "", Contents(users.read(Path(name)), OWN_PROMPTING))
    if name in OWN:
        return _loaded(name, "", "Apache-2.0", Contents(ratchet_problems.load(name), OWN_PROMPTING))
    named = _named(name)
    benchmark, edition = named.benchmark, named.edition
    known = folder.read_truth(benchmark, edition) if benchmark.needs_truth else {}
    if known is None:
        raise FailedPrecondition(
            f"{benchmark.name} is not prepared: run `ratchet benchmarks verify {benchmark.name}`, which computes once "
            "what its references give"
        )
    contents = benchmark.read(folder.read_rows(benchmark, edition), named.part, known)
    return _loaded(name, edition.version, benchmark.licence, contents, benchmark.runtime)


def _loaded(name: str, version: str, licence: str, contents: Contents, runtime: str = "") -> LoadedBenchmark:
    return LoadedBenchmark(name, version, licence, ratchet_problems.data_digest(contents.problems), contents, runtime)
