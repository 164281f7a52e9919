"""The store of experiments in memory, and the request log summed up by their units, for tests."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import combinations

from gateway_service.domain.experiments.experiment import Experiment, State
from gateway_service.domain.experiments.replay import ReplayPrompt
from gateway_service.domain.releases.ports import ReleaseStore
from gateway_service.domain.releases.under_way import UnderWay
from gateway_service.domain.statistics.moments import Moments, Products
from gateway_service.domain.statistics.strata import Cell, Strata
from gateway_service.domain.traffic.measure import MILLION, Measure, Quantity
from gateway_service.domain.traffic.record import Arm, CompletionRecord, Unit
from gateway_service.domain.traffic.sample import (
    MAX_SAMPLE_LATENCIES,
    ArmSample,
    ArmTraffic,
    Period,
    UnitCount,
    UnitLatency,
    quantile,
)
from gateway_service.domain.webhooks.event import event_of_experiment
from ratchet_kit.errors import Aborted, NotFound
from ratchet_kit.idempotency import Made, Request
from ratchet_kit.ids import TIME_LETTERS

from .memory_webhooks import MemoryWebhookStore

MAX_LATENCIES = 10_000
_VALUES: Mapping[Measure, Callable[[CompletionRecord], float | None]] = {
    Measure.QUALITY: lambda record: record.score,
    Measure.FEEDBACK: lambda record: None if record.problem else record.score,
    Measure.TESTS: lambda record: record.score if record.problem else None,
    Measure.ERROR_RATE: lambda record: None if record.left else float(bool(record.error)),
    Measure.LEFT: lambda record: float(record.left),
    Measure.LATENCY: lambda record: None if record.error or record.left else record.latency.total_seconds(),
    Measure.LATENCY_P95: lambda record: None if record.error or record.left else record.latency.total_seconds(),
    Measure.TOKENS: lambda record: None if record.error or record.left else float(record.completion_tokens),
}


class MemoryExperimentStore:
    def __init__(self, webhooks: MemoryWebhookStore | None = None) -> None:
        """`webhooks`: they are told of what ends."""
        self._webhooks = webhooks or MemoryWebhookStore()
        self._experiments: dict[str, Experiment] = {}
        self._made: Made[str] = Made("experiment")
        self._prompts: dict[str, Sequence[ReplayPrompt]] = {}
        self.releases: ReleaseStore | None = None
        """What starts, starts beside none of these."""

    async def under_way(self, model: str) -> UnderWay:
        release = await self.releases.active(model) if self.releases else None
        return UnderWay(release, [one for one in await self.active() if one.model == model])

    async def create(
        self, experiment: Experiment, request: Request, prompts: Sequence[ReplayPrompt] = ()
    ) -> Experiment:
        existing = await self.find(request)
        if existing is not None:
            return existing
        self._experiments[experiment.id] = experiment
        self._prompts[experiment.id] = prompts
        self._made.add(request, experiment.id)
        return experiment

    async def find(self, request: Request) -> Experiment | None:
        experiment_id = self._made.find(request)
        return None if experiment_id is None else self._experiments[experiment_id]

    async def prompts(self, experiment_id: str, start: int, limit: int) -> Sequence[ReplayPrompt]:
        return self._prompts.get(experiment_id, ())[start : start + limit]

    async def get(self, experiment_id: str) -> Experiment:
        if experiment_id not in self._experiments:
            raise NotFound(f"experiment {experiment_id} does not exist")
        return self._experiments[experiment_id]

    async def active(self) -> Sequence[Experiment]:
        started = [(one.start_time, one.id) for one in self._experiments.values() if one.active and one.start_time]
        return [self._experiments[id] for _, id in sorted(started)]

    async def page(self, model: str, limit: int, after: str | None, name: str = "") -> Sequence[Experiment]:
        newest_first = sorted(self._experiments.values(), key=lambda one: one.id, reverse=True)
        found = [one for one in newest_first if not model or one.model == model]
        found = [one for one in found if name.lower() in one.spec.display_name.lower()]
        return [one for one in found if after is None or one.id < after][:limit]

    async def start(self, experiment: Experiment) -> Experiment:
        (await self.under_way(experiment.model)).check_experiment(experiment)
        return await self.save(experiment)

    async def save(self, experiment: Experiment) -> Experiment:
        self._check(experiment)
        saved = replace(experiment, revision=experiment.revision + 1)
        self._experiments[experiment.id] = saved
        if saved.state in (State.CONCLUDED, State.STOPPED):
            self._prompts.pop(experiment.id, None)
        if event := event_of_experiment(saved):
            self._webhooks.announce_now([event], event.create_time)
        return saved

    async def delete(self, experiment: Experiment) -> None:
        self._check(experiment)
        del self._experiments[experiment.id]
        self._prompts.pop(experiment.id, None)
        self._made.remove({experiment.id})

    def _check(self, experiment: Experiment) -> None:
        stored = self._experiments.get(experiment.id)
        if stored is None or stored.revision != experiment.revision:
            raise Aborted(f"experiment {experiment.id} was changed by someone else at the same time")


Records = Iterable[CompletionRecord]


def counts(records: Records, experiment_id: str) -> Mapping[str, UnitCount]:
    units: dict[str, list[str]] = {}
    for record in records:
        if record.experiment_id == experiment_id:
            units.setdefault(record.variant, []).append(record.unit)
    return {variant: UnitCount(len(set(of_variant)), len(of_variant)) for variant, of_variant in units.items()}


def reached(records: Records, experiment_id: str, quantity: Quantity | None, units: int) -> Mapping[str, datetime]:
    first: dict[str, dict[str, datetime]] = {}
    for record in records:
        if record.experiment_id == experiment_id and (quantity is None or _value(record, quantity) is not None):
            of_variant = first.setdefault(record.variant, {})
            of_variant[record.unit] = min(record.start_time, of_variant.get(record.unit, record.start_time))
    return {variant: sorted(times.values())[units - 1] for variant, times in first.items() if len(times) >= units}


def moments(
    records: Sequence[CompletionRecord], experiment_id: str, quantity: Quantity, past: Period
) -> Mapping[str, Moments]:
    own = [record for record in records if record.experiment_id == experiment_id]
    models = {record.version.model for record in own}
    before = _by_unit(
        [one for one in outside(records, past) if one.version.model in models and one.unit],
        quantity,
        lambda one: one.unit,
    )
    found = {}
    for variant in {record.variant for record in own}:
        of_variant = _by_unit([one for one in own if one.variant == variant], quantity, lambda one: one.unit)
        if of_variant:
            means = [sum(before[unit]) / len(before[unit]) if unit in before else float("nan") for unit in of_variant]
            found[variant] = _moments(of_variant, means)
    return found


def products(records: Records, experiment_id: str, quantity: Quantity, first: str) -> Mapping[str, Products]:
    own = [record for record in records if record.experiment_id == experiment_id]
    by_variant = {
        variant: _by_unit([one for one in own if one.variant == variant], quantity, lambda one: one.unit)
        for variant in {record.variant for record in own}
    }
    of_first = by_variant.pop(first, {})
    found = {}
    for variant, of_variant in by_variant.items():
        products = _shared(of_variant, of_first)
        if products.units:
            found[variant] = products
    return found


def latencies(records: Records, experiment_id: str, variant: str) -> Sequence[UnitLatency]:
    own = [one for one in records if (one.experiment_id, one.variant, one.error) == (experiment_id, variant, "")]
    own = [one for one in own if not one.left]
    drawn = sorted(own, key=lambda record: (record.id[len("cmpl_") + TIME_LETTERS :], record.id))[:MAX_LATENCIES]
    return [UnitLatency(record.unit, record.latency.total_seconds()) for record in drawn]


def recent(records: Records, model: str, quantity: Quantity, unit: Unit, period: Period) -> Moments:
    own = [record for record in outside(records, period) if record.version.model == model]
    if unit is Unit.USER:
        return _moments(_by_unit([record for record in own if record.unit], quantity, lambda record: record.unit))
    if unit is Unit.REQUEST:
        return _moments(_by_unit(own, quantity, lambda record: record.id))
    return Moments()


def sample(records: Sequence[CompletionRecord]) -> ArmSample:
    """The traffic of one version."""
    failures, scores = (
        _moments(_by_unit(records, Quantity(measure), _unit)) for measure in (Measure.ERROR_RATE, Measure.QUALITY)
    )
    left: dict[str, list[float]] = {}
    slow: dict[str, list[float]] = {}
    for record in records:
        left.setdefault(_unit(record), []).append(float(record.left))
        if record.slow is not None:
            slow.setdefault(_unit(record), []).append(float(record.slow))
    answers = sorted((one for one in records if not one.error and not one.left), key=lambda one: one.id, reverse=True)
    latencies = [UnitLatency(_unit(one), one.latency.total_seconds()) for one in answers[:MAX_SAMPLE_LATENCIES]]
    return ArmSample(failures, scores, tuple(latencies), _moments(left), _moments(slow))


def traffic(arm: Arm, records: Sequence[CompletionRecord]) -> ArmTraffic:
    scores = [one.score for one in records if one.score is not None]
    latencies = tuple(sorted(one.latency.total_seconds() for one in records if not one.error and not one.left))
    return ArmTraffic(
        arm,
        len(records),
        sum(bool(one.error) for one in records),
        sum(one.left for one in records),
        sum(one.prompt_tokens for one in records),
        sum(one.completion_tokens for one in records),
        len(scores),
        sum(scores) / max(len(scores), 1),
        quantile(latencies, 0.5),
        quantile(latencies, 0.95),
    )


def scores(records: Records) -> Strata:
    """Of a release's records, by stage and arm."""
    of_cell: dict[Cell, list[CompletionRecord]] = {}
    for record in records:
        if record.score is not None and record.arm in (Arm.BASELINE, Arm.CANDIDATE):
            of_cell.setdefault(Cell(record.stage, record.arm), []).append(record)
    cells = {cell: _by_unit(of_cell[cell], Quantity(Measure.QUALITY), _unit) for cell in of_cell}
    shared = {(one, other): _shared(cells[one], cells[other]) for one, other in combinations(sorted(cells), 2)}
    return Strata(
        {cell: _moments(values) for cell, values in cells.items()},
        {pair: products for pair, products in shared.items() if products.units},
    )


