"""Hyperparameters: each by itself, beside the others, and beside what the references lead to."""

from collections.abc import Sequence
from dataclasses import asdict

from ratchet_kit.faults import Faults
from ratchet_rewards import Combination
from trainer_service.domain.inputs.found import Found
from trainer_service.domain.spec import plugins
from trainer_service.domain.spec.algorithms import ALGORITHMS, Algorithm
from trainer_service.domain.spec.hyperparameters import ROWS, Hyperparameters, LearningRateSchedule
from trainer_service.domain.spec.limits import Limits
from trainer_service.domain.spec.plugins import PluginKind
from trainer_service.domain.spec.spec import RunSpec

FEW = 4
"""Completions of a group; fewer get a notice."""


def check(spec: RunSpec, found: Found, limits: Limits, algorithm: Algorithm, faults: Faults) -> None:
    own = Faults()
    _check_each(spec.hyperparameters, algorithm, own)
    if plugins.named(spec.plugins, PluginKind.ADVANTAGE) is None:  # which may use what it likes
        _check_advantages(spec.hyperparameters, algorithm, own)
    _check_turns(spec, algorithm, own)
    faults.under("hyperparameters").extend(own.violations)
    if not own:
        _check_together(spec, found, limits, algorithm, faults)


def _check_each(taken: Hyperparameters, algorithm: Algorithm, faults: Faults) -> None:
    """Each value by itself."""
    for name, value in asdict(taken).items():
        if value is None or (name == "temperature_end" and value == taken.temperature):
            continue
        unused = f"must be absent: {algorithm.name.upper()} has no use for it"
        if not faults.unless(name in algorithm.applicable, name, unused):
            continue
        row = ROWS[name]
        if row.choices:
            faults.one_of(name, value.upper(), [choice.upper() for choice in row.choices])
        else:
            faults.bounds(name, value, **row.bounds)
    alone = algorithm.is_grouped and taken.group_size == 1
    faults.unless(
        not alone, "group_size", f"must be 2 or more: {algorithm.name.upper()} compares completions of a group"
    )
    _check_effects(taken, algorithm, faults)


def _check_advantages(taken: Hyperparameters, algorithm: Algorithm, faults: Faults) -> None:
    name = algorithm.name.upper()
    discounted = algorithm.discounts or taken.gamma in (None, 1)
    faults.unless(discounted, "gamma", f"must be 1, or absent: {name} gives a reward to a whole completion")
    traced = algorithm.has_critic or taken.gae_lambda in (None, 1)
    faults.unless(traced, "gae_lambda", f"must be 1, or absent: {name} has no critic")


def _check_turns(spec: RunSpec, algorithm: Algorithm, faults: Faults) -> None:
    """Checks what credit by turn goes with."""
    if not spec.hyperparameters.turn_discount or not algorithm.is_online:
        return
    compared = [name.upper() for name, one in ALGORITHMS.items() if one.compares_ends]
    others = f"must be 0, or absent: answers are compared by {', '.join(compared)}, and not by {algorithm.name.upper()}"
    faults.unless(algorithm.compares_ends, "turn_discount", others)
    alone = "must be 0, or absent, without an environment: there is one answer, and it has the whole reward"
    faults.unless(spec.environment is not None, "turn_discount", alone)
    penalty = "must be 0, or absent, with kl_in_reward, which rewards tokens"
    faults.unless(not spec.hyperparameters.kl_in_reward, "turn_discount", penalty)
    normalised = "must be 0, or absent, with gdpo, which normalises the rewards of whole episodes"
    faults.unless(spec.reward.combination != Combination.GDPO, "turn_discount", normalised)
    own = plugins.named(spec.plugins, PluginKind.ADVANTAGE)
    faults.unless(own is None, "turn_discount", "must be 0, or absent: a plug-in makes the advantages")


