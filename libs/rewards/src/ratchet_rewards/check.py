"""The faults of a reward: every one, each with the path of its field."""

import difflib

from ratchet_kit.faults import Faults
from ratchet_kit.names import check_reward_name
from ratchet_kit.syntax import parse
from ratchet_rewards.catalogue import COMPONENTS, PRESETS, kind
from ratchet_rewards.registered import MOST, Lookup, ref_of
from ratchet_rewards.reward import Combination, Component, Reward

MAX_PROGRAM_BYTES = 32 << 10
"""Bytes of all programs together: a job is started with them."""
MAX_WEIGHT = 1e6
MOST_TAGS = 100
SHORT = "tests"
"""The name of `tests_passed` in the short form of a reward."""
TEXT = "must be the text of a program, without control characters"


def check(reward: Reward, faults: Faults, lookup: Lookup | None = None) -> None:
    """Adds every fault of a reward that `completed` has made with the same `lookup`."""
    known_there = lookup or Lookup()
    if reward.name:
        alone = Component(reward.name)
        missing = known_there.reason(ref_of(alone))
        if reward.components:
            faults.add("name", "must be empty where there are components")
        elif alone.plugin:
            faults.add("name", f"is not available: {known_there.missing_plugins.get(alone.plugin, 'no such plug-in')}")
        elif missing:
            there_are = ", ".join([*COMPONENTS, *PRESETS])
            faults.add("name", f"must be one of {there_are}, or of the registry: {missing}")
        else:
            faults.one_of("name", reward.name, [*COMPONENTS, *PRESETS])
    faults.one_of("combination", reward.combination or Combination.WEIGHTED_SUM, list(Combination))
    faults.unless(len(reward.components) <= MOST, "components", f"must be at most {MOST}")
    size = sum(len(component.program.encode("utf-8", "replace")) for component in reward.components)
    longest = f"must have programs of at most {MAX_PROGRAM_BYTES >> 10} KiB in all, not {size} bytes"
    faults.unless(size <= MAX_PROGRAM_BYTES, "components", longest)
    in_order = reward.combination == Combination.LEXICOGRAPHIC
    for place, component in enumerate(reward.components[:MOST]):
        own = faults.under(f"components[{place}]")
        _check_name(component, [one.name for one in reward.components[:place]], known_there, own)
        _check_weights(component, in_order, own)
        known = kind(component) if component.is_own or component.name in COMPONENTS else None
        if known is None:
            continue
        if known.needs_model:
            missing = (
                "is missing: name a reward model, a folder or a version of the registry (docs/rewards.md#preference)"
            )
            own.unless(component.model, "model", missing)
        else:
            own.unless(not component.model, "model", f"must be absent: {component.name[:80]} is not scored by a model")
        _check_tags(component, own)
        if component.veto_below is not None:
            own.bounds("veto_below", component.veto_below, above=known.low, at_most=1)
        for name, value in component.parameters.items():
            if name in known.parameters:
                own.bounds(f"parameters.{name}", value, **known.parameters[name])
            else:
                there_are = ", ".join(known.parameters) or "none"
                own.add(
                    f"parameters.{name[:80]}",
                    f"must be absent: {component.name[:80]} has no such parameter (it has: {there_are})",
                )
    _check_sum(reward, faults)


def check_own(name: str, program: str, faults: Faults) -> None:
    """Adds the faults of a reward of one's own that is to stand in the registry."""
    faults.read("name", check_reward_name, name)
    taken = _is_ratchets(name) or name == SHORT
    faults.unless(not taken, "name", f"must not be {name}, which is one of Ratchet's own")
    size = len(program.encode("utf-8", "replace"))
    if faults.required("source", program.strip()):
        longest = f"must have at most {MAX_PROGRAM_BYTES >> 10} KiB, not {size} bytes"
        faults.unless(size <= MAX_PROGRAM_BYTES, "source", longest)
        _check_program("source", program, faults)


