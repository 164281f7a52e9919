"""Single-turn code: the policy answers with a program, and the problem's tests are the judge."""

from ratchet.common.v1 import verdict_pb2
from ratchet.sandbox.v1 import program_pb2 as pb
from ratchet_environments.episode import Episode, Outcome
from ratchet_environments.executor import Executor
from ratchet_environments.programs import program_for
from ratchet_environments.task import Task
from ratchet_kit.errors import InvalidArgument
from ratchet_rewards import Grade, RewardFunction, get


class CodeEnvironment:
    """An Environment. `executor` stays the caller's to open and close; `reward` is tests_passed unless given."""

    def __init__(self, executor: Executor, reward: RewardFunction | None = None) -> None:
        self._executor = executor
        self._reward = reward or get("tests_passed")

    async def start(self, task: Task) -> Episode:
        return Episode(task)

    async def step(self, episode: Episode, answer: str) -> Episode:
        """The end of the episode. Raises Unavailable when the platform failed again and again, InvalidArgument for a
        problem that the sandbox can't run. An answer that it can't, one that is too long, is graded COMPILE_ERROR."""
        task = episode.task
        try:
            grade = grade_of(await self._executor.execute(program_for(task, answer)))
        except InvalidArgument as error:
            if not error.violations or not all(fault.field.endswith(".source") for fault in error.violations):
                raise
            grade = Grade("COMPILE_ERROR", 0, len(task.problem.tests), error.message)
        return episode.end(answer, Outcome(grade, self._reward(task.problem, answer, grade)))


def grade_of(execution: pb.Execution) -> Grade:
    verdict = verdict_pb2.Verdict.Name(execution.verdict).removeprefix("VERDICT_")
    return Grade(verdict, execution.tests_passed, execution.tests_total, execution.detail)
