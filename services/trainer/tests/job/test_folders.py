"""Episodes on task folders as they are learned from: a real sandbox, an engine in memory."""

import shutil
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from ratchet_environments import Episode, Task
from ratchet_environments.folders import sets
from ratchet_environments.folders.sets import TaskSet
from ratchet_environments.folders.tree import File
from ratchet_environments.own import Sample
from ratchet_environments.workspaces import Workspaces
from ratchet_episodes import Harness, record
from ratchet_kit.errors import DataLoss, InvalidArgument, RatchetError, Unavailable
from ratchet_policies import Begun, Completion, FinishReason, Generation, Sampling, Tool, Tools, joined
from ratchet_problems import Message, Problem
from ratchet_rewards import Measured
from ratchet_sessions import Session
from ratchet_sessions.session import Question
from ratchet_testing.memory_engine import POLICY, MemoryEngine
from ratchet_testing.workspaces import served
from trainer_service.job.policy.weight_versions import Version, WeightVersions
from trainer_service.job.samples.episodes import Played
from trainer_service.job.samples.folders import FolderPlayer, Tasks, trajectories_of

from ..generating import Environment, Making

TASKS = Path(__file__).parents[4] / "examples/tasks"
SOLUTION = (TASKS / "csv-to-json/solution/solve.sh").read_text()
AGENT = """
import json, os, subprocess, sys, time, urllib.request

def ask(*texts, **more):
    roles = ("user", "assistant")
    messages = [{"role": roles[place % 2], "content": text} for place, text in enumerate(texts)]
    request = urllib.request.Request(
        os.environ["OPENAI_BASE_URL"] + "/chat/completions",
        json.dumps({"model": "any", "messages": messages, **more}).encode(),
        {"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"], "Content-Type": "application/json"},
    )
    return json.load(urllib.request.urlopen(request))["choices"][0]["message"]["content"]

def do(command):
    return subprocess.run(["bash", "-c", command], capture_output=True, text=True).stdout

task = open("/tmp/instruction.md").read()
"""
TWO_TURNS = "first = ask(task)\ndo(ask(task, first, do(first)))"
U, A, NOW = "user", "assistant", datetime(2026, 1, 1, tzinfo=UTC)


class ByScore:
    async def measure(self, task: Task, samples: Sequence[Sample]) -> list[Measured | None]:
        return [Measured({"loud": sample.grade.score or 0.0}, sample.grade.passed) for sample in samples]


class Chats(MemoryEngine):
    """An engine that answers at once, as a run's policy does."""

    error: RatchetError | None = None

    async def generate(self, prompt: Any, sampling: Sampling, policy_id: str) -> Generation:
        if self.error is not None:
            raise self.error
        deltas = [delta async for delta in self.stream("", policy_id, prompt, sampling)]
        made = joined([delta.completion for delta in deltas])
        return Generation((made,), policy_id, len(deltas[0].prompt_ids), prompt_ids=deltas[0].prompt_ids)


def tasks(folder: Path, name: str = "csv-to-json") -> tuple[Tasks, list[Any]]:
    file = sets.write({"train": [TASKS / name]}, folder)["train"]
    found = TaskSet(file)
    known = Tasks()
    known._entries = {f"sha256:{entry.sha256}": (found, entry) for entry in found.entries}
    return known, [*sets.problems(found).values()]


def player(workspaces: Workspaces, known: Tasks, program: str, patience: float = 0.0) -> FolderPlayer:
    harness = Harness(("python", "/tmp/harness/agent.py"), {"agent.py": File((AGENT + program).encode())})
    return FolderPlayer(workspaces, known, harness, timedelta(seconds=patience))


def making(make_groups: Any, engine: Chats, folders: FolderPlayer) -> Making:
    made: Making = make_groups(engine, Environment(), algorithm="grpo", measurer=ByScore(), limit=0.0, folders=folders)
    made.sent.now(POLICY, 0)
    return made


