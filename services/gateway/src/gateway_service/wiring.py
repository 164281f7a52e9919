"""The rooms of the gateway, wired: a function for each, from the ground up. Opens nothing: main does."""

import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from gateway_service.adapters import redactions
from gateway_service.adapters.thread_runner import Inside, ThreadRunner
from gateway_service.domain.champions import StartLoads
from gateway_service.domain.completions.answer_cache import AnswerCache
from gateway_service.domain.completions.completer import Completer
from gateway_service.domain.completions.router import Router
from gateway_service.domain.experiments.experiments import Experiments, Needs
from gateway_service.domain.experiments.known_experiments import KnownExperiments
from gateway_service.domain.experiments.ports import ExperimentStore
from gateway_service.domain.experiments.replayer import Replayer, ReplayNeeds, ReplayOptions
from gateway_service.domain.failures import Failures, FailureSource, ReleaseFailures
from gateway_service.domain.keys.audit import AuditLog, AuditStore
from gateway_service.domain.keys.authenticator import Authenticator
from gateway_service.domain.keys.costs import Costs, Ledger
from gateway_service.domain.keys.identities import Identities, IdentityProvider
from gateway_service.domain.keys.keys import Keys
from gateway_service.domain.keys.known_keys import KnownKeys
from gateway_service.domain.keys.logins import Logins
from gateway_service.domain.keys.ports import KeyStore
from gateway_service.domain.keys.quotas import Quotas
from gateway_service.domain.keys.usage import Usage
from gateway_service.domain.known_models import KnownModels
from gateway_service.domain.platform import HealthCheck, RolloutNodes
from gateway_service.domain.ports import ModelRegistry
from gateway_service.domain.releases.controller import ControlOptions, ReleaseController
from gateway_service.domain.releases.known_releases import KnownReleases
from gateway_service.domain.releases.ports import ReleaseStore
from gateway_service.domain.releases.releases import Releases
from gateway_service.domain.serving import Serving, ServingEngine, ServingOptions
from gateway_service.domain.traffic.exchanges import Exchanges
from gateway_service.domain.traffic.feedback import Feedback
from gateway_service.domain.traffic.forgetting import Forgetting
from gateway_service.domain.traffic.ports import CompletionLog, DataSets, ExchangeStore, Grader
from gateway_service.domain.traffic.recorder import Recorder
from gateway_service.domain.traffic.redaction import Redaction
from gateway_service.domain.version_health import VersionHealth
from gateway_service.domain.webhooks.addresses import Addresses
from gateway_service.domain.webhooks.ports import Feed, Sender, WebhookStore
from gateway_service.domain.webhooks.signed_delivery import Deliverer
from gateway_service.domain.webhooks.webhooks import Webhooks
from gateway_service.domain.workflows.ports import ScheduleStore, WorkflowStore
from gateway_service.domain.workflows.schedules import Schedules
from gateway_service.domain.workflows.workflow import Workflow
from gateway_service.domain.workflows.workflows import Workflows
from gateway_service.rest.resources import Backends
from gateway_service.settings import Settings
from gateway_service.worker import WorkflowWork
from ratchet_kit.ids import new_id
from ratchet_kit.retention import Kept
from ratchet_kit.times import Clock
from ratchet_kit.work import WorkQueue
from ratchet_kit.worker import Timing, Worker

WORKFLOWS = 16
"""Workflows under way in this process, each in a thread that mostly waits."""
MAX_ATTEMPTS = 20
"""Gateways that may die under a workflow of weeks."""
LEASE = timedelta(seconds=30)
"""How long a workflow stays with a gateway that has died."""


@dataclass(frozen=True, slots=True)
class Stores:
    """What the gateway stores."""

    releases: ReleaseStore
    experiments: ExperimentStore
    completions: CompletionLog
    exchanges: ExchangeStore
    keys: KeyStore
    webhooks: WebhookStore
    audit: AuditStore
    workflows: WorkflowStore
    schedules: ScheduleStore
    check_ready: Callable[[], Awaitable[None]]
    """Raises Unavailable while they cannot be reached."""


