"""Episodes of a harness on task folders: the session that a program had with the policy, as the tokens that are learned
from.

A path through the session (`ratchet_sessions.session`) is a trajectory: the first prompt, then answers as they were
sampled, and between them what the program, its tools and the chat template wrote, which is masked. Paths that begin
alike share their beginning, of which the answers are learned from in the first of them. An answer that a form or a
named tool was forced on was not drawn from the policy alone: it is masked as well.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial

from ratchet.sandbox.v1 import workspace_pb2
from ratchet_environments import Episode, Outcome, Task
from ratchet_environments.folders.folder import TaskFolder
from ratchet_environments.folders.sets import Entry, TaskSet
from ratchet_environments.workspaces import Workspaces
from ratchet_episodes import Episode as Ran
from ratchet_episodes import Harness, run
from ratchet_episodes import record as records
from ratchet_kit.errors import DataLoss, FailedPrecondition, InvalidArgument, NotFound, RatchetError, Unavailable
from ratchet_kit.logs import get_logger
from ratchet_kit.retry import patiently
from ratchet_kit.work import Priority
from ratchet_policies import ChatPrompt, Delta, Generation, Prompt, Sampling
from ratchet_problems import Problem
from ratchet_problems.dataset_cache import cached_tasks
from ratchet_problems.sets import dataset_of
from ratchet_rewards import Grade
from ratchet_sessions import Session, record
from ratchet_sessions.door import Seat
from trainer_service.job.policy.weight_versions import Version
from trainer_service.job.samples.answers import Span, merged
from trainer_service.job.samples.episodes import Played, Trajectory

log = get_logger(__name__)

Generate = Callable[[Prompt, Sampling], Awaitable[Generation]]
AT_ONCE = 32
"""Episodes of a run, each of which holds a workspace."""
MOST_TRAJECTORIES = 32
"""Bounds an episode. Each is as long as the policy's context at most: a program is not trusted with a step's memory."""
_ENDS_THE_RUN = (NotFound, FailedPrecondition, DataLoss)
"""Errors of the engine that say that the weights are not there, or are others."""


class CutOff(InvalidArgument):
    """The task's time was over before the program had ended. How fast the platform is shows in that, too: it is no
    verdict about the policy."""


@dataclass(slots=True)  # mutable: data sets are added before the first episode
class Tasks:
    """The task folders of a run, by the problems that stand for them."""

    _entries: dict[str, tuple[TaskSet, Entry]] = field(default_factory=dict)

    def add(self, name: str) -> None:
        """Adds those of a data set that is on this machine. Raises InvalidArgument, OSError."""
        dataset = dataset_of(name)
        assert dataset is not None
        tasks = TaskSet(cached_tasks(dataset))
        self._entries |= {f"sha256:{entry.sha256}": (tasks, entry) for entry in tasks.entries}

    def of(self, problem: Problem) -> TaskFolder:
        """Raises InvalidArgument, OSError."""
        tasks, entry = self._entries[problem.source]
        return tasks.read(entry)


class FolderPlayer:
    """Plays the episodes of one run. Transient errors are retried for `patience`, the whole episode."""

    def __init__(
        self, workspaces: Workspaces, tasks: Tasks, harness: Harness, patience: timedelta, *, forgeable: bool = False
    ) -> None:
        """`forgeable`: takes the rewards of folders whose tests share the program's process."""
        self._workspaces = workspaces
        self._tasks = tasks
        self._harness = harness
        self._patience = patience
        self._forgeable = forgeable
        self._turns = asyncio.Semaphore(AT_ONCE)

    async def play(
        self, generate: Generate, problem: Problem, sampling: Sampling, version_of: Callable[[str], Version]
    ) -> Played:
        """One episode. `generate` answers the program by `sampling`; `version_of`: of the weights of a policy id.

        Raises CutOff; Unavailable and the like where the platform failed for longer than the patience, InvalidArgument
        where the folder can't be judged, or nothing was asked of the policy; what `generate` raises because the weights
        are not there; and what `version_of` raises.
        """
        async with self._turns:
            task = await asyncio.to_thread(self._tasks.of, problem)

            async def attempt() -> Ran:
                engine = _Engine(generate)
                seats = {"": Seat(engine, "", sampling)}
                ran = await run(self._workspaces, task, self._harness, seats, forgeable=self._forgeable)
                if engine.fault is not None:
                    raise engine.fault
                if ran.judged is None:
                    raise Unavailable(f"{problem.id}: {ran.fault}")
                return ran

            ran = await patiently(attempt, self._patience, "play")
        if ran.done.exit.end == workspace_pb2.ExecExit.END_WALL_LIMIT:
            raise CutOff(
                f"{problem.id}: its {task.agent_timeout.total_seconds():g} s were over before the program ended"
            )
        trajectories = trajectories_of(ran.session, version_of)
        if not trajectories:
            raise InvalidArgument(
                f"{problem.id}: the program got no answer of the policy, and ended at {ran.done.ending}"
            )
        if len(trajectories) > MOST_TRAJECTORIES:
            raise InvalidArgument(
                f"{problem.id}: the program rewrote what was said into {len(trajectories)} conversations, and "
                f"{MOST_TRAJECTORIES} at most are learned from"
            )
        return Played(_episode(problem, ran), trajectories, partial(_kept, task, ran))


