"""Where experiments are stored, and what else moves a model's traffic."""

from collections.abc import Sequence
from typing import Protocol

from gateway_service.domain.experiments.experiment import Experiment
from ratchet_kit.idempotency import Request


class ExperimentStore(Protocol):
    """Stored experiments. Every method raises Unavailable when the store cannot be reached."""

    async def create(self, experiment: Experiment, request: Request) -> Experiment:
        """Stores it, and returns what was stored first under the request.

        Raises AlreadyExists when the request's id was used for another experiment.
        """
        ...

    async def find(self, request: Request) -> Experiment | None:
        """The experiment that the request made. Raises AlreadyExists as `create`."""
        ...

    async def get(self, experiment_id: str) -> Experiment:
        """Raises NotFound."""
        ...

    async def active(self) -> Sequence[Experiment]:
        """Those that were started and have not ended, of all models, in the order of their starts."""
        ...

    async def page(self, model: str, limit: int, after: str | None) -> Sequence[Experiment]:
        """Up to `limit` experiments older than the one of id `after`, newest first; of all models when `model` is
        empty."""
        ...

    async def save(self, experiment: Experiment) -> Experiment:
        """Stores it and returns it with its new revision; in the same transaction, webhooks are told of its end. Raises
        Aborted unless the stored revision is its own."""
        ...


class ReleasesUnderWay(Protocol):
    """The releases, as far as experiments know them."""

    async def active(self, model: str) -> object | None:
        """The release under way of a model, if there is one. Raises Unavailable."""
        ...
