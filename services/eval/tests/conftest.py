"""What eval's tests share: ports in memory, and the use cases wired over them."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest

from eval_service.domain.evaluation import Evaluation, ResolvedModel
from eval_service.domain.evaluations import Evaluations
from eval_service.domain.measuring.draw import Drawer
from eval_service.domain.measuring.examine import Examiner
from eval_service.domain.measuring.judge import Judge
from eval_service.domain.measuring.load import Loader
from eval_service.domain.measuring.measurer import Measurer
from eval_service.domain.measuring.patience import Deadlines, Patience
from eval_service.domain.measuring.spent import Spent
from eval_service.domain.ports import Answer, LoadedPolicy, Played, ProblemSet, Put
from eval_service.domain.spec import Form, Kind, ProblemSetRef
from ratchet_environments import EnvironmentSpec, Episode, Limits, Outcome, Task
from ratchet_environments.failures import FailedTest, Failures
from ratchet_environments.folders import folder as folders
from ratchet_environments.folders.folder import TaskFolder
from ratchet_environments.folders.tree import File
from ratchet_kit.errors import FieldViolation, InvalidArgument, NotFound, RatchetError
from ratchet_kit.names import AnyModel, Location, RewardRef
from ratchet_kit.usage import Prices
from ratchet_policies import ChatPrompt, EngineShare, Prompt, Sampling, TextPrompt
from ratchet_problems import CallTest, CheckTest, Message, Problem, data_digest, templates
from ratchet_problems.prompting import OWN_PROMPTING
from ratchet_problems.templates import Template
from ratchet_rewards import Grade, Registered
from ratchet_testing.clock import ManualClock
from ratchet_testing.queue import MemoryQueue

from .memory import MemoryEvaluationStore

NOW = datetime(2026, 1, 1, tzinfo=UTC)
WEIGHTS = "sha256:" + "ab" * 32
SETTINGS = "sha256:" + "cd" * 32
PRICES = Prices(currency="EUR", sandbox_hour=36.0)


def problem(number: int) -> Problem:
    return Problem(
        id=f"p{number:02}", prompt=f"Solve {number}.", tests=(CallTest.of([number], number),), entry_point="solve"
    )


@dataclass(frozen=True, slots=True)
class MemorySet:
    problems: Sequence[Problem]
    version: str = "v1"
    runtime: str = ""

    def limits(self, problem: Problem) -> Limits:
        return Limits()

    @property
    def digest(self) -> str:
        return data_digest(self.problems)

    def put(self, problem: Problem, form: Form, shots: int | None) -> Put:
        examples = "Example. " * (shots or 0)
        if form is Form.COMPLETION:
            return Put(text=f"{examples}# {problem.prompt}", stop=("\ndef",))
        if problem.examples:
            return Put(OWN_PROMPTING.put(problem, "chat").messages)
        return Put((*problem.conversation, Message("user", examples + problem.prompt)))

    def program(self, problem: Problem, completion: str) -> str:
        return f"{problem.prompt}\n{completion}"

    def solution(self, problem: Problem, solution: str) -> str:
        return solution

    def folder(self, problem: Problem) -> TaskFolder:
        files = {"task.toml": "", "instruction.md": problem.prompt, "environment/Dockerfile": "FROM python:3.11"}
        tree = {path: File(text.encode()) for path, text in (files | {"tests/test.sh": "true"}).items()}
        return folders.interpret(tree, problem.id)


def episode(task: str) -> Played:
    """Solves the even ones."""
    second = timedelta(seconds=1)
    record = f"record of {task}".encode()
    return Played(int(task[1:]) % 2 == 0, "reward", False, f"said of {task}", 2, 7, second, 2 * second, "", 1, record)


class MemoryProblems:
    def __init__(self) -> None:
        self.problems: Sequence[Problem] = [problem(number) for number in range(6)]
        self.more: Sequence[Problem] = [problem(number) for number in range(4)]
        """Of the set "more"."""
        self.ready = True
        self.notices: Sequence[str] = ()

    async def pin(self, ref: ProblemSetRef, kind: Kind) -> ProblemSetRef:
        return ref

    async def use(self, ref: ProblemSetRef, evaluation_id: str) -> None:
        """None of them is the registry's."""

    async def check(self, ref: ProblemSetRef, kind: Kind) -> Sequence[str]:
        if ref.name not in ("basics", "more"):
            raise InvalidArgument(f"no problem set {ref.name!r}")
        return self.notices

    async def load(self, ref: ProblemSetRef, kind: Kind) -> ProblemSet:
        return MemorySet(self.problems if ref.name == "basics" else self.more)

    async def load_if_ready(self, ref: ProblemSetRef, kind: Kind) -> ProblemSet | None:
        return await self.load(ref, kind) if self.ready else None


