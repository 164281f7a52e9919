"""Which steps of a run are validated, and which are saved. Pure."""

from dataclasses import dataclass

from trainer_service.domain.spec import RunSpec


@dataclass(frozen=True, slots=True)
class Schedule:
    """Counts in steps."""

    steps: int
    validate_every: int | None
    """None: at the end only."""
    checkpoint_every: int | None
    """None: with each validation."""

    @classmethod
    def of(cls, spec: RunSpec) -> "Schedule":
        return cls(spec.steps, spec.validate_every, spec.checkpoint_every)

    def is_validated(self, step: int) -> bool:
        """The last step always is."""
        return step >= self.steps or _is_due(step, self.validate_every)

    def is_saved(self, step: int) -> bool:
        """A validated step always is: its model may be the best."""
        return self.is_validated(step) or _is_due(step, self.checkpoint_every)


def _is_due(step: int, every: int | None) -> bool:
    return every is not None and step % every == 0
