"""Operations of users on experiments: plan, create, get, list, start, pause, stop, conclude, delete."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from gateway_service.domain.experiments.analysis import Evidence, analyse, counted, with_later
from gateway_service.domain.experiments.experiment import Analysis, Experiment, ExperimentSpec, State
from gateway_service.domain.experiments.known_experiments import KnownExperiments
from gateway_service.domain.experiments.plan import Plan, PlanRequest, plan
from gateway_service.domain.experiments.ports import ExperimentStore
from gateway_service.domain.experiments.replay import Replay, ReplayPrompt, check_prompts
from gateway_service.domain.experiments.report import Report
from gateway_service.domain.ports import ModelRegistry
from gateway_service.domain.statistics.moments import MIN_UNITS, Mean, mean
from gateway_service.domain.statistics.quantiles import quantile
from gateway_service.domain.traffic.exchange import Selection
from gateway_service.domain.traffic.measure import Measure
from gateway_service.domain.traffic.ports import CompletionLog, ExchangeStore
from gateway_service.domain.traffic.recorder import Recorder
from gateway_service.domain.traffic.sample import LATENCY_QUANTILE, Period
from ratchet_kit.errors import Aborted, FailedPrecondition, NotFound
from ratchet_kit.faults import Faults, check_reason
from ratchet_kit.idempotency import Request, once
from ratchet_kit.ids import new_id
from ratchet_kit.logs import get_logger
from ratchet_kit.pages import Page, fetch_page
from ratchet_kit.projects import is_seen
from ratchet_kit.times import Clock
from ratchet_kit.work import every, surviving

log = get_logger(__name__)

PAST = timedelta(days=14)
"""Before an experiment's start: what its units did then is taken out of what they do in it (CUPED)."""
LEARNED = timedelta(days=7)
"""The traffic that a plan learns from."""
HORIZONS_EVERY = timedelta(minutes=1)
MAX_POINTS = 100
KEPT_AT_ONCE = 100
"""Exchanges that are read at once."""
KEPT_POINTS = 24
"""Earlier reports that a concluded experiment keeps: its records are dropped some day."""


@dataclass(frozen=True, slots=True)
class Needs:
    """Parts of the gateway that experiments need."""

    store: ExperimentStore
    traffic: CompletionLog
    recorder: Recorder
    registry: ModelRegistry
    known: KnownExperiments
    exchanges: ExchangeStore