class MemoryModels:
    async def resolve(self, ref: AnyModel) -> ResolvedModel:
        if isinstance(ref, Location):
            return ResolvedModel(ref.uri)
        if ref.model == "nobody":
            raise NotFound("there is no model 'nobody'")
        return ResolvedModel("/artifacts/starter", WEIGHTS, SETTINGS)


class MemoryHost:
    """A policy that answers "<last message> <seed>", until a test gives it faults to raise first."""

    def __init__(self) -> None:
        self.weights = WEIGHTS
        self.settings = SETTINGS
        self.open_faults: list[RatchetError] = []
        self.faults: list[RatchetError] = []
        self.completions: list[tuple[tuple[Message, ...], Sampling]] = []
        self.texts: list[tuple[str, Sampling]] = []
        self.has_chat_template = True
        self.templates: set[str] = set()
        """Chat templates of requests."""
        self.room = 100
        """Messages of a chat that it takes."""
        self.opened: Counter[str] = Counter()
        self.loaded: set[str] = set()
        self.hang = asyncio.Event()
        self.hang.set()
        self.hang_after = 0
        """So many completions are made even while `hang` is not set."""
        self.in_flight = self.most_in_flight = 0
        self.share = EngineShare()
        self.played: list[tuple[str, tuple[str, ...], Sampling]] = []
        self.plays: Callable[[str], Played] = episode
        """A harness's episode, by its task."""

    @asynccontextmanager
    async def open(self, model: ResolvedModel, holder: str) -> AsyncIterator[LoadedPolicy]:
        if self.open_faults:
            raise self.open_faults.pop(0)
        self.opened[holder] += 1
        self.loaded.add(holder)
        try:
            yield MemoryPolicy(self)
        finally:
            self.loaded.discard(holder)

    async def holders(self) -> Sequence[str]:
        return sorted(self.loaded)

    async def close(self, holder: str) -> None:
        self.loaded.discard(holder)


class MemoryPolicy:
    def __init__(self, host: MemoryHost) -> None:
        self._host = host
        self.policy_id = host.weights
        self.settings_id = host.settings
        self.has_chat_template = host.has_chat_template

    async def look(self) -> EngineShare:
        return self._host.share

    async def play(self, environment: EnvironmentSpec, folder: TaskFolder, sampling: Sampling) -> Played:
        """As `MemoryHost.plays`."""
        await asyncio.sleep(0)
        if self._host.faults:
            raise self._host.faults.pop(0)
        self._host.played.append((folder.name, environment.command, sampling))
        return self._host.plays(folder.name)

    async def complete(self, prompt: Prompt, sampling: Sampling) -> Answer:
        host = self._host
        host.in_flight += 1
        host.most_in_flight = max(host.most_in_flight, host.in_flight)
        try:
            await asyncio.sleep(0)
            if len(host.completions) >= host.hang_after:
                await host.hang.wait()
        finally:
            host.in_flight -= 1
        if host.faults:
            raise host.faults.pop(0)
        if isinstance(prompt, TextPrompt):
            host.texts.append((prompt.text, sampling))
            return Answer(f"{prompt.text} {sampling.seed}", 3)
        assert isinstance(prompt, ChatPrompt)
        if len(prompt.messages) > host.room:
            raise InvalidArgument("too long", [FieldViolation("prompt.chat", "the prompt has 9 tokens")])
        host.templates.add(prompt.chat_template)
        host.completions.append((prompt.messages, sampling))
        return Answer(f"{prompt.messages[-1].content} {sampling.seed}", 3)


