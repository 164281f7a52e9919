"""What is wrong with a complete spec: every fault, each with the path of its field in the spec."""

import re
from dataclasses import asdict

import ratchet_rewards
from ratchet_kit.faults import Faults
from ratchet_kit.names import Location, check_model_name
from ratchet_kit.work import Priority
from ratchet_rewards import Combination, Reward
from trainer_service.domain import curriculum, plugins, verl_settings
from trainer_service.domain.algorithms import ALGORITHMS, Algorithm
from trainer_service.domain.curriculum import Curriculum
from trainer_service.domain.limits import Limits
from trainer_service.domain.plugins import PluginKind
from trainer_service.domain.references import Found
from trainer_service.domain.spec import Hyperparameters, LearningRateSchedule, PromptForm, RunSpec
from trainer_service.domain.thresholds import Thresholds

_BOUNDS: dict[str, dict[str, float]] = {
    "learning_rate": {"above": 0, "at_most": 1},
    "critic_learning_rate": {"above": 0, "at_most": 1},
    "temperature": {"above": 0, "at_most": 10},
    "clip_low": {"above": 0, "at_most": 1},
    "clip_high": {"above": 0, "at_most": 10},
    "max_grad_norm": {"above": 0},
    "gae_lambda": {"at_least": 0, "at_most": 1},
    "gamma": {"at_least": 0, "at_most": 1},
    "kl_coefficient": {"at_least": 0},
    "entropy_coefficient": {"at_least": 0},
    "warmup_steps": {"at_least": 0},
    "weight_decay": {"at_least": 0},
    "batch_size": {"at_least": 1},
    "group_size": {"at_least": 1},
    "mini_batch_size": {"at_least": 1},
    "micro_batch_size": {"at_least": 1},
    "micro_batch_tokens": {"at_least": 1},
    "gradient_checkpointing": {},
    "learning_rate_end_ratio": {"at_least": 0, "at_most": 1},
    "temperature_end": {"above": 0, "at_most": 10},
    "kl_in_reward": {},
    "overlong_penalty": {"at_least": 0, "at_most": 1},
    "overlong_buffer": {"above": 0, "at_most": 1},
    "max_staleness": {"at_least": 0, "at_most": 1},
    "dpo_beta": {"above": 0, "at_most": 100},
    "max_prompt_tokens": {"at_least": 1},
    "max_response_tokens": {"at_least": 1},
}

_EXPERIMENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._-]{0,99}")
MAX_PROFILED = 10
NAMED = 5
"""Problems at fault that an error names."""
_SHARE: dict[str, float] = {"at_least": 0, "at_most": 1}
_THRESHOLDS: dict[str, dict[str, float]] = {
    "no_signal_share": _SHARE,
    "truncated_share": _SHARE,
    "repetition_rise": _SHARE,
    "tampered_share": _SHARE,
    "tampered_limit": _SHARE,
    "verdict_shift": _SHARE,
    "reward_gap": _SHARE,
    "collapse_confidence": {"at_least": 0, "below": 1},
}
_FACTORS = ("gradient_spike", "loss_rise", "length_drift")


