"""Which steps of a run are validated, which are saved, and which is the last. Pure."""

from dataclasses import dataclass

from trainer_service.domain.spec.spec import RunSpec


@dataclass(slots=True)  # mutable: what a step trains on is known only in that step
class Schedule:
    """Counts in steps."""

    steps: int
    """Fewer, once the tokens or the budget are spent."""
    validate_every: int | None
    """None: at the end only."""
    checkpoint_every: int | None
    """None: with each validation."""
    max_tokens: int | None = None
    """None: no end by them."""
    tokens: int = 0
    """Of prompts and responses, trained on so far."""
    budget: float | None = None
    """None: no end by it."""
    cost: float = 0.0
    """The cost of the run so far."""
    leaves_at: int | None = None
    """The step after which the job ends, though the run goes on."""
    leaves_for: Exception | None = None
    """The cause, as it is raised then."""

    @classmethod
    def of(cls, spec: RunSpec, tokens: int = 0, cost: float = 0.0) -> "Schedule":
        every = spec.validate_every, spec.checkpoint_every
        return cls(spec.steps, *every, spec.max_tokens, tokens, spec.budget, cost)

    @property
    def is_spent(self) -> bool:
        tokens_are = self.max_tokens is not None and self.tokens >= self.max_tokens
        return tokens_are or (self.budget is not None and self.cost >= self.budget)

    def spend(self, step: int, tokens: int) -> bool:
        """True if this step, which trains on these tokens, is the last one: no tokens, or no budget, are left."""
        self.tokens += tokens
        if self.is_spent:
            self.steps = min(self.steps, step)
        return self.is_spent

    def is_validated(self, step: int) -> bool:
        """The last step always is."""
        return step >= self.steps or _is_due(step, self.validate_every)

    def leave(self, step: int, cause: Exception) -> None:
        """The job ends after this step, which is under way, unless that is the last one anyhow."""
        if step < self.steps:
            self.leaves_at, self.leaves_for = step, cause

    def is_saved(self, step: int) -> bool:
        """A validated step always is: its model may be the best."""
        return self.is_validated(step) or _is_due(step, self.checkpoint_every) or step == self.leaves_at

    def ahead(self, step: int, steps: int) -> int:
        """The last step whose samples may be made before `step` is saved or over: `steps` later at most, and none after
        a step that is saved."""
        return next((one for one in range(step, step + steps) if self.is_saved(one)), step + steps)


def _is_due(step: int, every: int | None) -> bool:
    return every is not None and step % every == 0