def trajectories_of(session: Session, version_of: Callable[[str], Version]) -> list[Trajectory]:
    """Its paths on which there is something to learn. Raises what `version_of` raises for an answer of weights that are
    not the run's."""
    versions = [version_of(call.policy_id) for call in session.calls]
    found, seen = [], set[int]()
    for path in session.paths():
        start = len(session.calls[path.calls[0]].prompt_ids)
        new = [session.calls[index] for index in path.calls if index not in seen]
        learned = {call.index: len(call.ids) - 1 - start for call in new if call.question.is_open and call.token_ids}
        seen.update(path.calls)
        if learned:
            mask = [int(call in learned) for call in path.sampled[start:]]
            ends = list(learned.values())
            spans = merged(Span(versions[index], len(session.calls[index].token_ids)) for index in learned)
            tokens, log_probs = path.ids[start:], path.log_probs[start:]
            found.append(Trajectory(path.ids[:start], tokens, log_probs, mask, ends, spans, list(learned)))
    return found


def _episode(problem: Problem, ran: Ran) -> Episode:
    judged = ran.judged
    assert judged is not None
    if judged.reward is None:
        raise InvalidArgument(f"{problem.id}: {judged.reason}")
    score = min(1.0, max(0.0, judged.reward))
    detail = f"{judged.reason}; the program ended at {ran.done.ending}"
    grade = Grade("PASSED" if judged.passed else "FAILED", int(judged.passed), 1, detail, judged.forgeable, score=score)
    return Episode(Task.of(problem)).end(record.as_text(ran.session), Outcome(grade))


def _kept(task: TaskFolder, ran: Ran) -> bytes:
    """Empty where it can't be made: the run goes on without it."""
    try:
        return records.pack(records.to_json(records.record_of(task, ran)))
    except Exception as error:  # whatever it is: a sample is worth more than its record
        log.exception("episode.record_lost", task=task.name, reason=str(error))
        return b""


class _Engine:
    """Answers an episode's door. An answer comes whole, so that it can be asked for again when the engine was lost."""

    def __init__(self, generate: Generate) -> None:
        self._generate = generate
        self.fault: RatchetError | None = None

    async def stream(
        self, name: str, policy_id: str, prompt: ChatPrompt, sampling: Sampling, priority: Priority = Priority.NORMAL
    ) -> AsyncGenerator[Delta]:
        try:
            made = await self._generate(prompt, sampling)
        except _ENDS_THE_RUN as error:
            self.fault = error
            raise
        for place, completion in enumerate(made.completions):
            first: Sequence[int] = () if place else made.prompt_ids
            yield Delta(completion, made.policy_id, 0 if place else made.prompt_tokens, None, first)
