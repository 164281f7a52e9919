"""Which version answers a request: the champion, or an arm of the model's release."""

import random
from dataclasses import dataclass, replace
from datetime import timedelta

from gateway_service.domain.completions.completion import Target
from gateway_service.domain.experiments.assignment import place
from gateway_service.domain.experiments.known_experiments import KnownExperiments
from gateway_service.domain.keys.caller import caller
from gateway_service.domain.known_models import KnownModels
from gateway_service.domain.releases.known_releases import KnownReleases
from gateway_service.domain.releases.release import Release, State
from gateway_service.domain.traffic.record import Arm, Unit, unit_id
from ratchet_kit import projects
from ratchet_kit.errors import FailedPrecondition, NotFound, PermissionDenied
from ratchet_kit.names import AliasRef, BareModel, VersionRef

NO_WAIT = timedelta(0)
"""For a candidate that is not loaded: its baseline answers at once."""


@dataclass(frozen=True, slots=True)
class Route:
    """Which version answers."""

    version: VersionRef
    arm: Arm = Arm.NONE
    release_id: str = ""
    stage: int = 0
    fallback: VersionRef | None = None
    """What answers when the version fails: a candidate's baseline, an experiment's first variant, the champion before a
    champion; None elsewhere."""
    slow_after: timedelta | None = None
    """Of a release: see `Release.slow_after`."""
    experiment_id: str = ""
    variant: str = ""
    unit: str = ""
    """The unit of the experiment, or else the user: see `unit_id`."""
    is_champion: bool = False
    """The fallback is the champion before it, which answers only what the champion cannot."""

    @property
    def arm_name(self) -> str:
        """For who asked: of the model's release or experiment ("candidate", or a variant's name); empty outside."""
        return self.variant or ("" if self.arm is Arm.NONE else self.arm.value)

    @property
    def is_judged(self) -> bool:
        """A release or an experiment judges by the answer."""
        return bool(self.release_id or self.experiment_id)

    @property
    def wait(self) -> timedelta | None:
        """How long to wait for the version to be loaded; None leaves it to the settings."""
        return NO_WAIT if self.arm is Arm.CANDIDATE else None

    def to_fallback(self) -> "Route":
        """The route of the same request to its fallback: neither a release nor an experiment judges by that answer."""
        assert self.fallback is not None, "the route has a fallback"
        return Route(self.fallback, Arm.FALLBACK, self.release_id, self.stage)


class Router:
    """Finds the version for a request, from what is in memory: see `Refresher` for how old that may be."""

    def __init__(
        self, models: KnownModels, releases: KnownReleases, experiments: KnownExperiments, chance: random.Random
    ) -> None:
        self._models = models
        self._experiments = experiments
        self._releases = releases
        self._chance = chance

    async def route(self, target: Target, routing_key: str, session: str = "") -> Route:
        """Raises NotFound for an unknown alias or model, FailedPrecondition for a model without a champion,
        PermissionDenied when the caller's key is not for the model, or for a version that is not released."""
        key = caller()
        if not projects.is_seen(target.model):
            raise NotFound(f"model {target.model} does not exist")
        key.require_model(target.model)
        match target:
            case VersionRef():
                if not key.is_admin:
                    await self._require_released(target)
                return Route(target)
            case AliasRef(model, alias):
                return Route(await self._pointed_at(model, alias))
            case BareModel(model):
                return self._with_champion_before(await self._by_release(model, routing_key, session))

    def _with_champion_before(self, route: Route) -> Route:
        """As far as memory knows: a release or an experiment says who answers while the registry is away."""
        model = self._models.known(route.version.model)
        if route.fallback or model is None or model.champion != route.version or model.champion_before is None:
            return route
        return replace(route, fallback=model.champion_before, is_champion=True)

    async def _require_released(self, ref: VersionRef) -> None:
        """An alias points at it, or a release gives it traffic."""
        release = self._releases.present(ref.model)
        if release is not None and ref in (release.candidate, release.baseline):
            return
        if self._experiments.is_released(ref) or ref.number in (await self._models.find(ref.model)).aliases.values():
            return
        if ref.number not in (await self._models.read(ref.model)).aliases.values():
            raise PermissionDenied(f"{ref} is not released: no alias, release or experiment uses it")

    async def _by_release(self, model: str, routing_key: str, session: str) -> Route:
        user = unit_id(Unit.USER, routing_key)
        release = self._releases.present(model)
        if release is None or release.state is State.PREPARING:
            return self._by_experiment(model, user, session) or Route(await self._champion(model), unit=user)
        if not release.percent:  # paused, or falling back
            return Route(release.baseline, unit=user)
        arm = choose_arm(release, routing_key, self._chance)
        version, fallback = release.baseline, None
        if arm is Arm.CANDIDATE:
            version, fallback = release.candidate, release.baseline
        return Route(version, arm, release.id, release.stage, fallback, release.slow_after(arm), unit=user)

    def _by_experiment(self, model: str, user: str, session: str) -> Route | None:
        """The variant of the request's unit, from memory; None when it is in no experiment."""
        units = {
            Unit.USER: user,
            Unit.SESSION: unit_id(Unit.SESSION, session),
            Unit.KEY: unit_id(Unit.KEY, caller().id),
            Unit.REQUEST: f"{self._chance.getrandbits(128):032x}",
        }
        assigned = self._experiments.assign(model, units)
        if assigned is None:
            return None
        version, first = assigned.variant.version, assigned.experiment.spec.variants[0].version
        return Route(
            version,
            fallback=None if version == first else first,
            experiment_id=assigned.experiment.id,
            variant=assigned.variant.name,
            unit=assigned.unit,
        )

    async def _champion(self, model: str) -> VersionRef:
        """While the registry is away, the last champion that it named: loaded versions go on answering."""
        champion = (await self._models.find(model)).champion or (await self._models.read(model)).champion
        if champion is None:
            raise FailedPrecondition(f"model {model} has no champion: name a version, such as {model}@1, or set one")
        return champion

    async def _pointed_at(self, model: str, alias: str) -> VersionRef:
        aliases = (await self._models.find(model)).aliases
        if alias not in aliases:
            aliases = (await self._models.read(model)).aliases
        if alias not in aliases:
            there = ", ".join(sorted(aliases)) or "none"
            raise NotFound(f"model {model} has no alias {alias!r}; it has {there}")
        return VersionRef(model, aliases[alias])


def choose_arm(release: Release, routing_key: str, chance: random.Random) -> Arm:
    """The candidate with the probability of the release's percentage.

    A request with a routing key is placed by the key alone: a key keeps its arm within a stage, and one that is on the
    candidate at 5 % is still on it at 25 %. The release's id is part of the placement, so that the same keys are not
    always the first to get a new version.
    """
    at = place(release.id, routing_key) if routing_key else chance.random()
    return Arm.CANDIDATE if at * 100 < release.percent else Arm.BASELINE
