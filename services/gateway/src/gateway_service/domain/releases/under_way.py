"""Releases and experiments that move a model's traffic now: may another start beside them, which versions they use."""

from collections.abc import Sequence
from dataclasses import dataclass

from gateway_service.domain.experiments.experiment import Experiment
from gateway_service.domain.experiments.ports import ExperimentStore
from gateway_service.domain.ports import ModelRegistry
from gateway_service.domain.releases.ports import ReleaseStore
from gateway_service.domain.releases.release import Release
from ratchet_kit.errors import FailedPrecondition
from ratchet_kit.names import VersionRef


@dataclass(frozen=True, slots=True)
class UnderWay:
    """Releases and experiments of one model that are under way."""

    release: Release | None
    experiments: Sequence[Experiment]

    def check_release(self) -> None:
        """Raises FailedPrecondition where no release may start. An offline experiment moves no traffic."""
        if self.release is not None:
            model, state = self.release.model, self.release.state
            raise FailedPrecondition(f"release {self.release.id} of model {model} is under way: {state}")
        for one in self.experiments:
            if one.spec.replay is None:
                raise FailedPrecondition(f"experiment {one.id} of model {one.model} is {one.state}: end it first")

    def check_experiment(self, experiment: Experiment) -> None:
        """Raises FailedPrecondition where this one may not start."""
        if experiment.spec.replay is not None:
            return
        model = experiment.model
        if self.release is not None:
            raise FailedPrecondition(f"model {model} has a release under way: it decides the traffic until it ends")
        for other in self.experiments:
            if other.id != experiment.id and other.spec.replay is None and other.spec.traffic == 1:
                raise FailedPrecondition(f"experiment {other.id} takes all traffic of model {model}")


class Uses:
    """Uses of a version: while it has one, it is neither unloaded nor deleted."""

    def __init__(
        self, releases: ReleaseStore, registry: ModelRegistry, experiments: ExperimentStore | None = None
    ) -> None:
        """`experiments`: those under way use their versions."""
        self._releases = releases
        self._registry = registry
        self._experiments = experiments

    async def find(self, ref: VersionRef) -> str:
        """The first use in words; empty without uses. Raises Unavailable."""
        release = await self._releases.active(ref.model)
        if release is not None and ref in (release.candidate, release.baseline):
            return f"release {release.id} is under way"
        for experiment in await self._experiments.active() if self._experiments else ():
            if ref in {variant.version for variant in experiment.spec.variants}:
                return f"experiment {experiment.id} is {experiment.state}"
        for alias, number in (await self._registry.model(ref.model)).aliases.items():
            if number == ref.number:
                return f"alias {alias} points at it"
        return ""

    async def check_deletable(self, ref: VersionRef) -> None:
        """Raises FailedPrecondition, NotFound, Unavailable."""
        if use := await self.find(ref):
            raise FailedPrecondition(f"version {ref} cannot be deleted: {use}")