def _check_program(field: str, program: str, faults: Faults) -> None:
    if not _is_text(program):
        faults.add(field, TEXT)
    elif len(program) <= MAX_PROGRAM_BYTES and (reason := _no_python(program)):
        faults.add(field, f"is not valid Python: {reason}")


def _no_python(program: str) -> str:
    """Why; empty where it is."""
    try:
        parse(program)
    except SyntaxError as error:
        return f"line {error.lineno}: {error.msg}"
    except (ValueError, RecursionError, MemoryError) as error:
        return str(error) or "too deeply nested"
    return ""


def _check_name(component: Component, before: list[str], lookup: Lookup, faults: Faults) -> None:
    name = component.name
    if component.version:
        _check_registered(component, lookup, faults)
    elif component.plugin:
        reason = lookup.missing_plugins.get(component.plugin, "" if component.digest else "no such plug-in")
        faults.unless(not reason, "name", f"is not available: {reason}")
    elif component.program:
        faults.unless(
            name.isidentifier() and name.isascii() and len(name) <= 40,
            "name",
            "must be a name of letters, digits and _",
        )
        faults.unless(not _is_ratchets(name), "name", f"must not be {name}, which is one of Ratchet's own")
        _check_program("program", component.program, faults)
    elif name not in COMPONENTS:
        missing = lookup.reason(ref_of(component))
        if missing and "@" in name:
            faults.add("name", f"is not available: {missing}")
        else:
            near = difflib.get_close_matches(name, COMPONENTS, 1, cutoff=0.4)
            hint = f"did you mean {near[0]}? " if near else ""
            there_are = f"there are {', '.join(COMPONENTS)}, and your own with a program, or plugin:NAME"
            registered = f", or in the registry: {missing}" if missing else ""
            faults.add("name", f"is not a component: {name[:80]!r}; {hint}{there_are}{registered}")
    faults.unless(name not in before, "name", f"must not be {name[:80]} twice")


def _check_registered(component: Component, lookup: Lookup, faults: Faults) -> None:
    ref = ref_of(component)
    one = lookup.found.get(ref) if ref else None
    if ref is None or one is None:
        faults.add("version", lookup.reason(ref) or "must be the number of a reward of the registry that `name` names")
    elif component.program != one.program:
        faults.add("program", f"must be absent, or the source of {ref}")


def _is_ratchets(name: str) -> bool:
    return name in COMPONENTS or name in PRESETS


def _is_text(program: str) -> bool:
    return all(ord(letter) >= 32 or letter in "\t\n\r\f" for letter in program)


def _check_weights(component: Component, in_order: bool, faults: Faults) -> None:
    if in_order:
        faults.unless(component.weight is None, "weight", "must be absent: a lexicographic reward goes by the order")
        faults.unless(not component.schedule, "schedule", "must be absent: a lexicographic reward goes by the order")
        return
    if component.weight is not None:
        faults.bounds("weight", component.weight, at_least=-MAX_WEIGHT, at_most=MAX_WEIGHT)
        faults.unless(not component.schedule, "weight", "must be absent where there is a schedule")
    last = 0
    for place, point in enumerate(component.schedule):
        faults.bounds(f"schedule[{place}].weight", point.weight, at_least=-MAX_WEIGHT, at_most=MAX_WEIGHT)
        faults.unless(point.step > last, f"schedule[{place}].step", f"must be {last + 1} or more")
        last = max(last, point.step)


def _check_tags(component: Component, faults: Faults) -> None:
    faults.unless(len(component.tags) <= MOST_TAGS, "tags", f"must be at most {MOST_TAGS}")
    for place, tag in enumerate(component.tags[:MOST_TAGS]):
        faults.required(f"tags[{place}]", tag.strip())


def _check_sum(reward: Reward, faults: Faults) -> None:
    if not reward.components or reward.combination == Combination.LEXICOGRAPHIC:
        return
    steps = {1} | {point.step for component in reward.components for point in component.schedule}
    for step in sorted(steps):
        if not any(component.weight_at(step) for component in reward.components):
            faults.add("components", f"must not all have the weight 0, as at step {step}: nothing is rewarded")
            return
