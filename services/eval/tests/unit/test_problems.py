"""Sets of problems from names and files, and models in folders."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest

from eval_service.adapters.problems import LibraryProblems
from eval_service.adapters.registry import GrpcModelSource
from eval_service.domain.spec import Form, Kind, ProblemSetRef
from ratchet.common.v1 import model_pb2
from ratchet.registry.v1 import registry_pb2, registry_pb2_grpc
from ratchet.sandbox.v1 import program_pb2 as pb
from ratchet_environments.executor import Executor
from ratchet_environments.folders import sets
from ratchet_environments.folders.folder import find, read
from ratchet_kit.allowed_sources import Places
from ratchet_kit.errors import InvalidArgument, NotFound
from ratchet_kit.names import BareModel, DatasetRef, Location, VersionRef
from ratchet_problems import load, tables
from ratchet_problems.dataset_cache import cached, cached_tasks

EXAMPLES = Path(__file__).parents[4] / "examples/tasks"
LINE = '{"prompt": "Double it.", "entry_point": "f", "tests": [{"args": [1], "expected": 2}]}\n'


class NoDatasets:
    """A registry that holds none."""

    async def fetch(self, ref: DatasetRef) -> DatasetRef:
        raise NotFound(f"there is no data set {ref.name!r}; there are no data sets yet")

    async def rows(self, name: str, version: str = "") -> None:
        return None


NONE: Any = NoDatasets()


class NoSandbox:
    async def execute_batch(self, programs: Sequence[pb.Program]) -> Sequence[pb.ExecutionItem]:
        raise AssertionError("nothing is to be run")


async def test_a_file_below_a_place_is_read_and_no_other(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    for folder in (tmp_path, tmp_path / "own"):
        (folder / "set.jsonl").write_text(LINE)
    problems = LibraryProblems(Places([str(tmp_path / "own")]), Executor(NoSandbox()), NONE)
    assert len((await problems.load(ProblemSetRef(f"{tmp_path}/own/set.jsonl"), Kind.TESTED)).problems) == 1
    for name in (f"{tmp_path}/set.jsonl", f"{tmp_path}/own/../set.jsonl", "http://169.254.169.254/set.jsonl"):
        with pytest.raises(InvalidArgument, match=r"RATCHET_SOURCES|must be a file") as refused:
            await problems.check(ProblemSetRef(name), Kind.TESTED)
        assert [violation.field for violation in refused.value.violations] == ["spec.problems.name"]


async def test_what_a_caller_should_know_of_a_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "set.jsonl").write_text('{"prompt": "Halve it.", "tests": [{"stdin": "1", "expected_stdout": "0.5"}]}')
    problems = LibraryProblems(Places([str(tmp_path)]), Executor(NoSandbox()), NONE)
    (notice,) = await problems.check(ProblemSetRef(f"{tmp_path}/set.jsonl"), Kind.TESTED)
    assert "only the same digits pass: set/1. " in notice
    assert await problems.check(ProblemSetRef("basics"), Kind.TESTED) == ()


async def test_a_models_folder_is_below_a_place(tmp_path: Path) -> None:
    async with grpc.aio.insecure_channel("127.0.0.1:1") as channel:
        models = GrpcModelSource(channel, Places([str(tmp_path)]))
        assert (await models.resolve(Location(f"{tmp_path}/model"))).source == f"{tmp_path}/model"
        for uri in ("/etc", f"{tmp_path}/../x", "http://169.254.169.254/model"):
            with pytest.raises(InvalidArgument, match="RATCHET_SOURCES"):
                await models.resolve(Location(uri))


async def test_a_file_that_is_not_there_is_told_with_the_one_that_may_be_meant(tmp_path: Path) -> None:
    (tmp_path / "sums.jsonl").write_text(LINE)
    problems = LibraryProblems(Places([str(tmp_path)]), Executor(NoSandbox()), NONE)
    with pytest.raises(InvalidArgument, match=r"No such file or directory: did you mean sums\.jsonl\?"):
        await problems.check(ProblemSetRef(f"{tmp_path}/sum.jsonl"), Kind.TESTED)


async def test_a_name_is_pinned_to_the_version_that_it_means() -> None:
    class Registry(registry_pb2_grpc.RegistryServiceServicer):
        async def GetVersion(
            self, request: registry_pb2.GetVersionRequest, context: Any
        ) -> registry_pb2.GetVersionResponse:
            ref = model_pb2.VersionRef(model=request.model, number=request.number or 2)
            version = registry_pb2.Version(ref=ref, state=registry_pb2.Version.STATE_READY, artifact_uri="/a")
            return registry_pb2.GetVersionResponse(version=version)

    server = grpc.aio.server()
    registry_pb2_grpc.add_RegistryServiceServicer_to_server(Registry(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        models = GrpcModelSource(channel, Places([]))
        found = [await models.resolve(ref) for ref in (BareModel("starter"), VersionRef("starter", 1))]
    await server.stop(None)
    assert [one.version for one in found] == ["starter@2", "starter@1"]


async def test_own_sets_have_no_version_and_are_put_as_lines() -> None:
    source = LibraryProblems(Places([]), Executor(NoSandbox()), NONE)
    await source.check(ProblemSetRef("basics"), Kind.TESTED)
    loaded = await source.load(ProblemSetRef("basics", 3), Kind.TESTED)
    problem = loaded.problems[0]
    assert (len(loaded.problems), loaded.version, loaded.digest[:7]) == (3, "", "sha256:")
    assert loaded.put(problem, Form.CHAT, None).messages[-1].content == problem.prompt
    assert loaded.put(problem, Form.COMPLETION, None).text == f"{problem.prompt}\n"
    code = problem.references[0]
    assert loaded.program(problem, f"Here it is:\n```python\n{code}```").strip() == code.strip()


async def test_an_unknown_set_is_the_callers_fault() -> None:
    source = LibraryProblems(Places([]), Executor(NoSandbox()), NONE)
    for attempt in (source.pin, source.load):
        with pytest.raises(InvalidArgument, match="no benchmark 'no-such-set'") as refused:
            await attempt(ProblemSetRef("no-such-set"), Kind.TESTED)
        assert [violation.field for violation in refused.value.violations] == ["spec.problems.name"]


async def test_a_data_set_is_pinned_and_read_from_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RATCHET_HOME", str(tmp_path))

    class Datasets(NoDatasets):
        async def fetch(self, ref: DatasetRef) -> DatasetRef:
            pinned = DatasetRef(ref.name, 3, ref.split or "test")
            cached(pinned).parent.mkdir(parents=True, exist_ok=True)
            tables.write(load("composed/test", limit=4), cached(pinned))
            return pinned

        async def use(self, ref: DatasetRef, user: str) -> None:
            used.append((str(ref), user))

    used: list[tuple[str, str]] = []
    source = LibraryProblems(Places([]), Executor(NoSandbox()), Datasets())  # type: ignore[arg-type]
    ref = await source.pin(ProblemSetRef("mine", 2), Kind.TESTED)
    assert ref == ProblemSetRef("mine@3/test", 2)
    assert await source.check(ref, Kind.TESTED) == ()
    assert [one.id for one in (await source.load(ref, Kind.TESTED)).problems] == [
        one.id for one in load("composed/test", limit=2)
    ]
    monkeypatch.setattr("eval_service.adapters.problems.MOST_PROBLEMS", 3)
    with pytest.raises(InvalidArgument, match="has 4 problems, and an evaluation measures 3 at most: set a limit"):
        await source.check(replace(ref, limit=None), Kind.TESTED)
    await source.use(ref, "eval_1")
    await source.use(ProblemSetRef("basics"), "eval_1")
    assert used == [("mine@3/test", "eval_1")]


async def test_task_folders_are_problems_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RATCHET_HOME", str(tmp_path))

    class Datasets(NoDatasets):
        async def fetch_tasks(self, ref: DatasetRef) -> DatasetRef:
            pinned = DatasetRef(ref.name, 1, "train")
            cached_tasks(pinned).parent.mkdir(parents=True, exist_ok=True)
            sets.write({"train": find([EXAMPLES])}, tmp_path)["train"].rename(cached_tasks(pinned))
            return pinned

    source = LibraryProblems(Places([]), Executor(NoSandbox()), Datasets())  # type: ignore[arg-type]
    ref = await source.pin(ProblemSetRef("agents", 3), Kind.FOLDERS)
    assert ref == ProblemSetRef("agents@1/train", 3)
    assert await source.check(ref, Kind.FOLDERS) == []
    loaded = await source.load(ref, Kind.FOLDERS)
    tasks = [read(folder) for folder in find([EXAMPLES])[:3]]
    assert [(one.id, one.prompt) for one in loaded.problems] == [(task.name, task.instruction) for task in tasks]
    assert [loaded.folder(problem) for problem in loaded.problems] == tasks
    assert len({one.digest for one in loaded.problems}) == 3
    assert await source.load_if_ready(ref, Kind.FOLDERS) is not None
    assert await source.load_if_ready(ProblemSetRef("agents@7/train"), Kind.FOLDERS) is None
    for name in ("basics", "humaneval", "no-file.jsonl"):
        with pytest.raises(InvalidArgument, match="must be a data set of task folders") as refused:
            await source.pin(ProblemSetRef(name), Kind.FOLDERS)
        assert [violation.field for violation in refused.value.violations] == ["spec.problems.name"]


async def test_a_benchmark_comes_from_the_platform_where_it_is_not_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RATCHET_DATA", str(tmp_path))
    row = {"task_id": "T/0", "prompt": "def f():\n", "entry_point": "f", "canonical_solution": "    return 1\n"}
    lines = json.dumps(row | {"test": "def check(candidate):\n    assert candidate() == 1\n"}).encode() + b"\n"
    digest = hashlib.sha256(lines).hexdigest()[:12]

    class Datasets(NoDatasets):
        there = digest, lines

        async def rows(self, name: str, version: str = "") -> tuple[str, bytes] | None:
            return self.there if (name, version) in (("humaneval", ""), ("mbpp-plus", "v0.2.0")) else None

    source = LibraryProblems(Places([]), Executor(NoSandbox()), Datasets())  # type: ignore[arg-type]
    for name in ("mbpp", "humaneval@2021-07"):
        with pytest.raises(InvalidArgument, match="are not here: run `ratchet data fetch"):
            await source.check(ProblemSetRef(name), Kind.TESTED)
    await source.check(ProblemSetRef("humaneval"), Kind.TESTED)
    assert [one.id for one in (await source.load(ProblemSetRef("humaneval"), Kind.TESTED)).problems] == ["T/0"]
    Datasets.there = "v0.2.0", lines
    with pytest.raises(InvalidArgument, match=r"the rows of mbpp\+@v0.2.0 are not those of that edition"):
        await source.check(ProblemSetRef("mbpp+@v0.2.0"), Kind.TESTED)


async def test_a_file_that_no_program_can_pass_is_refused_with_lines_and_ids(tmp_path: Path) -> None:
    good = '{"id": "a", "prompt": "Double it.", "entry_point": "f", "tests": [{"args": [1], "expected": 2}]}'
    bad = '{"id": "%s", "prompt": "Double it.", "entry_point": "f", "tests": [{"check": "def check(f:"}]}'
    (tmp_path / "set.jsonl").write_text("\n".join([good, "", bad % "b", bad % "c"]))
    problems = LibraryProblems(Places([str(tmp_path)]), Executor(NoSandbox()), NONE)
    with pytest.raises(InvalidArgument) as refused:
        await problems.check(ProblemSetRef(f"{tmp_path}/set.jsonl"), Kind.TESTED)
    said = [one.description for one in refused.value.violations]
    assert [one[:53] for one in said] == [
        "set.jsonl line 3, b: tests[0].check: is not valid Pyt",
        "set.jsonl line 4, c: tests[0].check: is not valid Pyt",
    ]