def _shared(one: Mapping[str, Sequence[float]], other: Mapping[str, Sequence[float]]) -> Products:
    both = [(one[unit], other[unit]) for unit in one.keys() & other.keys()]
    return Products(
        len(both),
        sum(float(len(a) * len(b)) for a, b in both),
        sum(len(a) * sum(b) for a, b in both),
        sum(sum(a) * len(b) for a, b in both),
        sum(sum(a) * sum(b) for a, b in both),
    )


def _unit(record: CompletionRecord) -> str:
    return record.unit or record.id


def outside(records: Records, period: Period | None = None) -> list[CompletionRecord]:
    """Of no experiment, and no fallback; in the period, where one is given."""
    return [
        record
        for record in records
        if (period is None or period.start_time <= record.start_time < period.end_time)
        and not record.experiment_id
        and record.arm is not Arm.FALLBACK
    ]


def _value(record: CompletionRecord, quantity: Quantity) -> float | None:
    if quantity.measure is Measure.NAMED:
        return record.metrics.get(quantity.name)
    if quantity.measure is Measure.COST:
        assert quantity.price is not None, "the experiment was checked"
        of_prompt, of_completion = quantity.price.prompt, quantity.price.completion
        cost = record.prompt_tokens * of_prompt + record.completion_tokens * of_completion
        return None if record.error or record.left else cost / MILLION
    return _VALUES[quantity.measure](record)


def _by_unit(records: Records, quantity: Quantity, key: Callable[[CompletionRecord], str]) -> dict[str, list[float]]:
    values: dict[str, list[float]] = {}
    for record in records:
        value = _value(record, quantity)
        if value is not None:
            values.setdefault(key(record), []).append(value)
    return values


def _moments(values: Mapping[str, Sequence[float]], before: Sequence[float] = ()) -> Moments:
    return Moments.of([len(one) for one in values.values()], [sum(one) for one in values.values()], before)
