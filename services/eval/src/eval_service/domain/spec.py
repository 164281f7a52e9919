"""What an evaluation measures."""

from dataclasses import dataclass, replace

from ratchet_kit.faults import Faults
from ratchet_kit.names import AnyModel

MAX_SAMPLES_PER_PROBLEM = 1024
MAX_TOKENS = 131_072
MAX_TEMPERATURE = 5.0


@dataclass(frozen=True, slots=True)
class ProblemSetRef:
    name: str
    limit: int | None = None
    """The set's first so many problems; None means all."""
    digest: str = ""
    """"sha256:<hex>" of the problems that are measured; empty until they were loaded."""


@dataclass(frozen=True, slots=True)
class EvaluationSpec:
    """Raises InvalidArgument that names every fault there is, by its path below `spec`."""

    model: AnyModel
    problems: ProblemSetRef
    samples_per_problem: int = 1
    k: tuple[int, ...] = (1,)
    temperature: float = 1.0
    max_tokens: int = 512
    """New ones, of a completion."""
    seed: int = 0

    def __post_init__(self) -> None:
        faults = Faults()
        spec = faults.under("spec")
        spec.required("problems.name", self.problems.name)
        if self.problems.limit is not None:
            spec.bounds("problems.limit", self.problems.limit, at_least=1)
        spec.bounds("samples_per_problem", self.samples_per_problem, at_least=1, at_most=MAX_SAMPLES_PER_PROBLEM)
        spec.bounds("max_tokens", self.max_tokens, at_least=1, at_most=MAX_TOKENS)
        spec.bounds("temperature", self.temperature, at_least=0, at_most=MAX_TEMPERATURE)
        for index, k in enumerate(self.k):
            field = f"k[{index}]"
            if not 1 <= k <= self.samples_per_problem:
                spec.add(field, f"must be from 1 to samples_per_problem, not {k}")
            elif k in self.k[:index]:
                spec.add(field, f"must not repeat {k}")
            elif k > 1 and self.temperature == 0:
                spec.add(field, "must be 1 at temperature 0: greedy samples are all the same")
        faults.raise_if_any("the evaluation cannot be made")

    def with_digest(self, digest: str) -> "EvaluationSpec":
        return replace(self, problems=replace(self.problems, digest=digest))