def check(spec: RunSpec, found: Found, limits: Limits, faults: Faults) -> None:
    """Adds every fault of a spec that `defaults.complete` has made."""
    faults.length("display_name", spec.display_name, 200)
    if spec.experiment:
        fits = _EXPERIMENT.fullmatch(spec.experiment)
        faults.unless(bool(fits), "experiment", "must be letters, digits, and any of ._ -, 100 at most")
    _check_profile(spec, faults)
    faults.bounds("steps", spec.steps, at_least=1, at_most=limits.max_steps)
    faults.bounds("seed", spec.seed, at_least=0, at_most=2**32 - 1)
    for name, every in (
        ("validate_every", spec.validate_every),
        ("checkpoint_every", spec.checkpoint_every),
        ("max_tokens", spec.max_tokens),
    ):
        if every is not None:
            faults.bounds(name, every, at_least=1)
    _check_resources(spec, limits, faults.under("resources"))
    _check_choices(spec, found, limits, faults)
    _check_form(spec, found, faults)
    plugins.check(spec.plugins, found.plugins, faults)
    _check_thresholds(spec.thresholds, faults.under("thresholds"))
    algorithm = ALGORITHMS.get(spec.algorithm)
    verl_settings.check(spec.verl_overrides, algorithm, faults)
    if algorithm is None:
        if not spec.algorithm and plugins.named(spec.plugins, PluginKind.ALGORITHM):
            return  # what it is, a plug-in would have said
        faults.one_of("algorithm", spec.algorithm.upper(), [name.upper() for name in ALGORITHMS])
        return
    if not algorithm.takes_examples and not spec.forgeable_rewards:
        _check_forgeable(found, faults)
    if not algorithm.takes_examples:
        _check_problems(found, faults)
    if algorithm.is_rewarded:
        _check_reward(spec.reward, algorithm, found, faults.under("reward"))
        _check_reward_model(spec, found, faults)
    else:
        _check_no_reward(spec.reward, algorithm, faults)
    if found.base and found.base.outputs:
        faults.add("base", "must be a model that writes: it is a classifier, or a reward model, which scores texts")
    _check_pairs(spec, found, algorithm, faults)
    _check_environment(spec, algorithm, faults)
    if not algorithm.is_online:
        faults.unless(not spec.plugins, "plugins", f"must be absent: {algorithm.name.upper()} has no use for them")
    else:
        verl_settings.check_used(spec, algorithm, faults)
        _check_plugins(spec, algorithm, faults)
    if spec.curriculum:
        _check_curriculum(spec, spec.curriculum, found, algorithm, faults)
    hyperparameters = Faults()
    _check_each(spec.hyperparameters, algorithm, hyperparameters)
    faults.under("hyperparameters").extend(hyperparameters.violations)
    if not hyperparameters:
        _check_together(spec, found, limits, algorithm, faults)


def _check_pairs(spec: RunSpec, found: Found, algorithm: Algorithm, faults: Faults) -> None:
    name = algorithm.name.upper()
    if algorithm.takes_pairs:
        faults.unless(not spec.problems.name, "problems", f"must be absent: {name} learns from pairs")
    else:
        faults.unless(spec.pairs is None, "pairs", f"must be absent: {name} learns from problems")
    if not algorithm.makes_reward_model:
        absent = f"must be absent: {name} is validated on validation_problems"
        faults.unless(spec.validation_pairs is None, "validation_pairs", absent)
        return
    absent = f"must be absent: {name} answers no problems, and is validated on validation_pairs"
    faults.unless(spec.validation_problems is None, "validation_problems", absent)
    held_out = found.validation_pairs
    if found.pairs and held_out and found.pairs.ref.digest == held_out.ref.digest:
        faults.add("validation_pairs.name", "must hold other pairs than those that are learned from")
    scored = f"what {name} makes scores conversations"
    texts = [
        field
        for field, there in (("pairs", found.pairs), ("validation_pairs", held_out))
        if there and there.form == PromptForm.COMPLETION
    ]
    for field in texts:
        faults.add(f"{field}.name", f"must hold problems or conversations, not texts: {scored}")
    if found.base and not found.base.has_chat_template:
        faults.add("base", f"must have a chat template: {scored}")
    elif not texts:
        faults.unless(spec.prompt_form == PromptForm.CHAT, "prompt_form", f"must be CHAT, or absent: {scored}")
    if spec.base and not isinstance(spec.base, Location) and spec.output_model == spec.base.model:
        faults.add(
            "output_model", f"must not be {spec.output_model}, whose versions write: a reward model is no policy"
        )


def _check_environment(spec: RunSpec, algorithm: Algorithm, faults: Faults) -> None:
    if spec.environment is None:
        return
    nothing = f"must be absent: {algorithm.name.upper()} answers nothing"
    if faults.unless(algorithm.is_rewarded, "environment", nothing):
        spec.environment.check(faults.under("environment"), plugins=True)
        chat = "must be absent: its replies are messages of a chat, and the prompts are texts"
        faults.unless(spec.prompt_form != PromptForm.COMPLETION, "environment", chat)


def _check_forgeable(found: Found, faults: Faults) -> None:
    for field, there in (("problems", found.problems), ("validation_problems", found.validation_problems)):
        if there and there.forgeable:
            faults.add(
                f"{field}.name",
                f"holds problems whose tests share the program's process ({there.forgeable}): a policy can learn to "
                "forge their rewards; set forgeable_rewards to take them all the same",
            )


def _check_no_reward(reward: Reward, algorithm: Algorithm, faults: Faults) -> None:
    for name in ("name", "components", "combination"):
        if getattr(reward, name):
            learned = "pairs" if algorithm.takes_pairs else "references"
            faults.add(f"reward.{name}", f"must be empty: {algorithm.name.upper()} learns from {learned}")


