"""Sets of problems, named or in a file."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ratchet_environments.folders import sets as task_sets
from ratchet_kit.allowed_sources import Places
from ratchet_kit.errors import FailedPrecondition, InvalidArgument, NotFound
from ratchet_kit.names import DatasetRef
from ratchet_problems import data_digest, pair_tables
from ratchet_problems.dataset_cache import cached_pairs, cached_tasks
from ratchet_problems.pairs import Pair
from trainer_service.adapters.plugins import InstalledPlugins
from trainer_service.adapters.problem_sets import LibraryProblemSets
from trainer_service.domain.spec.spec import ProblemSetRef
from trainer_service.job.samples import problems

from ..memory import MemoryPlugins

NONE = MemoryPlugins()
UNTRIED: Any = None


class NoDatasets:
    """A registry that holds none."""

    async def fetch(self, ref: DatasetRef) -> DatasetRef:
        raise NotFound(f"there is no data set {ref.name!r}; there are no data sets yet")

    fetch_pairs = fetch


NO_DATASETS: Any = NoDatasets()
"""No reference is run here."""
PROBLEM = {"id": "p/1", "prompt": "Add.", "entry_point": "f", "tests": [{"args": "[1]", "expected": "2"}]}


async def test_a_file_of_problems_is_named_by_its_absolute_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.jsonl").write_text(json.dumps(PROBLEM) + "\n")
    monkeypatch.chdir(tmp_path)
    found = await LibraryProblemSets(Places([str(tmp_path)]), NONE, UNTRIED, NO_DATASETS).look_up(
        ProblemSetRef("mine.jsonl")
    )
    assert (found.ref.name, found.size) == (str(tmp_path / "mine.jsonl"), 1)
    assert found.ref.digest.startswith("sha256:")


async def test_a_set_that_is_not_there_or_no_set_is_refused(tmp_path: Path) -> None:
    sets = LibraryProblemSets(Places([str(tmp_path)]), NONE, UNTRIED, NO_DATASETS)
    for name in ("nothing", str(tmp_path / "none.jsonl")):
        with pytest.raises(NotFound):
            await sets.look_up(ProblemSetRef(name))
    for content in ("", "{not json}\n"):
        (tmp_path / "bad.jsonl").write_text(content)
        with pytest.raises(InvalidArgument):
            await sets.look_up(ProblemSetRef(str(tmp_path / "bad.jsonl")))


async def test_whether_there_is_anything_to_learn_from_is_known(tmp_path: Path) -> None:
    sets = LibraryProblemSets(Places([str(tmp_path)]), NONE, UNTRIED, NO_DATASETS)
    alone = {"id": "poem", "prompt": "Write a poem.", "tests": []}
    for lines, there in (([alone], False), ([alone, PROBLEM | {"references": ["def f(x): return x + 1"]}], True)):
        (tmp_path / "mine.jsonl").write_text("\n".join(map(json.dumps, lines)))
        found = await sets.look_up(ProblemSetRef(str(tmp_path / "mine.jsonl")))
        assert found.has_references == there
        assert [gap.id for gap in found.gaps] == ["poem"]


async def test_decimals_without_a_tolerance_are_noticed(tmp_path: Path) -> None:
    (tmp_path / "mine.jsonl").write_text(
        json.dumps({"id": "d", "prompt": "Divide.", "tests": [{"stdin": "1 3", "expected_stdout": "0.333"}]})
    )
    sets = LibraryProblemSets(Places([str(tmp_path)]), NONE, UNTRIED, NO_DATASETS)
    (notice,) = (await sets.look_up(ProblemSetRef(str(tmp_path / "mine.jsonl")))).notices
    assert notice.startswith("tests expect decimals on standard output, and only the same digits pass: d. ")


async def test_a_file_is_examined(tmp_path: Path) -> None:
    wrong = PROBLEM | {"id": "p/2", "tests": [{"check": "assert 1 +"}]}
    elsewhere = PROBLEM | {"id": "p/3", "references": ["def g(x): return x + 1"]}
    (tmp_path / "mine.jsonl").write_text("\n".join(json.dumps(one) for one in (PROBLEM, wrong, elsewhere)))
    found = await LibraryProblemSets(Places([str(tmp_path)]), NONE, UNTRIED, NO_DATASETS).look_up(
        ProblemSetRef(str(tmp_path / "mine.jsonl"))
    )
    parse, defines = found.faults
    assert parse.startswith("mine.jsonl line 2, p/2: tests[0].check: is not valid Python: invalid syntax")
    assert defines == "mine.jsonl line 3, p/3: references[0]: does not define f"


async def test_a_limit_is_part_of_what_the_digest_is_of() -> None:
    sets = LibraryProblemSets(Places([]), NONE, UNTRIED, NO_DATASETS)
    whole = await sets.look_up(ProblemSetRef("basics"))
    part = await sets.look_up(ProblemSetRef("basics", limit=3))
    assert whole.ref.digest != part.ref.digest
    assert (whole.size, part.size, part.ref.limit) == (100, 3, 3)
    assert part.fingerprints == whole.fingerprints[:3]
    assert len(set(whole.fingerprints)) == 100


async def test_a_file_elsewhere_is_not_looked_at(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "mine.jsonl").write_text(json.dumps(PROBLEM) + "\n")
    (tmp_path / "own" / "link.jsonl").symlink_to(tmp_path / "mine.jsonl")
    sets = LibraryProblemSets(Places([str(tmp_path / "own")]), NONE, UNTRIED, NO_DATASETS)
    for name in ("mine.jsonl", "none.jsonl", "own/link.jsonl", "own/../mine.jsonl"):
        with pytest.raises(InvalidArgument, match="RATCHET_SOURCES"):
            await sets.look_up(ProblemSetRef(f"{tmp_path}/{name}"))
    with pytest.raises(InvalidArgument):
        await sets.look_up(ProblemSetRef("http://169.254.169.254/latest.jsonl"))


async def test_a_file_of_pairs_has_the_fingerprints_of_its_problems(tmp_path: Path) -> None:
    pairs = [{"problem": "Add.", "chosen": "a", "rejected": str(number)} for number in range(3)]
    (tmp_path / "pairs.jsonl").write_text("\n".join(json.dumps(one) for one in pairs))
    (tmp_path / "mine.jsonl").write_text(json.dumps(PROBLEM))
    sets = LibraryProblemSets(Places([str(tmp_path)]), NONE, UNTRIED, NO_DATASETS)
    found = await sets.pairs(ProblemSetRef(str(tmp_path / "pairs.jsonl"), limit=2))
    problems = await sets.look_up(ProblemSetRef(str(tmp_path / "mine.jsonl")))
    assert (found.size, found.form, found.fingerprints) == (2, "", problems.fingerprints)
    assert found.ref.digest.startswith("sha256:")
    with pytest.raises(InvalidArgument, match="line 1: entry_point: unknown field"):
        await sets.pairs(ProblemSetRef(str(tmp_path / "mine.jsonl")))
    with pytest.raises(NotFound):
        await sets.pairs(ProblemSetRef(str(tmp_path / "none.jsonl")))
    with pytest.raises(InvalidArgument, match="RATCHET_SOURCES"):
        await sets.pairs(ProblemSetRef("/etc/passwd"))


GIVEN = """
import itertools