def _check_effects(taken: Hyperparameters, algorithm: Algorithm, faults: Faults) -> None:
    """What would have no effect beside the other values."""
    constant = taken.learning_rate_schedule == LearningRateSchedule.CONSTANT
    stays = "must be 0, or absent: learning_rate_schedule is constant"
    faults.unless(not (constant and taken.learning_rate_end_ratio), "learning_rate_end_ratio", stays)
    free = "must be false, or absent: kl_coefficient is 0"
    faults.unless(not taken.kl_in_reward or bool(taken.kl_coefficient), "kl_in_reward", free)
    faults.unless(bool(taken.lora_rank) or taken.lora_alpha is None, "lora_alpha", "must be absent: lora_rank is 0")
    of_buffer = taken.overlong_buffer != algorithm.defaults.overlong_buffer and taken.overlong_penalty == 0
    faults.unless(not of_buffer, "overlong_buffer", "must be absent: overlong_penalty is 0")


def notices(spec: RunSpec) -> Sequence[str]:
    """What was chosen, is no fault, and has less of an effect than it seems to."""
    taken, algorithm, said = spec.hyperparameters, ALGORITHMS[spec.algorithm], []
    warmup = taken.warmup_steps or 0
    if warmup > spec.steps and warmup != algorithm.defaults.warmup_steps:
        said.append(
            f"the warm-up of {warmup} steps is longer than the run: its last step has"
            f" {spec.steps / warmup:.0%} of the learning rate"
        )
    if algorithm.is_grouped and (taken.group_size or FEW) < FEW:
        said.append(
            f"groups of {taken.group_size} completions often earn one reward, and nothing is learned from those: a"
            f" group_size of {FEW} or more finds more differences"
        )
    clips = (taken.clip_low, taken.clip_high)
    is_chosen = algorithm.is_online and clips != (algorithm.defaults.clip_low, algorithm.defaults.clip_high)
    again = any(setting.startswith("actor_rollout_ref.actor.ppo_epochs") for setting in spec.verl_overrides)
    if is_chosen and not again and taken.mini_batch_size == taken.batch_size:
        said.append(
            "clip_low and clip_high have no effect: a batch is learned from once (mini_batch_size is batch_size), so no"
            " ratio is other than 1"
        )
    return said


def _check_together(spec: RunSpec, found: Found, limits: Limits, algorithm: Algorithm, faults: Faults) -> None:
    """The values against one another, and against what the references lead to."""
    taken, ranks = spec.hyperparameters, spec.resources.ranks
    _check_batches(taken, algorithm, ranks, limits, faults.under("hyperparameters"))
    fewest = spec.resources.smallest.ranks
    shared = taken.is_shared_by(fewest) or not taken.is_shared_by(ranks)
    faults.unless(shared, "resources.min_nodes", f"must let its {fewest} ranks share each batch and update evenly")
    _check_staleness(spec, faults)
    mixture = "must be 0: the base is a mixture of experts, into which adapters cannot be merged"
    has_experts = found.base is not None and found.base.has_experts
    faults.unless(not (taken.lora_rank and has_experts), "hyperparameters.lora_rank", mixture)
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
    if spec.hyperparameters.max_staleness > 1 and (reason := _one_after_the_other(spec)):
        faults.add(field, f"must be at most 1: {reason}")
    for index, override in enumerate(spec.verl_overrides):
        if override == "algorithm.rollout_correction.rollout_is=null":
            faults.add(f"verl_overrides[{index}]", "must not set it to null: it weighs samples that are stale")


def _one_after_the_other(spec: RunSpec) -> str:
    """The reason why each step has to learn from the prompts that were drawn for it; empty where there is none."""
    if ALGORITHMS[spec.algorithm].replaces_groups:
        return f"{spec.algorithm} draws other prompts in a step, once the rewards of all of it are known"
    for field in ("max_tokens", "budget"):
        if getattr(spec, field) is not None:
            return f"{field} may make any step the last one"
    if spec.hyperparameters.temperature_end not in (None, spec.hyperparameters.temperature):
        return "temperature_end gives each step a temperature of its own"
    return ""


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