def _check_reward(reward: Reward, algorithm: Algorithm, found: Found, faults: Faults) -> None:
    ratchet_rewards.check(reward, faults, found.rewards)
    if reward.combination == Combination.GDPO:
        group = f"must not be gdpo: {algorithm.name.upper()} has no groups in which components could be normalised"
        faults.unless(algorithm.is_grouped, "combination", group)
        gains = f"must not be gdpo: {algorithm.name.upper()} rewards what a reward gains, and it has none by itself"
        faults.unless(not algorithm.has_steps, "combination", gains)
        deviation = "must not be gdpo, which divides by deviations: DR_GRPO is GRPO without that"
        faults.unless(algorithm.name != "dr_grpo", "combination", deviation)
    for place, component in enumerate(reward.components):
        known = None if component.is_own else ratchet_rewards.COMPONENTS.get(component.name)
        own = faults.under(f"components[{place}]")
        for field, there in (("problems", found.problems), ("validation_problems", found.validation_problems)):
            if known and known.needs_reference and there and there.without_reference:
                bare = f"{there.without_reference} of {field} has none"
                own.add("name", f"must not be {component.name}, which needs references: {bare}")
            if known and known.needs_tests and there and there.without_tests:
                bare = f"{there.without_tests} of {field} has none; a reward of your own can judge it (docs/rewards.md)"
                own.add("name", f"must not be {component.name}, which needs tests: {bare}")
            if component.passing_only and there and there.without_tests:
                own.add("passing_only", f"must be false: {there.without_tests} of {field} has no tests to pass")


def _check_reward_model(spec: RunSpec, found: Found, faults: Faults) -> None:
    """What its folder says; what only its weights do, the job finds before it trains."""
    model = found.reward_model
    if model is None:
        return
    place = next(place for place, one in enumerate(spec.reward.components) if one.model)
    field = f"reward.components[{place}].model"
    a_reward_model = "must be a reward model, a sequence classifier with one output"
    if model.outputs != 1:
        what = f"has {model.outputs} outputs" if model.outputs else "writes text"
        faults.add(field, f"{a_reward_model}: {model.ref} {what} (docs/rewards.md#preference)")
    faults.unless(model.has_tokenizer, field, f"must have a tokenizer: {model.ref} has no tokenizer.json")
    template = f"must have a chat template, by which it reads prompt and answer: {model.ref} has none"
    faults.unless(model.has_chat_template, field, template)
    longest = spec.hyperparameters.max_tokens
    if 0 < model.max_tokens < longest:
        room = (
            f"must have room for a prompt and a response, {longest} tokens: {model.ref} has it for {model.max_tokens}"
        )
        faults.add(field, f"{room}; take fewer max_prompt_tokens or max_response_tokens")


def _check_plugins(spec: RunSpec, algorithm: Algorithm, faults: Faults) -> None:
    name = algorithm.name.upper()
    for index, plugin in enumerate(spec.plugins):
        field = f"plugins[{index}].kind"
        if plugin.kind == PluginKind.LOSS:
            faults.unless(not algorithm.has_own_loss, field, f"must not be loss: {name} has a loss of its own")
        if plugin.kind == PluginKind.ADVANTAGE:
            own = f"must not be advantage: {name} makes advantages of its critic's values"
            faults.unless(not algorithm.has_critic, field, own)
            greedy = f"must not be advantage: {name} makes advantages of its greedy completions"
            faults.unless(not algorithm.has_greedy, field, greedy)
            gdpo = "must not be advantage: gdpo has advantages of its own"
            faults.unless(spec.reward.combination != Combination.GDPO, field, gdpo)


def _check_curriculum(spec: RunSpec, wanted: Curriculum, found: Found, algorithm: Algorithm, faults: Faults) -> None:
    if not algorithm.is_online:
        faults.add("curriculum", f"must be absent: {algorithm.name.upper()} goes through its data in passes")
        return
    own = any(plugin.kind == PluginKind.SAMPLER for plugin in spec.plugins)
    faults.unless(not own, "curriculum", "must be absent: a sampler of one's own draws the problems")
    curriculum.check(
        wanted,
        kinds=found.problems.kinds if found.problems else None,
        steps=spec.steps,
        batch_size=spec.hyperparameters.batch_size,
        group_size=spec.hyperparameters.group_size,
        faults=faults.under("curriculum"),
    )


