"""What an open choice of a spec becomes. Every default is made here, once, at Create: GetRun shows what was taken.

An algorithm's own defaults stand in its row (`algorithms`). Which set a run is validated on by default depends on what
sets there are: `references` finds it.
"""

from collections.abc import Sequence
from dataclasses import replace

import ratchet_rewards
from ratchet_kit.work import Priority
from ratchet_rewards import Reward
from trainer_service.domain.create.memory import LEAST_TOKENS, fitting, training
from trainer_service.domain.inputs.found import Found, FoundModel
from trainer_service.domain.spec import curriculum
from trainer_service.domain.spec.algorithms import ALGORITHMS, Algorithm
from trainer_service.domain.spec.hyperparameters import Hyperparameters
from trainer_service.domain.spec.limits import Limits
from trainer_service.domain.spec.plugins import pinned
from trainer_service.domain.spec.spec import Keep, Passes, PromptForm, Resources, RunSpec

LOGGERS = ("console",)
KEPT_GROUPS = 16
"""Number for each step: 128 samples where a group has 8."""
LORA_ALPHA = 32
LORA_RATE = 10
"""Times the learning rate of all weights. Both are of Schulman et al. 2025, "LoRA Without Regret": with this alpha the
best rate does not depend on the rank."""
TOKENS = 256
"""Of a prompt, and of a response, where the model has room for both."""


def complete(spec: RunSpec, found: Found, limits: Limits) -> RunSpec:
    """The spec with every choice made and its references pinned to what they lead to now: an alias may point elsewhere
    tomorrow, and every attempt starts from what it named at Create.

    Choices that are made already are kept, so that completing twice changes nothing. What is wrong, or was not found,
    stays as it is, for `validation.check` to name.
    """
    algorithm = ALGORITHMS.get(spec.algorithm)
    resources = Resources(
        nodes=1 if spec.resources.nodes is None else spec.resources.nodes,
        accelerators_per_node=1
        if spec.resources.accelerators_per_node is None
        else spec.resources.accelerators_per_node,
        device=spec.resources.device or limits.devices[0],
        engines=1 if spec.resources.engines is None else spec.resources.engines,
        min_nodes=spec.resources.min_nodes,
        shares_gpu=spec.resources.shares_gpu,
    )
    hyperparameters = (
        _hyperparameters(algorithm, spec.hyperparameters, resources, found, limits)
        if algorithm
        else spec.hyperparameters
    )
    return replace(
        spec,
        base=found.base.ref if found.base else spec.base,
        problems=found.problems.ref if found.problems else spec.problems,
        pairs=found.pairs.ref if found.pairs else spec.pairs,
        validation_pairs=found.validation_pairs.ref if found.validation_pairs else spec.validation_pairs,
        validation_problems=found.validation_problems.ref if found.validation_problems else spec.validation_problems,
        validate=found.validate or spec.validate,
        examples=found.examples.ref if found.examples else spec.examples,
        resources=resources,
        hyperparameters=hyperparameters,
        curriculum=spec.curriculum and curriculum.completed(spec.curriculum, hyperparameters.group_size),
        reward=_reward(spec.reward, algorithm, found),
        loggers=spec.loggers or LOGGERS,
        plugins=pinned(spec.plugins, found.plugins),
        prompt_form=spec.prompt_form or (found.pairs.form if found.pairs else "") or _form_of(found.base),
        priority=spec.priority or Priority.NORMAL,
        kept_groups=KEPT_GROUPS if spec.kept_groups is None and algorithm and algorithm.is_online else spec.kept_groups,
        environment=spec.environment.completed(found.environment) if spec.environment else None,
        keep=spec.keep or Keep(),
    )


def _reward(reward: Reward, algorithm: Algorithm | None, found: Found) -> Reward:
    """Of steps, that which grows with each test."""
    if algorithm and not algorithm.is_rewarded:
        return reward
    if algorithm and algorithm.has_steps and not (reward.name or reward.components):
        reward = replace(reward, name="tests_fraction")
    reward = ratchet_rewards.completed(reward, found.rewards)
    if found.reward_model is None:
        return reward
    model = found.reward_model.ref
    return replace(reward, components=tuple(replace(one, model=one.model and model) for one in reward.components))


def _form_of(base: FoundModel | None) -> PromptForm:
    return PromptForm.CHAT if base is None or base.has_chat_template else PromptForm.COMPLETION


def _hyperparameters(
    algorithm: Algorithm, chosen: Hyperparameters, resources: Resources, found: Found, limits: Limits
) -> Hyperparameters:
    """`chosen`, with the algorithm's defaults where it says nothing."""
    base = found.base
    of_size = algorithm.small if base and base.is_small else Hyperparameters()
    taken = chosen.over(of_size).over(algorithm.defaults)
    taken = taken.over(_lengths(taken, base.max_tokens if base else 0))
    if taken.lora_rank:
        taken = _of_lora(taken.over(Hyperparameters(lora_alpha=LORA_ALPHA)), chosen)
    if algorithm.is_online:
        computed = Hyperparameters(
            mini_batch_size=_mini_batch(taken, algorithm.updates, resources.ranks),
            temperature_end=taken.temperature,
        )
        taken = taken.over(computed)
    return _passes(taken, algorithm, resources, found, limits)


def _of_lora(taken: Hyperparameters, chosen: Hyperparameters) -> Hyperparameters:
    if chosen.learning_rate is not None or taken.learning_rate is None:
        return taken
    return replace(taken, learning_rate=round(LORA_RATE * taken.learning_rate, 12))


def _passes(
    taken: Hyperparameters, algorithm: Algorithm, resources: Resources, found: Found, limits: Limits
) -> Hyperparameters:
    """With the longest passes, and the fewest computed twice, that the memory holds."""
    together = taken.together(algorithm.takes_pairs)
    counted = training(taken, algorithm, resources, found, limits)
    if counted is None or limits.memory_bytes is None:
        passes = Passes(max(together, LEAST_TOKENS), recomputed=True)
    else:
        passes = fitting(counted, limits.memory_bytes, taken.micro_batch_tokens, taken.gradient_checkpointing)
    chosen = Hyperparameters(micro_batch_tokens=passes.tokens, gradient_checkpointing=passes.recomputed)
    return taken.over(chosen)


def _mini_batch(taken: Hyperparameters, updates: int, ranks: int) -> int:
    """For as many equal updates of a step as there are to be, or the most that the ranks can share."""
    prompts = max(taken.batch_size or 0, 1)  # a batch of none is a fault of batch_size alone
    for count in range(updates, 1, -1):
        if prompts % count == 0 and replace(taken, mini_batch_size=prompts // count).update_sequences(ranks):
            return prompts // count
    return prompts


def _lengths(chosen: Hyperparameters, room: int) -> Hyperparameters:
    """Half of the room each, or what the other leaves of it. `room`: tokens; 0: not known."""
    each = min(TOKENS, room // 2) if room else TOKENS
    left = [
        room - (other or each) if room else TOKENS for other in (chosen.max_response_tokens, chosen.max_prompt_tokens)
    ]
    prompt, response = (max(1, min(TOKENS, tokens)) for tokens in left)
    return Hyperparameters(max_prompt_tokens=prompt, max_response_tokens=response)


def notices(completed: RunSpec) -> Sequence[str]:
    """The choices that nobody made and that should be known."""
    is_chosen = completed.chosen_by or completed.validate
    if is_chosen or ALGORITHMS[completed.algorithm].makes_reward_model:
        return ()
    return ["no set chooses the best checkpoint, so the last one is registered: name validation_problems to choose"]