@dataclass(frozen=True, slots=True)
class Peers:
    """The other services, as the gateway uses them."""

    policies: ServingEngine
    nodes: RolloutNodes
    registry: ModelRegistry
    grader: Grader
    sets: DataSets
    health: Mapping[str, HealthCheck]
    """By the services' names."""
    backends: Backends
    """The stubs that answer /api/v1."""
    sender: Sender
    feed: Feed
    workflows: WorkQueue
    failures: Mapping[str, FailureSource] = field(default_factory=dict)
    """By the names of the services that know some."""
    ledger: Ledger | None = None
    identities: IdentityProvider | None = None


@dataclass(frozen=True, slots=True)
class Intervals:
    """Between two looks at what changes elsewhere."""

    refresh: timedelta = timedelta(seconds=0.25)
    """At keys, releases, aliases. An old one answers for no longer."""
    experiments: timedelta = timedelta(seconds=1)
    """A gateway acts for no longer on experiments as they were."""
    loading: timedelta = timedelta(seconds=0.25)
    """At a version that is being loaded."""
    release_tick: timedelta = timedelta(seconds=1)
    """At the releases, which may each move one step then."""
    watching: timedelta = timedelta(seconds=1)
    """At a release that a caller watches."""
    schedules: timedelta = timedelta(seconds=5)
    """At the schedules."""
    drain: timedelta = timedelta(seconds=30)
    """Between the end of a release and unloading the version that lost, for requests under way."""


@dataclass(frozen=True, slots=True)
class Ground:
    """The ground of every room."""

    settings: Settings
    stores: Stores
    peers: Peers
    clock: Clock
    chance: random.Random
    intervals: Intervals


@dataclass(frozen=True, slots=True)
class KeyRoom:
    known: KnownKeys
    keys: Keys
    authenticator: Authenticator
    usage: Usage
    quotas: Quotas
    costs: Costs
    audit: AuditLog
    logins: Logins | None


def wire_keys(ground: Ground) -> KeyRoom:
    known = KnownKeys(ground.stores.keys)
    keys = Keys(ground.stores.keys, known, ground.clock)
    provider, oidc = ground.peers.identities, ground.settings.oidc
    is_open = ground.settings.auth == "off"
    identities = Identities(provider, oidc) if provider and oidc and not is_open else None
    authenticator = Authenticator(None if is_open else keys, identities)
    logins = Logins(identities) if identities and identities.oidc.console else None
    audit = AuditLog(ground.stores.audit, ground.clock)
    settings = ground.settings
    ledger, answers = ground.peers.ledger, ground.stores.completions
    quotas = Quotas(settings.quotas, ledger, answers, ground.clock, settings.prices)
    usage = Usage(settings.key_limits, ground.clock)
    return KeyRoom(known, keys, authenticator, usage, quotas, Costs(ledger, answers, ground.clock), audit, logins)


@dataclass(frozen=True, slots=True)
class ServingRoom:
    models: KnownModels
    serving: Serving


def wire_serving(ground: Ground) -> ServingRoom:
    settings, peers, clock = ground.settings, ground.peers, ground.clock
    options = ServingOptions(settings.load_wait, ground.intervals.loading, replicas=settings.replicas)
    return ServingRoom(KnownModels(peers.registry, clock), Serving(peers.policies, peers.registry, clock, options))


@dataclass(frozen=True, slots=True)
class TrafficRoom:
    recorder: Recorder
    exchanges: Exchanges
    feedback: Feedback
    forgetting: Forgetting


def wire_traffic(ground: Ground) -> TrafficRoom:
    stores = ground.stores
    redacted = Redaction(redactions.steps(ground.settings.redact))
    recorder = Recorder(stores.completions, redacted)
    exchanges = Exchanges(stores.exchanges, stores.keys, recorder, redacted, ground.clock)
    feedback = Feedback(recorder, stores.completions, stores.exchanges, exchanges, ground.peers.grader)
    return TrafficRoom(recorder, exchanges, feedback, Forgetting(stores.exchanges, ground.peers.sets))


@dataclass(frozen=True, slots=True)
class ExperimentRoom:
    known: KnownExperiments
    experiments: Experiments
    replayer: Replayer


def wire_experiments(ground: Ground, serving: Serving, recorder: Recorder) -> ExperimentRoom:
    stores, registry, settings = ground.stores, ground.peers.registry, ground.settings
    known = KnownExperiments(stores.experiments, serving, ground.intervals.experiments)
    needs = Needs(stores.experiments, stores.completions, recorder, registry, known, stores.exchanges)
    experiments = Experiments(needs, ground.clock)
    replaying = ReplayNeeds(
        stores.experiments, stores.completions, stores.exchanges, experiments, serving, ground.peers.grader
    )
    replayer = Replayer(replaying, ground.clock, ReplayOptions(settings.replay_concurrency))
    return ExperimentRoom(known, experiments, replayer)


