"""What answers earn, and what judges them."""

from collections.abc import Sequence

import ratchet_rewards
from ratchet_kit.faults import Faults
from ratchet_rewards import Combination, Component, Reward
from ratchet_rewards.catalogue import Kind
from trainer_service.domain.inputs.found import Found, FoundSet
from trainer_service.domain.spec.algorithms import ALGORITHMS, Algorithm
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
    gaps = found.problems.gaps if found.problems else ()
    for component in spec.reward.components:
        answered = [gap.id for gap in gaps if gap.program and component.counts_for(gap.tags)]
        if component.name in readers and answered:
            said.append(f"{component.name}: only programs are read; answers to {answered[0]} and its like get 0 there")
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
            if there:
                _check_measurable(component, known, field, there, own)
    _check_tags(reward, found, faults)


def _check_measurable(component: Component, known: Kind | None, field: str, there: FoundSet, own: Faults) -> None:
    """`known`: None for a reward of one's own."""
    gaps = [gap for gap in there.gaps if component.counts_for(gap.tags)]
    bare = next((gap.id for gap in gaps if gap.reference), "")
    if known and known.needs_reference and bare:
        own.add("name", f"must not be {component.name}, which needs references: {bare} of {field} has none")
    untested = next((gap.id for gap in gaps if gap.tests), "")
    if known and known.needs_tests and untested:
        has_none = f"{untested} of {field} has none; a reward of your own can judge it (docs/rewards.md)"
        own.add("name", f"must not be {component.name}, which needs tests: {has_none}")
    if component.passing_only and untested:
        own.add("passing_only", f"must be false: {untested} of {field} has no tests to pass")
    answered = next((gap.id for gap in gaps if gap.program), "")
    if known and known.runs and answered:
        has_none = f"{answered} of {field} has a right answer, and no program"
        own.add("name", f"must not be {component.name}, which runs programs: {has_none}")


def _check_tags(reward: Reward, found: Found, faults: Faults) -> None:
    """Is each tag one of a problem's, and does something count for each problem?"""
    if not any(component.tags for component in reward.components):
        return
    sets = {"problems": found.problems, "validation_problems": found.validation_problems}
    there = {field: {kind.tags for kind in one.kinds} for field, one in sets.items() if one}
    known = {tag for every in there.values() for tags in every for tag in tags}
    for place, component in enumerate(reward.components):
        if there and (unknown := [tag for tag in component.tags if tag not in known]):
            faults.add(
                f"components[{place}].tags", f"must be tags of the problems: none has {', '.join(unknown[:5])[:200]}"
            )
    for field, every in there.items():
        without = next((tags for tags in sorted(every) if not reward.of(tags).components), None)
        if without is not None:
            what = f"with the tags {', '.join(without)[:200]}" if without else "without tags"
            faults.add(
                "components", f"must have one that counts for each problem: of {field} none does for those {what}"
            )


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
    if spec.environment.on_folders:
        _check_episodes(spec, algorithm, faults)
    nothing = f"must be absent: {algorithm.name.upper()} answers nothing"
    if faults.unless(algorithm.is_rewarded, "environment", nothing):
        spec.environment.check(faults.under("environment"), plugins=True)
        chat = "must be absent: its replies are messages of a chat, and the prompts are texts"
        faults.unless(spec.prompt_form != PromptForm.COMPLETION, "environment", chat)


def _check_episodes(spec: RunSpec, algorithm: Algorithm, faults: Faults) -> None:
    """Checks a run on task folders. Algorithms whose baseline is a group's mean and deviation compare episodes by their
    ends; the others would count one that branches several times."""
    compared = [name.upper() for name, one in ALGORITHMS.items() if one.compares_ends]
    rule = f"must be one of {', '.join(compared)}, which compare whole episodes"
    faults.unless(algorithm.compares_ends, "algorithm", rule)
    own = "must be left out: who plays on task folders says itself what it asks the model"
    for field in ("system", "examples"):
        faults.unless(not getattr(spec, field), field, own)
    faults.unless(not spec.follow_problems, "follow_problems", "must be false: task folders are not followed")
    unrewarded = "must be absent: a task's verifier judges an episode as a whole"
    faults.unless(not spec.hyperparameters.unrewarded_tests, "hyperparameters.unrewarded_tests", unrewarded)
    gdpo = "must not be gdpo: it normalises over trajectories, of which an episode has several"
    faults.unless(spec.reward.combination != Combination.GDPO, "reward.combination", gdpo)
    for place, component in enumerate(spec.reward.components):
        kind = None if component.is_own else ratchet_rewards.COMPONENTS.get(component.name)
        reads = f"must not be {component.name}, which measures programs: an episode has its task's reward, or your own"
        measures = kind is not None and (kind.reads or kind.runs or kind.needs_reference or kind.needs_model)
        faults.unless(not measures, f"reward.components[{place}].name", reads)