def _check_problems(found: Found, faults: Faults) -> None:
    """Not those of SFT, which runs no tests, and may learn from references that are no programs."""
    for field, there in (("problems", found.problems), ("validation_problems", found.validation_problems)):
        if there and there.faults:
            more = f"; and {len(there.faults) - NAMED} more" if len(there.faults) > NAMED else ""
            named = "; ".join(there.faults[:NAMED])
            faults.add(f"{field}.name", f"holds problems that nothing can be learned from: {named}{more}")


def _check_resources(spec: RunSpec, limits: Limits, faults: Faults) -> None:
    wanted = spec.resources
    nodes, per_node = wanted.nodes or 0, wanted.accelerators_per_node or 0
    faults.bounds("nodes", nodes, at_least=1, at_most=limits.max_nodes)
    own = limits.accelerators
    if faults.bounds("accelerators_per_node", per_node, at_least=1, at_most=limits.max_accelerators_per_node):
        larger = f"must be at most {own}, as many as this service's own Ray has; RAY_ADDRESS names a larger cluster"
        faults.unless(own is None or per_node <= own, "accelerators_per_node", larger)
    larger = "must be 1, as this service's own Ray has one node; RAY_ADDRESS names a larger cluster"
    faults.unless(own is None or nodes <= 1, "nodes", larger)
    faults.one_of("device", wanted.device.upper(), [device.upper() for device in limits.devices])


def _check_choices(spec: RunSpec, found: Found, limits: Limits, faults: Faults) -> None:
    if spec.algorithm not in ALGORITHMS:
        ratchet_rewards.check(spec.reward, faults.under("reward"), found.rewards)
    faults.length("loggers", spec.loggers, len(limits.loggers))
    for index, logger in enumerate(spec.loggers[: len(limits.loggers) + 1]):
        if faults.one_of(f"loggers[{index}]", logger, limits.loggers):
            faults.unless(logger not in spec.loggers[:index], f"loggers[{index}]", "must not be named twice")
    if spec.output_model:
        faults.read("output_model", check_model_name, spec.output_model)
    faults.one_of("priority", spec.priority.upper(), [priority.name for priority in Priority])


def _check_profile(spec: RunSpec, faults: Faults) -> None:
    if not spec.profile_steps:
        return
    algorithm = ALGORITHMS.get(spec.algorithm)
    online = algorithm is None or algorithm.is_online
    faults.unless(online, "profile_steps", f"must be absent: steps of {spec.algorithm.upper()} are not traced")
    faults.length("profile_steps", spec.profile_steps, MAX_PROFILED)
    for index, step in enumerate(spec.profile_steps[:MAX_PROFILED]):
        faults.bounds(f"profile_steps[{index}]", step, at_least=1, at_most=max(spec.steps, 1))


def _check_form(spec: RunSpec, found: Found, faults: Faults) -> None:
    known = faults.one_of("prompt_form", spec.prompt_form.upper(), [form.upper() for form in PromptForm])
    pairs = found.pairs.form if found.pairs else ""
    if known and pairs and pairs != spec.prompt_form:
        what = "conversations" if pairs == PromptForm.CHAT else "texts to go on with"
        faults.add("prompt_form", f"must be {pairs.upper()}, or absent: the pairs are {what}")
    elif known and pairs == PromptForm.CHAT and found.base and not found.base.has_chat_template:
        faults.add("pairs.name", "holds conversations, and the base has no chat template: write prompts as texts")
    elif known and spec.prompt_form == PromptForm.CHAT and found.base and not found.base.has_chat_template:
        faults.add("prompt_form", "must be COMPLETION, or absent: the base has no chat template")


def _check_thresholds(thresholds: Thresholds, faults: Faults) -> None:
    for name, value in asdict(thresholds).items():
        within = faults.bounds(name, value, **_THRESHOLDS.get(name, {"at_least": 0}))
        if within and name in _FACTORS:
            faults.unless(value == 0 or value > 1, name, "must be above 1, or 0 for no such guard")