@pytest.mark.integration
@pytest.mark.timeout(300)
async def test_an_episode_is_learned_from_by_its_sampled_tokens_and_its_tasks_reward(
    sandbox_target: str, make_groups: Any, tmp_path: Path
) -> None:
    known, problems = tasks(tmp_path)
    engine = Chats(says=[Message(A, "ls"), Message(A, SOLUTION)])
    async with served(sandbox_target) as workspaces:
        made = making(make_groups, engine, player(workspaces, known, TWO_TURNS))
        (solved,) = await made.groups.validate(problems)
        (unsolved,) = await made.groups.validate(problems)
        assert workspaces.cpu_time > timedelta()
    (sample,) = solved.samples
    assert (sample.verdict, sample.earned.reward, list(sample.rewards)) == ("PASSED", 1.0, [0.0, 1.0])
    assert sample.turns is not None
    assert (sample.turns.count, sample.turns.first_passed) == (2, None)
    (way,) = sample.played.trajectories
    drawn = engine.samples[:2]
    assert tuple(way.prompt) == drawn[0].prompt_ids
    assert sample.played.answers == [list(one.token_ids) for one in drawn]
    kept = record.from_json(record.unpack(sample.played.kept()))
    assert [path.ids for path in kept.session.paths()] == [(*way.prompt, *way.tokens)]
    assert (kept.verdict.reward if kept.verdict else None, kept.ended.how) == (1.0, "status 0")
    assert [way.log_probs[place] for place, learned in enumerate(way.mask) if learned] == [
        log_prob for one in drawn for log_prob in one.log_probs
    ]
    assert (*way.prompt, *way.tokens)[: len(drawn[1].prompt_ids)] == drawn[1].prompt_ids
    assert [one.earned.reward for one in unsolved.samples] == [0.0]
    seeds = [one.seed for one in engine.samplings]
    assert len(set(seeds[:2])) == 2
    assert {one.temperature for one in engine.samplings} == {10.0}


@pytest.mark.integration
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("program", "error", "said"),
    [
        ("", None, "the program got no answer of the policy, and ended at status 0"),
        ("ask(task)", Unavailable("no engine answers"), "1 calls got no answer: no engine answers"),
        ("ask(task)", InvalidArgument("the prompt is too long"), "got no answer of the policy, and ended at status 1"),
    ],
)
async def test_what_is_no_verdict_is_no_sample(
    sandbox_target: str, make_groups: Any, tmp_path: Path, program: str, error: RatchetError | None, said: str
) -> None:
    known, problems = tasks(tmp_path)
    engine = Chats()
    engine.error = error
    async with served(sandbox_target) as workspaces:
        made = making(make_groups, engine, player(workspaces, known, program))
        (group,) = await made.groups.validate(problems)
    assert (list(group.samples), group.cut_off) == ([], 0)
    assert said in str(made.groups.last_fault)


@pytest.mark.integration
@pytest.mark.timeout(300)
async def test_an_engine_with_other_weights_ends_the_run(sandbox_target: str, make_groups: Any, tmp_path: Path) -> None:
    known, problems = tasks(tmp_path)
    engine = Chats()
    engine.error = DataLoss("the engine was given other weights")
    async with served(sandbox_target) as workspaces:
        made = making(make_groups, engine, player(workspaces, known, "ask(task)"))
        with pytest.raises(DataLoss, match="other weights"):
            await made.groups.validate(problems)


@pytest.mark.integration
@pytest.mark.timeout(300)
async def test_an_episode_of_many_conversations_is_refused(
    sandbox_target: str, make_groups: Any, tmp_path: Path
) -> None:
    known, problems = tasks(tmp_path)
    async with served(sandbox_target) as workspaces:
        program = "for place in range(33):\n    ask(f'{place}')"
        made = making(make_groups, Chats(), player(workspaces, known, program))
        (group,) = await made.groups.validate(problems)
    assert list(group.samples) == []
    assert "into 33 conversations, and 32 at most are learned from" in str(made.groups.last_fault)


@pytest.mark.integration
@pytest.mark.timeout(300)
async def test_an_episode_whose_time_is_over_is_neither_a_sample_nor_a_fault(
    sandbox_target: str, make_groups: Any, tmp_path: Path
) -> None:
    folder = shutil.copytree(TASKS / "csv-to-json", tmp_path / "slow")
    told = folder / "task.toml"
    told.write_text(told.read_text().replace("timeout_sec = 120.0", "timeout_sec = 2.0"))
    known, problems = tasks(tmp_path, str(folder))
    async with served(sandbox_target) as workspaces:
        made = making(make_groups, Chats(), player(workspaces, known, "ask(task)\ntime.sleep(60)"))
        (group,) = await made.groups.validate(problems)
    assert (list(group.samples), group.cut_off) == ([], 1)
    assert str(made.groups.last_fault) == "ratchet/csv-to-json: its 2 s were over before the program ended"


