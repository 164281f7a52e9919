"""Where the request log is stored, and who grades completions."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol

from gateway_service.domain.keys.costs import Charge
from gateway_service.domain.statistics.moments import Moments, Products
from gateway_service.domain.statistics.strata import Strata
from gateway_service.domain.traffic.exchange import Accepted, Choice, Exchange, Selection
from gateway_service.domain.traffic.measure import Quantity
from gateway_service.domain.traffic.metrics import NO_METRICS, Metrics
from gateway_service.domain.traffic.record import Arm, CompletionRecord, ProblemRef, Unit
from gateway_service.domain.traffic.sample import ArmSample, ArmTraffic, Attempt, Period, UnitCount, UnitLatency
from ratchet_kit.idempotency import Request
from ratchet_kit.names import VersionRef

NO_SCORE = 0.0
"""What is stored of feedback that has no score: material, and metrics alone."""


class CompletionLog(Protocol):
    """The stored request log. Every method raises Unavailable when it cannot be reached."""

    async def append(self, records: Sequence[CompletionRecord]) -> None:
        """All or none, and their material with them, but for the texts of who was forgotten since. One that is there
        stays as it is: an append whose answer was lost may be repeated.

        Raises InvalidArgument when one of them cannot be held.
        """
        ...

    async def answers(self, since: datetime) -> Sequence[Charge]:
        """Answers by key and version, since the begin of that day (UTC), each at the prices of its time. They outlast
        the records."""
        ...

    async def get(self, completion_id: str) -> CompletionRecord:
        """Raises NotFound."""
        ...

    async def recorded(self, completion_ids: Sequence[str]) -> frozenset[str]:
        """Those of them that have a record."""
        ...

    async def set_score(
        self,
        completion_id: str,
        score: float,
        problem: ProblemRef | None,
        request: Request,
        metrics: Metrics = NO_METRICS,
    ) -> float:
        """Stores a score, also with the exchange, and drops the record's texts; the last score stands. Adds the metrics
        as `add_metrics`, all or nothing. Returns what the request stored first.

        Raises NotFound, FailedPrecondition and AlreadyExists as `add_metrics`.
        """
        ...

    async def add_metrics(self, completion_id: str, metrics: Metrics, request: Request) -> None:
        """Adds metrics to a record; a value replaces an earlier one of its name. Nothing where the request was stored
        before.

        Raises NotFound, FailedPrecondition where the record would have too many, AlreadyExists when the request's id
        was used for other feedback.
        """
        ...

    async def find_score(self, request: Request) -> float | None:
        """The score that the request stored, 0 for feedback without one. Raises AlreadyExists when its id was used for
        other feedback."""
        ...

    async def release_sample(self, release_id: str, arm: Arm, stage: int) -> ArmSample:
        """An arm of a release in a stage: by sums that are kept as records and scores come, so that its cost does not
        grow with the requests."""
        ...

    async def release_scores(self, release_id: str) -> Strata:
        """The scores of a release in each stage and arm, by the same sums."""
        ...

    async def version_sample(self, ref: VersionRef, period: Period) -> ArmSample:
        """All traffic of a version in the period that no experiment had, and no fallback."""
        ...

    async def version_attempts(self, ref: VersionRef, periods: Sequence[Period]) -> Sequence[Attempt]:
        """All attempts of a version in the periods, one or more, that no experiment had, and no fallback."""
        ...

    async def version_requests(self, ref: VersionRef, period: Period) -> int:
        """How many attempts of whatever kind a version has in the period: by the index alone."""
        ...

    async def version_arms(self, ref: VersionRef, period: Period) -> Sequence[ArmTraffic]:
        """All traffic of a version in the period, but what was replayed, by arm; arms without requests are left out."""
        ...

    async def latest_latencies(self, ref: VersionRef) -> Sequence[UnitLatency]:
        """Of the latest MAX_SAMPLE_LATENCIES answers of a version, as `version_sample` has them."""
        ...

    async def experiment_units(self, experiment_id: str, until: datetime | None = None) -> Mapping[str, UnitCount]:
        """How many units and requests each variant of an experiment has had; absent where none. Here and below, with
        `until`: of the requests that had come by then."""
        ...

    async def experiment_reached(
        self, experiment_id: str, quantity: Quantity | None, units: int
    ) -> Mapping[str, datetime]:
        """When so many units of each variant had come, counting those with a value of the quantity, where one is given;
        absent before."""
        ...

    async def experiment_moments(
        self, experiment_id: str, quantity: Quantity, past: Period, until: datetime | None = None
    ) -> Mapping[str, Moments]:
        """The sums of a quantity over the units of each variant that have one; with the units' means in `past`, before
        the experiment, in requests that no experiment had."""
        ...

    async def experiment_products(
        self, experiment_id: str, quantity: Quantity, first: str, until: datetime | None = None
    ) -> Mapping[str, Products]:
        """Of each other variant and the `first` one, over the units that have a value in both."""
        ...

    async def experiment_latencies(
        self, experiment_id: str, variant: str, until: datetime | None = None
    ) -> Sequence[UnitLatency]:
        """10,000 answers of a variant, drawn at random from all of them: so variants with unequal shares are looked at
        over the same time."""
        ...

    async def recent_moments(self, model: str, quantity: Quantity, unit: Unit, period: Period) -> Moments:
        """The sums of a quantity over the units of a model's requests in the period. Only users and requests are known
        outside of experiments: nothing of other units."""
        ...

    async def busy_models(self, since: datetime) -> Sequence[str]:
        """Models of the latest 10,000 requests since then, each once. What was replayed is no request."""
        ...

    async def scored(self, model: str, since: datetime | None) -> int:
        """How many answers of all versions of a model have a score: those to requests that came since then.
        What was replayed is no request."""
        ...

    async def forget_texts(self, before: datetime) -> int:
        """Drops the texts of all records older than that; how many had some."""
        ...

    async def forget_records(self, before: datetime) -> int:
        """Drops all records older than that, but for those of experiments under way; how many there were."""
        ...


class ExchangeStore(Protocol):
    """What is kept of production. `CompletionLog.append` adds to it with the records, and `set_score` the scores. Every
    method raises Unavailable when it cannot be reached."""

    async def get(self, completion_id: str) -> Exchange:
        """Raises NotFound."""
        ...

    async def some(self, completion_ids: Sequence[str]) -> Sequence[Exchange]:
        """Those of them that are kept, in any order."""
        ...

    async def beside(self, exchange: Exchange, limit: int) -> Sequence[Exchange]:
        """Up to `limit` before it and `limit` after it of its session; where it has none, of its key and user without
        one. In any order."""
        ...

    async def page(self, selection: Selection, limit: int, after: str | None) -> Sequence[Exchange]:
        """Up to `limit` that are older than the exchange `after`, newest first."""
        ...

    async def accept(
        self, completion_id: str, accepted: Accepted, request: Request, metrics: Metrics = NO_METRICS
    ) -> None:
        """In place of an earlier one; nothing where the request was stored before. Adds the metrics to the record,
        where there is one still, as `CompletionLog.add_metrics`, all or nothing.

        Raises NotFound, FailedPrecondition and AlreadyExists as that one.
        """
        ...

    async def choose(self, completion_id: str, choice: Choice, request: Request, metrics: Metrics = NO_METRICS) -> None:
        """Adds a choice that is not there yet. As `accept`."""
        ...

    async def forget(self, unit: Unit, name: str, before: datetime) -> int:
        """Removes the exchanges of a user, a session or a key that began by then, and the texts of such records. None
        is stored later, whoever appends it. How many there were."""
        ...

    async def remove(self, before: datetime) -> int:
        """Removes exchanges that began before. How many there were."""
        ...

    async def unconfirmed(self) -> Mapping[str, datetime]:
        """Some of those who were forgotten, by `unit_id`, and until when, of whom data sets may hold something."""
        ...

    async def confirm(self, units: Mapping[str, datetime]) -> None:
        """Notes that data sets hold nothing of them up to that time. Whoever was forgotten anew
        meanwhile stays unconfirmed."""
        ...


class DataSets(Protocol):
    """The data sets that are made of what is kept."""

    async def forget(self, units: Mapping[str, datetime]) -> None:
        """Removes everything that these units sent until then, now and from later ones. Raises Unavailable."""
        ...


class Grader(Protocol):
    """Grades completions by the tests of a problem."""

    async def grade(self, problem: ProblemRef, texts: Sequence[str]) -> Sequence[float]:
        """A score in [0, 1] per text.

        Raises NotFound for an unknown problem, Unavailable when the sandbox cannot be reached or fails.
        """
        ...
