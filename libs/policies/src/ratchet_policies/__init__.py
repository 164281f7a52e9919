"""Policies in rollout-service: load one and wait for it, generate with it, unload it.

engine = RolloutEngine(channel)
policy = await ensure_ready(engine, PolicySpec("starter@3", source, policy_id))
generation = await engine.generate(policy.name, policy.policy_id, ChatPrompt(task.messages), Sampling(max_tokens=512))

Every completion is surely from the weights `policy_id` (DESIGN.md, I2): anything else raises. This package is plain
Python; what talks to rollout-service is in its module `rollout`, which only a service's `main` and adapters import.
"""

from ratchet_policies.engine import PolicyEngine
from ratchet_policies.generation import (
    ChatPrompt,
    Completion,
    Delta,
    Echo,
    FinishReason,
    Generation,
    Prompt,
    Sampling,
    TextPrompt,
    TokenCandidate,
    TokenPrompt,
    Tool,
    Tools,
)
from ratchet_policies.loading import LOST, ensure_ready, unload, with_recovery
from ratchet_policies.policy import Policy, PolicySpec, PolicyState

__all__ = [
    "LOST",
    "ChatPrompt",
    "Completion",
    "Delta",
    "Echo",
    "FinishReason",
    "Generation",
    "Policy",
    "PolicyEngine",
    "PolicySpec",
    "PolicyState",
    "Prompt",
    "Sampling",
    "TextPrompt",
    "TokenCandidate",
    "TokenPrompt",
    "Tool",
    "Tools",
    "ensure_ready",
    "unload",
    "with_recovery",
]
