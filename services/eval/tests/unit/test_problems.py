"""Sets of problems from names and files, and models in folders."""

from collections.abc import Sequence
from pathlib import Path

import grpc
import pytest

from eval_service.adapters.problems import LibraryProblems
from eval_service.adapters.registry import GrpcModelSource
from eval_service.domain.spec import Form, ProblemSetRef
from ratchet.sandbox.v1 import program_pb2 as pb
from ratchet_environments.executor import Executor
from ratchet_kit.allowed_sources import Places
from ratchet_kit.errors import InvalidArgument
from ratchet_kit.names import Location

LINE = '{"prompt": "Double it.", "entry_point": "f", "tests": [{"args": [1], "expected": 2}]}\n'


class NoSandbox:
    async def execute_batch(self, programs: Sequence[pb.Program]) -> Sequence[pb.ExecutionItem]:
        raise AssertionError("nothing is to be run")


async def test_a_file_below_a_place_is_read_and_no_other(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    for folder in (tmp_path, tmp_path / "own"):
        (folder / "set.jsonl").write_text(LINE)
    problems = LibraryProblems(Places([str(tmp_path / "own")]), Executor(NoSandbox()))
    assert len((await problems.load(ProblemSetRef(f"{tmp_path}/own/set.jsonl"))).problems) == 1
    for name in (f"{tmp_path}/set.jsonl", f"{tmp_path}/own/../set.jsonl", "http://169.254.169.254/set.jsonl"):
        with pytest.raises(InvalidArgument, match=r"RATCHET_SOURCES|must be a file") as refused:
            await problems.check(ProblemSetRef(name))
        assert [violation.field for violation in refused.value.violations] == ["spec.problems.name"]


async def test_what_a_caller_should_know_of_a_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "set.jsonl").write_text('{"prompt": "Halve it.", "tests": [{"stdin": "1", "expected_stdout": "0.5"}]}')
    problems = LibraryProblems(Places([str(tmp_path)]), Executor(NoSandbox()))
    (notice,) = await problems.check(ProblemSetRef(f"{tmp_path}/set.jsonl"))
    assert "only the same digits pass: set/1. " in notice
    assert await problems.check(ProblemSetRef("basics")) == ()


async def test_a_models_folder_is_below_a_place(tmp_path: Path) -> None:
    async with grpc.aio.insecure_channel("127.0.0.1:1") as channel:
        models = GrpcModelSource(channel, Places([str(tmp_path)]))
        assert (await models.resolve(Location(f"{tmp_path}/model"))).source == f"{tmp_path}/model"
        for uri in ("/etc", f"{tmp_path}/../x", "http://169.254.169.254/model"):
            with pytest.raises(InvalidArgument, match="RATCHET_SOURCES"):
                await models.resolve(Location(uri))


async def test_own_sets_have_no_version_and_are_put_as_lines() -> None:
    source = LibraryProblems(Places([]), Executor(NoSandbox()))
    await source.check(ProblemSetRef("basics"))
    loaded = await source.load(ProblemSetRef("basics", 3))
    problem = loaded.problems[0]
    assert (len(loaded.problems), loaded.version, loaded.digest[:7]) == (3, "", "sha256:")
    assert loaded.put(problem, Form.CHAT, None).messages[-1].content == problem.prompt
    assert loaded.put(problem, Form.COMPLETION, None).text == f"{problem.prompt}\n"
    code = problem.references[0]
    assert loaded.program(problem, f"Here it is:\n```python\n{code}```").strip() == code.strip()


async def test_an_unknown_set_is_the_callers_fault() -> None:
    source = LibraryProblems(Places([]), Executor(NoSandbox()))
    for attempt in (source.check, source.load):
        with pytest.raises(InvalidArgument, match="no benchmark 'no-such-set'") as refused:
            await attempt(ProblemSetRef("no-such-set"))
        assert [violation.field for violation in refused.value.violations] == ["spec.problems.name"]