@dataclass(frozen=True, slots=True)
class ReleaseRoom:
    known: KnownReleases
    releases: Releases
    controller: ReleaseController


def wire_releases(ground: Ground, models: KnownModels, serving: Serving) -> ReleaseRoom:
    stores, registry, settings, clock = ground.stores, ground.peers.registry, ground.settings, ground.clock
    known = KnownReleases(stores.releases, models)
    releases = Releases(known, stores.completions, registry, clock, ground.intervals.watching)
    options = ControlOptions(ground.intervals.release_tick, settings.prepare_timeout, ground.intervals.drain)
    controller = ReleaseController(known, stores.completions, serving, registry, clock, options, stores.experiments)
    return ReleaseRoom(known, releases, controller)


@dataclass(frozen=True, slots=True)
class CompletionRoom:
    router: Router
    completer: Completer
    start_loads: StartLoads


def wire_completions(
    ground: Ground,
    keys: KeyRoom,
    serving: ServingRoom,
    traffic: TrafficRoom,
    experiments: ExperimentRoom,
    releases: ReleaseRoom,
) -> CompletionRoom:
    router = Router(serving.models, releases.known, experiments.known, ground.chance)
    answers = AnswerCache(ground.settings.cache_answers)
    completer = Completer(router, serving.serving, traffic.recorder, keys.usage, keys.quotas, answers, ground.clock)
    loads = StartLoads(ground.stores.completions, serving.models, serving.serving, ground.clock)
    return CompletionRoom(router, completer, loads)


@dataclass(frozen=True, slots=True)
class WebhookRoom:
    webhooks: Webhooks
    deliverer: Deliverer


def wire_webhooks(ground: Ground) -> WebhookRoom:
    store, peers, clock = ground.stores.webhooks, ground.peers, ground.clock
    addresses = Addresses(ground.settings.webhook_urls.split(","))
    deliverer = Deliverer(store, peers.sender, addresses, peers.feed, clock, ground.chance)
    return WebhookRoom(Webhooks(store, addresses, clock), deliverer)


@dataclass(frozen=True, slots=True)
class WorkflowRoom:
    workflows: Workflows
    schedules: Schedules
    worker: Worker[Workflow]


def worker_name(settings: Settings) -> str:
    """As the settings' own; processes that share a port are several workers."""
    return new_id("worker") if settings.workers > 1 else settings.worker_name()


def wire_workflows(ground: Ground, keys: KeyRoom, feedback: Feedback, inside: Inside) -> WorkflowRoom:
    store, queue, clock = ground.stores.workflows, ground.peers.workflows, ground.clock
    runner = ThreadRunner(store, inside, keys.authenticator.of_id, clock)
    workflows = Workflows(store, queue, runner, clock, ground.intervals.watching)
    schedules = Schedules(ground.stores.schedules, workflows, runner, feedback.count, clock, ground.intervals.schedules)
    work = WorkflowWork(worker_name(ground.settings), store, runner, clock, LEASE)
    timing = Timing.of_lease(LEASE)
    worker = Worker(queue, work, clock, slots=WORKFLOWS, max_attempts=MAX_ATTEMPTS, timing=timing)
    return WorkflowRoom(workflows, schedules, worker)


def wire_failures(ground: Ground) -> Failures:
    return Failures({"gateway": ReleaseFailures(ground.stores.releases), **ground.peers.failures}, ground.clock)


def wire_health(ground: Ground) -> VersionHealth:
    return VersionHealth(ground.stores.completions, ground.peers.registry, ground.clock)


def kept(ground: Ground) -> Sequence[Kept]:
    """Lists what is stored for a while only."""
    settings, stores = ground.settings, ground.stores
    return [
        Kept("texts", settings.keep_texts, stores.completions.forget_texts),
        Kept("records", settings.keep_records, stores.completions.forget_records),
        Kept("traffic", settings.keep_traffic, stores.exchanges.remove),
        Kept("deliveries", settings.keep_deliveries, stores.webhooks.forget),
    ]
