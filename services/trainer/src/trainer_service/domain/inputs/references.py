"""What the references of a spec lead to: its base, its sets of problems, its pairs, and rewards of the registry."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace

import ratchet_rewards
from ratchet_kit.errors import DataLoss, FailedPrecondition, InvalidArgument, NotFound
from ratchet_kit.faults import Faults
from ratchet_kit.logs import get_logger
from ratchet_kit.names import AnyModel, Location
from ratchet_rewards import Reward
from trainer_service.domain.inputs.found import Found, FoundModel, FoundSet, Trial
from trainer_service.domain.inputs.ports import (
    ModelFolders,
    ModelRegistry,
    Plugins,
    ProblemSets,
    RewardRegistry,
    Suites,
)
from trainer_service.domain.run.run import RunId
from trainer_service.domain.spec import plugins, recipes
from trainer_service.domain.spec.algorithms import ALGORITHMS
from trainer_service.domain.spec.plugins import PluginKind
from trainer_service.domain.spec.spec import ProblemSetRef, RunSpec, Validation

log = get_logger(__name__)


class References:
    """Looks up what specs name."""

    def __init__(
        self,
        registry: ModelRegistry,
        rewards: RewardRegistry,
        folders: ModelFolders,
        problems: ProblemSets,
        plugins: Plugins,
        suites: Suites,
    ) -> None:
        self._registry = registry
        self._rewards = rewards
        self._folders = folders
        self._problems = problems
        self._plugins = plugins
        self._suites = suites

    async def expand(self, spec: RunSpec, faults: Faults) -> RunSpec:
        """With what the plug-in that stands for its algorithm says; one that has none stays as it is."""
        wanted = plugins.named(spec.plugins, PluginKind.ALGORITHM)
        if wanted is None or plugins.missing(wanted.kind, wanted.name, await self._plugins.installed()):
            return spec  # `validation.check` names what is missing
        try:
            recipe = await self._plugins.recipe(wanted.name)
            if spec.algorithm not in ("", recipe.base):
                base = recipe.base.upper()
                faults.add("algorithm", f"must be absent, or {base}: the algorithm {wanted.name} is built on it")
            return recipes.expanded(spec, recipe)
        except (InvalidArgument, DataLoss) as error:
            faults.add(f"plugins[{spec.plugins.index(wanted)}].name", error.message)
            return spec

    async def find(self, spec: RunSpec, faults: Faults) -> Found:
        """What is not available is added to `faults`.

        Raises Unavailable when the registry or a store is needed and cannot be reached, DataLoss where the weights of a
        version are gone.
        """
        base = await self._model("base", spec.base, faults, spec.chat_template)
        algorithm = ALGORITHMS.get(spec.algorithm)
        problems, pairs = None, None
        of_examples = bool(algorithm and algorithm.takes_examples and spec.pairs)
        if of_examples or (algorithm and algorithm.takes_pairs):
            pairs = await self._set("pairs", spec.pairs or ProblemSetRef(""), self._problems.pairs, faults)
        else:
            problems = await self._set("problems", spec.problems, self._look_up(spec), faults)
        held_out = None
        if spec.validation_pairs:
            held_out = await self._set("validation_pairs", spec.validation_pairs, self._problems.pairs, faults)
        elif (
            spec.validate is None
            and (of_examples or (algorithm and algorithm.makes_reward_model))
            and spec.pairs
            and (own := spec.pairs.validation_split)
        ):
            with suppress(NotFound, InvalidArgument):
                held_out = await self._problems.pairs(own)
        if spec.validation_problems and (spec.validation_problems.name or not spec.problems.validation_split):
            validated = await self._set("validation_problems", spec.validation_problems, self._look_up(spec), faults)
        else:
            validated = await self._validation_split(spec, faults)
        validate = await self._suite(replace(spec, base=base.ref), faults) if spec.validate and base else None
        shown = None
        if spec.examples:
            shown = await self._set("examples", spec.examples, self._problems.examples, faults)
        rewards = await ratchet_rewards.look_up(spec.reward, self._rewards.find, self._reward_plugin)
        there = await self._plugins.installed() if spec.plugins else ()
        reward_model = await self._reward_model(spec.reward, faults)
        environment = await self._environment(spec, faults)
        return Found(
            base, problems, validated, rewards, there, pairs, held_out, reward_model, environment, shown, validate
        )

    async def use(self, spec: RunSpec, id: RunId) -> None:
        """Notes that the run is made with its rewards and sets. Raises NotFound, Unavailable."""
        for reward in filter(None, map(ratchet_rewards.ref_of, spec.reward.components)):
            await self._rewards.use(reward, id)
        sets = (spec.problems, spec.validation_problems, spec.pairs, spec.validation_pairs, spec.examples)
        for ref in filter(None, sets):
            await self._problems.use(ref, id)

    async def trials(self, spec: RunSpec, found: Found) -> Sequence[Trial]:
        """Of a complete and valid spec's problems, and of those that it is validated on, where their tests judge."""
        sets, is_judged = (found.problems, found.validation_problems), _tests_judge(spec)
        return [await self._problems.trial(one.ref) if one and is_judged else Trial() for one in sets]

    async def _suite(self, spec: RunSpec, faults: Faults) -> Validation | None:
        try:
            return await self._suites.check(spec)
        except InvalidArgument as error:
            faults.extend(error.violations)
        except (NotFound, FailedPrecondition) as error:
            faults.add("validate.suite", f"cannot be evaluated: {error.message}")
        return None

    async def _environment(self, spec: RunSpec, faults: Faults) -> str:
        """The digest of a plug-in, empty where it is none."""
        if spec.environment is None or not spec.environment.plugin:
            return ""
        name = spec.environment.plugin
        try:
            digest = await self._digest(PluginKind.ENVIRONMENT, name)
            await self._plugins.check_environment(name)
            return digest
        except NotFound as error:
            faults.add("environment.name", f"is not available: {error.message}")
        except (InvalidArgument, DataLoss) as error:
            faults.add("environment.name", error.message)
        return ""

    async def _reward_plugin(self, name: str) -> str:
        return await self._digest(PluginKind.REWARD, name)

    async def _digest(self, kind: PluginKind, name: str) -> str:
        """Of a plug-in's code. Raises NotFound where a run cannot have it."""
        there = await self._plugins.installed()
        if reason := plugins.missing(kind, name, there):
            raise NotFound(reason)
        return next(one.plugin.digest for one in there if (one.plugin.kind, one.plugin.name) == (kind, name))

    async def _reward_model(self, reward: Reward, faults: Faults) -> FoundModel | None:
        field = next(
            (f"reward.components[{place}].model" for place, one in enumerate(reward.components) if one.model), ""
        )
        return await self._model(field, reward.model, faults)

    async def _model(
        self, field: str, ref: AnyModel | None, faults: Faults, chat_template: str = ""
    ) -> FoundModel | None:
        if ref is None:
            return None
        try:
            if isinstance(ref, Location):
                return await self._folders.inspect(ref.uri, chat_template)
            version = await self._registry.resolve(ref)
        except NotFound as error:
            faults.add(field, f"is not available: {error.message}")
            return None
        try:
            return replace(await self._folders.inspect(version.uri, chat_template), ref=version.ref)
        except NotFound as error:  # which is no fault of who names the version
            log.warning("version.gone", version=str(version.ref), reason=error.message)
            raise DataLoss(f"the weights of {version.ref} are gone: its artifact holds no model") from error

    async def _set(
        self, field: str, ref: ProblemSetRef, look_up: Callable[[ProblemSetRef], Awaitable[FoundSet]], faults: Faults
    ) -> FoundSet | None:
        there_are = (
            "a data set or a JSONL file of pairs" if field.endswith("pairs") else "a problem set or a JSONL file"
        )
        is_named = faults.unless(ref.name.strip(), f"{field}.name", f"is missing: name {there_are}")
        is_bounded = ref.limit is None or faults.bounds(f"{field}.limit", ref.limit, at_least=1)
        if not (is_named and is_bounded):
            return None
        try:
            return await look_up(ref)
        except NotFound as error:
            faults.add(f"{field}.name", f"is not available: {error.message}")
        except InvalidArgument as error:
            faults.add(f"{field}.name", f"cannot be read: {error.message}")
        return None

    def _look_up(self, spec: RunSpec) -> Callable[[ProblemSetRef], Awaitable[FoundSet]]:
        on_folders = spec.environment is not None and spec.environment.on_folders
        return self._problems.tasks if on_folders else self._problems.look_up

    async def _validation_split(self, spec: RunSpec, faults: Faults) -> FoundSet | None:
        """The default: a set that has splits is validated on its own validation split, with the limit that was asked
        for; any other, on nothing."""
        split = spec.problems.validation_split
        if split is None or spec.validate:
            return None
        limit = spec.validation_problems.limit if spec.validation_problems else None
        if limit is not None and not faults.bounds("validation_problems.limit", limit, at_least=1):
            return None
        try:
            return await self._look_up(spec)(replace(split, limit=limit))
        except NotFound:
            if spec.validation_problems:
                faults.add("validation_problems.name", f"is missing: there is no {split.name} that it could be")
            return None
        except InvalidArgument as error:  # a plug-in's
            faults.add("validation_problems.name", f"cannot be read: {error.message}")
            return None


def notices(spec: RunSpec, found: Found) -> list[str]:
    """What is no fault of the problems, and should be known where their tests judge."""
    sets = {
        "problems": found.problems if _tests_judge(spec) else None,
        "validation_problems": found.validation_problems,
    }
    return [f"{field}: {notice}" for field, one in sets.items() if one for notice in one.notices]


def _tests_judge(spec: RunSpec) -> bool:
    of_tests = any(one.passing_only or ratchet_rewards.kind(one).needs_tests for one in spec.reward.components)
    return of_tests and not (spec.environment and (spec.environment.plugin or spec.environment.on_folders))
