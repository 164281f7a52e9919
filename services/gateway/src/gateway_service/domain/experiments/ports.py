"""Where experiments are stored."""

from collections.abc import Sequence
from typing import Protocol

from gateway_service.domain.experiments.experiment import Experiment
from gateway_service.domain.experiments.replay import ReplayPrompt
from ratchet_kit.idempotency import Request


class ExperimentStore(Protocol):
    """Stored experiments. Every method raises Unavailable when the store cannot be reached."""

    async def create(
        self, experiment: Experiment, request: Request, prompts: Sequence[ReplayPrompt] = ()
    ) -> Experiment:
        """Stores it with the prompts that it replays, and returns what was stored first under the request.

        Raises AlreadyExists when the request's id was used for another experiment.
        """
        ...

    async def find(self, request: Request) -> Experiment | None:
        """The experiment that the request made. Raises AlreadyExists as `create`."""
        ...

    async def prompts(self, experiment_id: str, start: int, limit: int) -> Sequence[ReplayPrompt]:
        """The prompts that it was created with, in order, from number `start` on. Empty once it has ended."""
        ...

    async def get(self, experiment_id: str) -> Experiment:
        """Raises NotFound."""
        ...

    async def active(self) -> Sequence[Experiment]:
        """Experiments that were started and have not ended, of all models, in the order of their starts."""
        ...

    async def page(self, model: str, limit: int, after: str | None, name: str = "") -> Sequence[Experiment]:
        """Up to `limit` experiments older than the one of id `after`, newest first; of all models when `model` is
        empty. `name`: those whose names contain it, in any case."""
        ...

    async def start(self, experiment: Experiment) -> Experiment:
        """As `save`, of one that was started. Between its look at what is under way and its end, nothing else of the
        model starts. Raises what `UnderWay.check_experiment` raises, too."""
        ...

    async def save(self, experiment: Experiment) -> Experiment:
        """Stores it and returns it with its new revision; of one that has ended the prompts are dropped. In the same
        transaction, webhooks are told of its end.

        Raises Aborted unless the stored revision is its own.
        """
        ...

    async def delete(self, experiment: Experiment) -> None:
        """Removes it with its prompts. Raises Aborted unless the stored revision is its own."""
        ...