def _check_each(taken: Hyperparameters, algorithm: Algorithm, faults: Faults) -> None:
    """Each value by itself."""
    for name, value in asdict(taken).items():
        if value is None or (name == "temperature_end" and value == taken.temperature):
            continue
        unused = f"must be absent: {algorithm.name.upper()} has no use for it"
        if not faults.unless(name in algorithm.applicable, name, unused):
            continue
        if name == "learning_rate_schedule":
            faults.one_of(name, value.upper(), [schedule.name for schedule in LearningRateSchedule])
        else:
            faults.bounds(name, value, **_BOUNDS[name])
    alone = algorithm.is_grouped and taken.group_size == 1
    faults.unless(
        not alone, "group_size", f"must be 2 or more: {algorithm.name.upper()} compares completions of a group"
    )
    _check_effects(taken, algorithm, faults)


def _check_effects(taken: Hyperparameters, algorithm: Algorithm, faults: Faults) -> None:
    """What would have no effect beside the other values."""
    constant = taken.learning_rate_schedule == LearningRateSchedule.CONSTANT
    stays = "must be 0, or absent: learning_rate_schedule is constant"
    faults.unless(not (constant and taken.learning_rate_end_ratio), "learning_rate_end_ratio", stays)
    free = "must be false, or absent: kl_coefficient is 0"
    faults.unless(not taken.kl_in_reward or bool(taken.kl_coefficient), "kl_in_reward", free)
    of_buffer = taken.overlong_buffer != algorithm.defaults.overlong_buffer and taken.overlong_penalty == 0
    faults.unless(not of_buffer, "overlong_buffer", "must be absent: overlong_penalty is 0")


def _check_together(spec: RunSpec, found: Found, limits: Limits, algorithm: Algorithm, faults: Faults) -> None:
    """The values against one another, and against what the references lead to."""
    taken, ranks = spec.hyperparameters, spec.resources.ranks
    _check_batches(taken, algorithm, ranks, limits, faults.under("hyperparameters"))
    _check_staleness(spec, faults)
    room = (found.base.max_tokens if found.base else 0) or limits.max_tokens
    faults.unless(
        taken.max_tokens <= room,
        "hyperparameters.max_response_tokens",
        f"must be less: prompt and response make {taken.max_tokens} tokens, and there is room for {room}",
    )
    batch = taken.batch_size or 0
    for field, there in (("problems", found.problems), ("pairs", found.pairs)):
        if there and there.size < batch:
            faults.add(f"{field}.name", f"must hold more {field}: it has {there.size}, and batch_size is {batch}")
    least = ranks if algorithm.takes_examples else 1  # each has the same share of a validation
    if found.validation_problems and found.validation_problems.size < least:
        ref, size = found.validation_problems.ref, found.validation_problems.size
        field = "validation_problems.limit" if ref.limit else "validation_problems.name"
        faults.add(field, f"must leave {least} problems or more, one for each rank, not {size}")


def _check_staleness(spec: RunSpec, faults: Faults) -> None:
    if not spec.hyperparameters.max_staleness:
        return
    field = "hyperparameters.max_staleness"
    every = [name for name in ("validate_every", "checkpoint_every") if getattr(spec, name) == 1]
    if every:
        faults.add(field, f"must be 0: {every[0]} is 1, and nothing is made ahead over a checkpoint")
    elif spec.steps == 1:
        faults.add(field, "must be 0: there is one step, and nothing to be made ahead")
    for index, override in enumerate(spec.verl_overrides):
        if override == "algorithm.rollout_correction.rollout_is=null":
            faults.add(f"verl_overrides[{index}]", "must not set it to null: it weighs samples that are stale")


def _check_batches(taken: Hyperparameters, algorithm: Algorithm, ranks: int, limits: Limits, faults: Faults) -> None:
    batch, group = taken.batch_size or 0, taken.group_size or 1
    mini = taken.mini_batch_size or batch
    sequences, share = taken.samples, taken.update_sequences(ranks)
    most = f"must make at most {limits.max_sequences} sequences per step, not {sequences}"
    faults.unless(sequences <= limits.max_sequences, "batch_size", most)
    divides = not sequences % ranks
    faults.unless(divides, "batch_size", f"must give each of {ranks} ranks as many of its {sequences} sequences")
    if batch % mini:
        faults.add("mini_batch_size", f"must divide batch_size {batch}, as {mini} does not")
    elif divides and not share:
        faults.add("mini_batch_size", f"must give each of {ranks} ranks as many of its {mini * group} sequences")
    longest = taken.together(algorithm.takes_pairs)
    shorter = f"must be {longest} or more, the tokens of the longest {'pair' if algorithm.takes_pairs else 'sequence'}"
    faults.unless((taken.micro_batch_tokens or longest) >= longest, "micro_batch_tokens", shorter)