def mine(split):
    print("what it prints is no answer")
    if split == "broken":
        raise ValueError("no such table")
    if split == "bad":
        return [{"prompt": "Add.", "tests": [{"args": [1]}]}]
    if split == "endless":
        return (problem(number) for number in itertools.count(3))
    return [problem(number) for number in range({"train": 3, "one": 1}.get(split, 0))]


def problem(number):
    tests = [{"check": "assert 1 +"}] if number == 2 else [{"args": [1], "expected": number}]
    return {"prompt": f"Add {number}.", "entry_point": "f", "tests": tests}
"""


@pytest.fixture
def given(make_plugin: Callable[..., None]) -> LibraryProblemSets:
    make_plugin("mine", GIVEN, dataset="mine")
    return LibraryProblemSets(Places([]), InstalledPlugins(["mine"]), UNTRIED, NO_DATASETS)


async def test_a_plugin_gives_problems_as_a_file_does(given: LibraryProblemSets) -> None:
    found = await given.look_up(ProblemSetRef("plugin:mine/train"))
    assert (found.ref.name, found.size, len(found.faults)) == ("plugin:mine/train", 3, 1)
    assert found.faults[0].startswith("plugin:mine-train/3: tests[0].check: is not valid Python")
    assert (await given.look_up(ProblemSetRef("plugin:mine/train"))).ref.digest == found.ref.digest
    assert (await given.look_up(ProblemSetRef("plugin:mine/train", limit=1))).ref.digest != found.ref.digest


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("plugin:mine/broken", "the dataset mine failed: ValueError: no such table"),
        ("plugin:mine/bad", "plugin:mine-bad problem 1: tests\\[0\\].expected: is missing"),
        ("plugin:other", "no dataset 'other' is installed; there are: mine"),
    ],
)
async def test_what_a_plugin_can_not_give_is_refused_with_the_reason(
    given: LibraryProblemSets, name: str, reason: str
) -> None:
    with pytest.raises(InvalidArgument, match=reason):
        await given.look_up(ProblemSetRef(name))


async def test_of_an_endless_one_the_limit_is_taken(given: LibraryProblemSets, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (await given.look_up(ProblemSetRef("plugin:mine/endless", limit=4))).size == 4
    monkeypatch.setattr(problems, "MOST", 20)
    with pytest.raises(InvalidArgument, match=r"the dataset mine gives more than 20 problems: say how many, .* limit:"):
        await given.look_up(ProblemSetRef("plugin:mine/endless"))


async def test_a_split_without_problems_is_not_there(given: LibraryProblemSets) -> None:
    with pytest.raises(NotFound, match="the dataset mine has no problems in its split validation"):
        await given.look_up(ProblemSetRef("plugin:mine/validation"))


async def test_a_plugin_that_is_not_allowed_is_not_run(make_plugin: Callable[..., None], tmp_path: Path) -> None:
    make_plugin("mine", f"def mine(split): open({str(tmp_path / 'ran')!r}, 'w')", dataset="mine")
    with pytest.raises(
        InvalidArgument, match=r"the operator has not allowed it: .* with RATCHET_TRAINER_PLUGINS=mine allows it"
    ):
        await LibraryProblemSets(Places([]), InstalledPlugins([]), UNTRIED, NO_DATASETS).look_up(
            ProblemSetRef("plugin:mine")
        )
    assert not (tmp_path / "ran").exists()


async def test_pairs_of_a_data_set_are_pinned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RATCHET_HOME", str(tmp_path))

    class Datasets(NoDatasets):
        async def fetch_pairs(self, ref: DatasetRef) -> DatasetRef:
            pinned = DatasetRef(ref.name, 3, "train")
            table = cached_pairs(pinned)
            table.parent.mkdir(parents=True)
            pair_tables.write([Pair("1", "a", "b", problem="Add."), Pair("2", "a", "c", problem="Add.")], table)
            return pinned

    sets: Any = Datasets()
    found = await LibraryProblemSets(Places([]), NONE, UNTRIED, sets).pairs(ProblemSetRef("chats", limit=1))
    assert (found.ref.name, found.size, len(found.fingerprints)) == ("chats@3/train", 1, 1)
    with pytest.raises(NotFound, match="no pairs 'chats': use a"):
        await LibraryProblemSets(Places([]), NONE, UNTRIED, NO_DATASETS).pairs(ProblemSetRef("chats"))


async def test_task_folders_are_problems_of_a_data_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RATCHET_HOME", str(tmp_path))
    examples = Path(__file__).parents[4] / "examples/tasks"
    pinned = DatasetRef("agents", 1, "train")
    shared = shutil.copytree(examples / "count-words", tmp_path / "shared")
    told = shared / "task.toml"
    told.write_text(told.read_text().replace('judge = "program"', 'judge = "process"'))
    folders = [examples / "csv-to-json", examples / "fix-average", shared]
    made = task_sets.write({"train": folders}, tmp_path)["train"]
    cached_tasks(pinned).parent.mkdir(parents=True)
    made.rename(cached_tasks(pinned))

    class Held(NoDatasets):
        async def fetch_tasks(self, ref: DatasetRef) -> DatasetRef:
            if ref.name != "agents":
                raise FailedPrecondition(f"{ref} holds no task folders")
            return pinned

    held: Any = Held()
    sets = LibraryProblemSets(Places([str(tmp_path)]), NONE, UNTRIED, held)
    found = await sets.tasks(ProblemSetRef("agents", 2))
    assert (found.ref.name, found.size, found.forgeable) == ("agents@1/train", 2, "")
    read = problems.read(found.ref.name, limit=2)
    assert data_digest(read) == found.ref.digest
    assert len({one.source for one in read}) == 2
    whole = await sets.tasks(ProblemSetRef("agents"))
    assert (whole.size, whole.forgeable) == (3, "ratchet/count-words")
    for name, said in (("mine.jsonl", "is no data set of task folders"), ("sums", "sums holds no task folders")):
        with pytest.raises(InvalidArgument, match=said):
            await sets.tasks(ProblemSetRef(name))
