"""Policies in rollout-service: load one and wait for it, generate with it, unload it.

async with Fleet.of("rollout:8703") as engine:
    policy = await ensure_ready(engine, PolicySpec("starter@3", source, policy_id))
    answer = await engine.generate(policy.name, policy.policy_id, ChatPrompt(task.messages), Sampling(max_tokens=512))

Every completion is surely from the weights `policy_id` (DESIGN.md, I2): anything else raises. This package is plain
Python; what talks to rollout-services is in its modules `rollout` (one of them) and `fleet` (all that there are), which
only a service's `main` and adapters import.
"""

from ratchet_policies.engine import PolicyEngine
from ratchet_policies.generation import (
    Begun,
    BrokenOff,
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
    is_over_length,
    joined,
    joined_calls,
    no_room,
    over_length,
    require_whole,
)
from ratchet_policies.loading import LOST, ensure_ready, unload, with_recovery
from ratchet_policies.node import Engine, Node, NodeReport, NodeState
from ratchet_policies.policy import EngineUsage, Policy, PolicySpec, PolicyState, Purpose
from ratchet_policies.shares import EngineShare

__all__ = [
    "LOST",
    "Begun",
    "BrokenOff",
    "ChatPrompt",
    "Completion",
    "Delta",
    "Echo",
    "Engine",
    "EngineShare",
    "EngineUsage",
    "FinishReason",
    "Generation",
    "Node",
    "NodeReport",
    "NodeState",
    "Policy",
    "PolicyEngine",
    "PolicySpec",
    "PolicyState",
    "Prompt",
    "Purpose",
    "Sampling",
    "TextPrompt",
    "TokenCandidate",
    "TokenPrompt",
    "Tool",
    "Tools",
    "ensure_ready",
    "is_over_length",
    "joined",
    "joined_calls",
    "no_room",
    "over_length",
    "require_whole",
    "unload",
    "with_recovery",
]