class MemoryEnvironment:
    """Passes the even problems, after `turns` answers; and whole programs that say so."""

    def __init__(self) -> None:
        self.faults: list[RatchetError] = []
        self.turns = 1
        self.judged: list[str] = []
        self.can_judge_nothing: set[str] = set()
        """Problems."""
        self.must_share: set[str] = set()
        """Test code that no program passes apart from it."""
        self.cpu_times: dict[str, timedelta] = {}
        """Of programs, by problem."""
        self.hangs: set[str] = set()
        """Answers that are not judged."""

    async def start(self, task: Task) -> Episode:
        return Episode(task)

    async def step(self, episode: Episode, answer: str) -> Episode:
        await asyncio.sleep(0)
        if self.faults:
            raise self.faults.pop(0)
        if episode.task.problem.id in self.can_judge_nothing:
            raise InvalidArgument("uses nothing of the program")
        if len(episode.turns) + 1 < self.turns:
            return episode.go_on(answer, Grade("FAILED", 0, 1), Message("user", "Look again."))
        while answer in self.hangs:
            await asyncio.sleep(0.01)
        self.judged.append(answer)
        passed = int(episode.task.problem.id[1:]) % 2 == 0 or (episode.task.is_program and "pass" in answer)
        problem = episode.task.problem
        codes = {test.code for test in problem.tests if isinstance(test, CheckTest) and not test.shared}
        passed = passed and not codes & self.must_share
        grade = Grade(
            "PASSED" if passed else "FAILED", int(passed), 1, "", problem.forgeable, self.cpu_times.get(problem.id)
        )
        failures = Failures() if passed else Failures((FailedTest("solve(1)", "1", "0"),), held_out=3)
        return episode.end(answer, Outcome(grade), failures)


class MemoryRewards:
    """`facts` has two versions."""

    def __init__(self) -> None:
        self.used: list[tuple[str, str]] = []

    async def find(self, ref: RewardRef) -> Registered:
        if ref.name != "facts":
            raise NotFound(f"there is no reward {ref.name!r}; there is facts")
        number = ref.number or 2
        return Registered(RewardRef("facts", number), f"print([{number}])")

    async def use(self, ref: RewardRef, evaluation_id: str) -> None:
        self.used.append((str(ref), evaluation_id))


class MemoryMeter:
    def __init__(self) -> None:
        self.verdicts: Counter[str] = Counter()
        self.faults: Counter[str] = Counter()
        self.states: list[str] = []

    def sampled(self, verdict: str) -> None:
        self.verdicts[verdict] += 1

    def retried(self, fault: str) -> None:
        self.faults[fault] += 1

    def ended(self, evaluation: Evaluation) -> None:
        self.states.append(str(evaluation.state))


class MemoryEvents:
    def __init__(self) -> None:
        self.told: list[tuple[str, str]] = []

    async def ended(self, evaluation: Evaluation) -> None:
        self.told.append((evaluation.id, evaluation.state.name))


class World:
    """The use cases over ports in memory."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.store = MemoryEvaluationStore()
        self.queue = MemoryQueue()
        self.problems = MemoryProblems()
        self.host = MemoryHost()
        self.models = MemoryModels()
        self.rewards = MemoryRewards()
        self.environment = MemoryEnvironment()
        self.meter = MemoryMeter()
        self.events = MemoryEvents()
        self.evaluations = Evaluations(
            self.store,
            self.queue,
            self.problems,
            self.models,
            self.rewards,
            self.events,
            clock,
            self.examine_template,
            watch_interval=timedelta(milliseconds=5),
            prices=PRICES,
        )
        deadlines = Deadlines(timedelta(minutes=5), timedelta(minutes=30), timedelta(seconds=10))
        self.measurer = Measurer(
            Loader(
                self.problems,
                self.store,
                lambda: Patience(deadlines, self.meter, clock, self.sleep),
                lambda: Spent(clock.now(), PRICES),
            ),
            Examiner(self.environment, at_once=8),
            Drawer(self.host, clock, at_once=4, moment=0),
            Judge(lambda spec: self.environment, self.meter, at_once=8, moment=0),
            clock,
        )

    async def examine_template(self, source: str) -> Template:
        return templates.rendered(source, {})

    async def sleep(self, seconds: float) -> None:
        self.clock.advance(timedelta(seconds=seconds))
        await asyncio.sleep(0)


@pytest.fixture
def world(clock: ManualClock) -> World:
    return World(clock)
