"""Grading on sandbox-service, by the grader that training uses too."""

from eval_service.domain.ports import Grade
from ratchet_problems.problem import Problem
from ratchet_rewards import Grader


class SandboxGrading:
    """`grader` stays the caller's to open and close."""

    def __init__(self, grader: Grader) -> None:
        self._grader = grader

    async def grade(self, problem: Problem, completion: str) -> Grade:
        graded = await self._grader.grade(problem, completion)
        execution = graded.execution
        return Grade(graded.reward.verdict, execution.tests_passed, execution.tests_total, execution.detail)