class Experiments:
    """The use cases around experiments."""

    def __init__(self, needs: Needs, clock: Clock) -> None:
        self._store = needs.store
        self._traffic = needs.traffic
        self._recorder = needs.recorder
        self._registry = needs.registry
        self._known = needs.known
        self._exchanges = needs.exchanges
        self._clock = clock

    async def plan(self, request: PlanRequest) -> Plan:
        """Raises InvalidArgument that names all fields at fault, FailedPrecondition when what is not given cannot be
        learned from the model's traffic."""
        request.check()
        deviation, daily = request.deviation, request.units_per_day
        if deviation is None or daily is None:
            now = self._clock.now()
            period = Period(now - LEARNED, now)
            found = await self._traffic.recent_moments(request.model, request.quantity, request.unit, period)
            if found.units < MIN_UNITS:
                raise FailedPrecondition(
                    f"{found.units} {request.unit}s of model {request.model} have a value of "
                    f"{request.name or request.measure} in the last {LEARNED.days} days: give "
                    "deviation and units_per_day to plan with"
                )
            seen = mean(found, bounded=request.measure.is_bounded)
            deviation = deviation or (seen.variance * seen.units) ** 0.5
            daily = daily or found.units / LEARNED.days
        return plan(request, deviation, daily)

    async def create(
        self, request_id: str, spec: ExperimentSpec, actor: str = "", prompts: Sequence[ReplayPrompt] = ()
    ) -> Experiment:
        """Idempotent under `request_id`. `actor`: the API key that asks for it. `prompts`: those of a replay, where it
        does not take kept traffic.

        Raises InvalidArgument that names all fields at fault, NotFound for an unknown version, FailedPrecondition where
        no traffic is kept to replay, AlreadyExists when the request id was used for another spec.
        """
        spec.check()
        check_prompts(spec.replay, prompts)
        request = Request.of(request_id, spec, *([prompts] if prompts else []))

        async def create() -> Experiment:
            for variant in spec.variants:
                await self._registry.version(variant.version)
            taken = prompts
            if spec.replay is not None and spec.replay.latest:
                taken = await self._kept(spec.model, spec.replay)
            _check_material(spec, taken)
            made = Experiment(new_id("exp"), spec, self._clock.now(), actor=actor, prompts=len(taken))
            return await self._store.create(made, request, taken)

        return await self._shown(await once(lambda: self._store.find(request), create))

    async def get(self, experiment_id: str, points: int = 0) -> Experiment:
        """With its report as it is now, once it was started; and for `points` above 0 with that many earlier ones, or
        those that were kept when it was concluded. Raises NotFound, InvalidArgument."""
        faults = Faults()
        faults.bounds("points", points, at_least=0, at_most=MAX_POINTS)
        faults.raise_if_any()
        shown = await self._shown(await self._store.get(experiment_id))
        if not points:
            return replace(shown, past=())
        return replace(shown, past=await self._past(shown, points)) if shown.active else shown

    async def page(self, model: str, page_size: int, page_token: str, name: str = "") -> Page[Experiment]:
        """Newest first, with the reports of concluded ones only; `name`: those whose names contain it. Raises
        InvalidArgument for a page token that no list returned."""

        async def fetch(limit: int, after: str | None) -> Sequence[Experiment]:
            return [replace(one, past=()) for one in await self._store.page(model, limit, after, name)]

        return await fetch_page(fetch, lambda experiment: experiment.id, str, page_size, page_token)

    async def start(self, experiment_id: str, actor: str = "") -> Experiment:
        """Also goes on after a pause. Raises NotFound, FailedPrecondition when it has ended, when a version of it was
        deleted, when the model has a release under way, or when an older experiment takes all of its traffic; Aborted
        when it was changed at the same moment."""
        experiment = await self._store.get(experiment_id)
        started = experiment.start(self._clock.now(), actor)
        if started is not experiment:
            for variant in experiment.spec.variants if experiment.state is State.DRAFT else ():
                try:
                    await self._registry.version(variant.version)
                except NotFound as error:
                    raise FailedPrecondition(f"variant {variant.name}: {error.message}") from error
            started = await self._store.start(started)
            await self._known.refresh()
        return await self._shown(started)

    async def pause(self, experiment_id: str, reason: str, actor: str = "") -> Experiment:
        """Raises InvalidArgument, NotFound, FailedPrecondition unless it was started, Aborted as `start`."""
        check_reason(reason)
        experiment = await self._store.get(experiment_id)
        return await self._save(experiment, experiment.pause(self._clock.now(), reason, actor))

    async def stop(self, experiment_id: str, reason: str, actor: str = "") -> Experiment:
        """Raises InvalidArgument, NotFound, FailedPrecondition when it was concluded, Aborted as `start`."""
        check_reason(reason)
        experiment = await self._store.get(experiment_id)
        return await self._save(experiment, experiment.stop(self._clock.now(), reason, actor))

    async def conclude(self, experiment_id: str, reason: str, early: bool = False, actor: str = "") -> Experiment:
        """Raises InvalidArgument, NotFound, FailedPrecondition unless it was started, and before its minimum of time
        and units unless `early`; Aborted as `start`."""
        check_reason(reason)
        experiment = await self._store.get(experiment_id)
        await self._recorder.flush()
        shown = await self._shown(experiment)
        if shown.report is None:
            raise FailedPrecondition(f"experiment {experiment.id} was not started")
        ended = shown.conclude(self._clock.now(), shown.report, reason, early, actor)
        if ended is not shown:
            ended = replace(ended, past=await self._past(shown, KEPT_POINTS))
        return replace(await self._save(shown, ended), past=())

    async def delete(self, experiment_id: str) -> None:
        """Raises NotFound, FailedPrecondition while it is under way, Aborted as `start`."""
        experiment = await self._store.get(experiment_id)
        if experiment.active:
            raise FailedPrecondition(f"experiment {experiment.id} is under way: stop or conclude it first")
        await self._store.delete(experiment)
        log.info("experiment.deleted", experiment_id=experiment.id, state=str(experiment.state))

    async def _kept(self, model: str, replay: Replay) -> Sequence[ReplayPrompt]:
        """The latest exchanges of the model, newest first. Raises FailedPrecondition if no exchange is kept."""
        await self._recorder.flush()
        found, selection, after = list[ReplayPrompt](), Selection(model=model, key_id=replay.key_id), None
        while len(found) < replay.latest:
            page = await self._exchanges.page(selection, min(KEPT_AT_ONCE, replay.latest - len(found)), after)
            if not page:
                break
            found += [ReplayPrompt(exchange_id=one.id, problem=one.problem) for one in page if is_seen(one.id)]
            after = page[-1].id
        if not found:
            raise FailedPrecondition(f"no traffic of model {model} is kept: set keep_traffic on its API keys")
        return found

    async def _save(self, before: Experiment, after: Experiment) -> Experiment:
        if after is not before:
            after = await self._store.save(after)
            await self._known.refresh()
        return await self._shown(after)

    async def _shown(self, experiment: Experiment) -> Experiment:
        """With its report as it is now, while it is under way."""
        if not experiment.active:
            return experiment
        now = self._clock.now()
        if experiment.spec.analysis is Analysis.FIXED:
            experiment = await self._at_horizon(experiment, now)
        if experiment.fixed is not None:
            units = await self._traffic.experiment_units(experiment.id)
            return replace(experiment, report=with_later(experiment.fixed, units, experiment.spec.unit))
        return replace(experiment, report=analyse(experiment, await self._evidence(experiment), now))

    async def _at_horizon(self, experiment: Experiment, now: datetime) -> Experiment:
        """With what it shows from its horizon on, once that is reached: by the requests until then, wherever it is
        looked at, and by the scores that are known when it is first seen. That is stored: another look, when more
        scores have come, would be a second one."""
        spec = experiment.spec
        if experiment.fixed is not None or experiment.start_time is None:
            return experiment
        times = await self._traffic.experiment_reached(experiment.id, counted(spec), spec.min_units)
        horizon = max((*times.values(), experiment.start_time + spec.min_duration))
        if now < horizon or any(variant.name not in times for variant in spec.variants):
            return experiment
        report = analyse(experiment, await self._evidence(experiment, horizon), now)
        try:
            return await self._store.save(replace(experiment, fixed=replace(report, horizon_time=horizon)))
        except Aborted:
            current = await self._store.get(experiment.id)
            return current if current.fixed is not None else await self._at_horizon(current, now)

    async def run(self, stop: asyncio.Event) -> None:
        """Fixed horizons are seen soon after they are reached, whoever looks or does not."""
        await every(HORIZONS_EVERY, stop, self.look_for_horizons, name="look for horizons")

    async def look_for_horizons(self) -> None:
        for experiment in await self._store.active():
            if experiment.spec.analysis is Analysis.FIXED:
                with surviving("look for horizons", experiment_id=experiment.id):
                    await self._at_horizon(experiment, self._clock.now())

    async def _past(self, experiment: Experiment, points: int) -> tuple[Report, ...]:
        """Reports as of moments spread evenly from its start to now, by the scores that are known now."""
        assert experiment.start_time is not None, "an experiment that was started has a start"
        apart = (self._clock.now() - experiment.start_time) / (points + 1)
        moments = [experiment.start_time + number * apart for number in range(1, points + 1)]
        return tuple([await self._report_at(experiment, moment) for moment in moments])

    async def _report_at(self, experiment: Experiment, moment: datetime) -> Report:
        fixed = experiment.fixed
        if fixed is not None and fixed.horizon_time is not None and fixed.horizon_time <= moment:
            return replace(fixed, create_time=moment)
        return analyse(experiment, await self._evidence(experiment, moment), moment)

    async def _evidence(self, experiment: Experiment, until: datetime | None = None) -> Evidence:
        assert experiment.start_time is not None, "an experiment that was started has a start"
        past = Period(experiment.start_time - PAST, experiment.start_time)
        spec = experiment.spec
        compared = dict.fromkeys((*spec.metrics, *spec.unanswered))
        means = [metric for metric in compared if metric.measure is not Measure.LATENCY_P95]
        first = spec.variants[0].name
        return Evidence(
            counts=await self._traffic.experiment_units(experiment.id, until),
            moments={
                metric: await self._traffic.experiment_moments(experiment.id, spec.quantity(metric), past, until)
                for metric in means
            },
            quantiles={
                metric: await self._latency_quantiles(experiment, until)
                for metric in spec.metrics
                if metric.measure is Measure.LATENCY_P95
            },
            shared={
                metric: await self._traffic.experiment_products(experiment.id, spec.quantity(metric), first, until)
                for metric in means
                if spec.replay is not None
            },
        )

    async def _latency_quantiles(self, experiment: Experiment, until: datetime | None) -> dict[str, Mean]:
        found = {}
        for variant in experiment.spec.variants:
            rows = await self._traffic.experiment_latencies(experiment.id, variant.name, until)
            if rows:
                found[variant.name] = quantile(
                    [row.latency for row in rows], [row.unit for row in rows], LATENCY_QUANTILE
                )
        return found


def _check_material(spec: ExperimentSpec, prompts: Sequence[ReplayPrompt]) -> None:
    """Raises InvalidArgument where the prompts of a replay cannot show what it is to show."""
    if spec.replay is None:
        return
    faults = Faults()
    rule = f"must be at most {len(prompts)}, the number of prompts"
    faults.unless(spec.min_units <= len(prompts), "spec.min_units", rule)
    scored = any(prompt.problem for prompt in prompts)
    by_tests = spec.primary.measure in (Measure.QUALITY, Measure.TESTS)
    rule = "must be another, or prompts must have problems: their tests score the answers"
    faults.unless(scored or not by_tests, "spec.primary.measure", rule)
    faults.raise_if_any()
