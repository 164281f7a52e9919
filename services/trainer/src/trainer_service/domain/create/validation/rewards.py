"""What answers earn, and what judges them."""

from collections.abc import Sequence

import ratchet_rewards
from ratchet_kit.faults import Faults
from ratchet_rewards import Combination, Reward
from trainer_service.domain.inputs.found import Found
from trainer_service.domain.spec.algorithms import Algorithm
from trainer_service.domain.spec.spec import PromptForm, RunSpec


def check(spec: RunSpec, found: Found, algorithm: Algorithm, faults: Faults) -> None:
    if algorithm.is_rewarded:
        _check_reward(spec.reward, algorithm, found, faults.under("reward"))
        _check_reward_model(spec, found, faults)
    else:
        _check_no_reward(spec.reward, algorithm, faults)
    _check_environment(spec, algorithm, faults)


def notices(spec: RunSpec, found: Found) -> Sequence[str]:
    """Sentences on the reward that are no fault, and should be known."""
    languages = found.problems.languages if found.problems else ()
    kinds = {one.name: ratchet_rewards.kind(one) for one in spec.reward.components if not one.is_own}
    readers = [name for name, kind in kinds.items() if kind.reads]
    said = []
    if languages and readers:
        said.append(f"{' and '.join(readers)}: only Python is read; answers in {', '.join(languages)} get 0 there")
    if readers and found.problems and found.problems.with_answer:
        said.append(
            f"{' and '.join(readers)}: only programs are read; answers to {found.problems.with_answer} get 0 there"
        )
    return said


def _check_reward(reward: Reward, algorithm: Algorithm, found: Found, faults: Faults) -> None:
    ratchet_rewards.check(reward, faults, found.rewards)
    if reward.combination == Combination.GDPO:
        group = f"must not be gdpo: {algorithm.name.upper()} has no groups in which components could be normalised"
        faults.unless(algorithm.is_grouped, "combination", group)
        gains = f"must not be gdpo: {algorithm.name.upper()} rewards gains, and gdpo gives one answer no reward"
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
            if known and known.runs and there and there.with_answer:
                bare = f"{there.with_answer} of {field} has a right answer, and no program"
                own.add("name", f"must not be {component.name}, which runs programs: {bare}")
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
    for fault in model.faults:
        faults.add(field, f"must be a whole model: {fault}")
    faults.unless(model.has_tokenizer, field, f"must have a tokenizer: {model.ref} has no tokenizer.json")
    template = f"must have a chat template, by which it reads prompt and answer: {model.ref} has none"
    faults.unless(model.has_chat_template, field, template)
    longest = spec.hyperparameters.max_tokens
    if 0 < model.max_tokens < longest:
        room = (
            f"must have room for a prompt and a response, {longest} tokens: {model.ref} has it for {model.max_tokens}"
        )
        faults.add(field, f"{room}; take fewer max_prompt_tokens or max_response_tokens")


def _check_no_reward(reward: Reward, algorithm: Algorithm, faults: Faults) -> None:
    for name in ("name", "components", "combination"):
        if getattr(reward, name):
            learned = "pairs" if algorithm.takes_pairs else "references"
            faults.add(f"reward.{name}", f"must be empty: {algorithm.name.upper()} learns from {learned}")


def _check_environment(spec: RunSpec, algorithm: Algorithm, faults: Faults) -> None:
    if spec.environment is None:
        return
    nothing = f"must be absent: {algorithm.name.upper()} answers nothing"
    if faults.unless(algorithm.is_rewarded, "environment", nothing):
        spec.environment.check(faults.under("environment"), plugins=True)
        chat = "must be absent: its replies are messages of a chat, and the prompts are texts"
        faults.unless(spec.prompt_form != PromptForm.COMPLETION, "environment", chat)
