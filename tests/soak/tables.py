"""Three versions of a model whose every answer is known: a champion, one that passes a gate and is worse in the
questions of its callers, and one that is better."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import ratchet_benchmarks
from ratchet_kit.names import VersionRef
from tests.e2e import table_model

MODEL = "table"
PROBLEM_SET, PROBLEMS = "composed/test", 20
QUESTIONS = 20
WRONG = "I do not know."


@dataclass(frozen=True, slots=True)
class Table:
    version: VersionRef
    answers: Mapping[str, str]
    problems: Mapping[str, str]
    """The prompts that put the problems, by their ids."""
    questions: Sequence[str]

    @classmethod
    def of(cls, number: int, solved: int, known: int) -> "Table":
        """Solves so many of the problems, and knows the answers to so many of the questions."""
        problems = ratchet_benchmarks.load(PROBLEM_SET, PROBLEMS).problems
        prompts = {one.id: ratchet_benchmarks.put(PROBLEM_SET, one, "chat").messages[-1].content for one in problems}
        rights = {prompts[one.id]: f"```python\n{one.references[0]}\n```" for one in problems[:solved]}
        questions = [f"What is {number} times {number + 1}?" for number in range(QUESTIONS)]
        facts = {text: f"It is {number * (number + 1)}." for number, text in enumerate(questions[:known])}
        answers = dict.fromkeys([*prompts.values(), *questions], WRONG) | rights | facts
        return cls(VersionRef(MODEL, number), answers, prompts, questions)

    def is_right(self, question: str) -> bool:
        return self.answers[question] != WRONG

    def write(self, folder: Path) -> Path:
        return table_model.write(folder / f"{MODEL}-{self.version.number}", self.answers)


CHAMPION, WORSE, BETTER = Table.of(1, 8, 12), Table.of(2, 20, 4), Table.of(3, 20, 17)