version_of = WeightVersions(push=lambda: "", version=Version(0, POLICY), _ids={0: POLICY}).of


def asked(session: Session, *texts: str, tools: Tools | None = None, form: str = "", policy: str = POLICY) -> None:
    """A call whose answer is its number, twice the token 100 and more; each of its new messages is the token 0."""
    question = Question("any", tuple(Message((U, A)[place % 2], text) for place, text in enumerate(texts)), tools, form)
    origin, index = session.origin(question), len(session.calls)
    begun = origin.begun or Begun((), 0)
    prompt = (*begun.ids, *[0] * (len(texts) - begun.messages))
    made = Completion(0, str(index), FinishReason.STOP, (100 + index,) * 2, (-1.0, -0.5))
    session.record(question, origin, Message(A, str(index)), made, prompt, policy, NOW, NOW)


def test_a_beginning_that_paths_share_is_learned_from_once() -> None:
    session = Session()
    asked(session, "task")
    asked(session, "task", "0", "more")
    asked(session, "task", "0", "other")
    first, second = trajectories_of(session, version_of)
    assert (first.prompt, first.tokens) == ((0,), (100, 100, 0, 101, 101))
    assert (list(first.mask), list(first.ends)) == ([1, 1, 0, 1, 1], [1, 4])
    assert (second.prompt, second.tokens) == ((0,), (100, 100, 0, 102, 102))
    assert (list(second.mask), list(second.ends)) == ([0, 0, 0, 1, 1], [4])
    assert (first.answers, second.answers) == ([[100, 100], [101, 101]], [[102, 102]])
    assert (first.calls, second.calls) == ([0, 1], [2])


def test_answers_are_in_the_order_in_which_they_were_asked_in_whichever_conversation() -> None:
    session = Session()
    asked(session, "task")
    asked(session, "other")
    asked(session, "task", "0", "more")
    played = Played(
        Episode(Task(Problem("p", "task", (), references=("1",)), ())), trajectories_of(session, version_of)
    )
    assert [way.answers for way in played.trajectories] == [[[101, 101]], [[100, 100], [102, 102]]]
    assert played.turns == [(1, range(2)), (0, range(2)), (1, range(2, 5))]


def test_an_answer_that_was_forced_is_not_learned_from() -> None:
    session = Session()
    asked(session, "task")
    asked(session, "task", "0", "as json", form='{"type": "object"}')
    (way,) = trajectories_of(session, version_of)
    assert (list(way.mask), list(way.ends)) == ([1, 1, 0, 0, 0], [1])
    for tools in (
        Tools((Tool("run"),), required=True),
        Tools((Tool("run"),), called="run"),
        Tools((Tool("run", strict=True),)),
    ):
        session = Session()
        asked(session, "task", tools=tools)
        assert trajectories_of(session, version_of) == []
    session = Session()
    asked(session, "task", tools=Tools((Tool("run"),)))
    assert len(trajectories_of(session, version_of)) == 1


def test_an_answer_of_weights_that_are_not_the_runs_is_refused() -> None:
    session = Session()
    asked(session, "task", policy="sha256:other")
    with pytest.raises(DataLoss, match=f"an answer is of sha256:other, and the run's weights are {POLICY}"):
        trajectories_of(session, version_of)


def test_each_answer_of_an_episode_has_the_weights_that_made_it() -> None:
    """Also where paths share some: what is masked in a path is learned from in another, and counted there."""
    sent = WeightVersions(push=lambda: "", max_staleness=2)
    session = Session()
    for step in (1, 2, 3):
        sent.now(f"sha256:{step}", step)
    asked(session, "task", policy="sha256:1")
    asked(session, "task", "0", "more", policy="sha256:1")
    asked(session, "task", "0", "more", "1", "more", policy="sha256:3")
    asked(session, "task", "0", "other", policy="sha256:2")
    ways = trajectories_of(session, sent.of)
    assert [[(one.version.step, one.tokens) for one in way.spans] for way in ways] == [[(1, 4), (3, 2)], [(2, 2)]]
    assert [way.oldest for way in ways] == [1, 2]
    assert [sum(way.mask) for way in ways] == [6, 2]
