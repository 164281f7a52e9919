"""A reward with every choice made."""

from ratchet_rewards.catalogue import COMPONENTS, DEFAULT, PRESETS
from ratchet_rewards.registered import Lookup, resolved
from ratchet_rewards.reward import Combination, Component, Reward


def completed(reward: Reward, lookup: Lookup | None = None) -> Reward:
    """With its name resolved, every choice made and programs pinned, those of the registry as `lookup` has them. A name
    that there is not stays as it is."""
    known = lookup or Lookup()
    if not reward.components:
        name = reward.name or DEFAULT
        if name in PRESETS:
            preset = PRESETS[name]
            return Reward(components=preset.components, combination=reward.combination or preset.combination)
        component = resolved(Component(name), known)
        if name not in COMPONENTS and not component.is_own:
            return reward
        reward = Reward(components=(component,), combination=reward.combination)
    components = tuple(resolved(component, known).pinned() for component in reward.components)
    return Reward(reward.name, components, reward.combination or Combination.WEIGHTED_SUM)
