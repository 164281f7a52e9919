"""From a completion to a reward: code out of the text, a program for the sandbox, a score out of its verdict.

async with Grader(GrpcSandbox(channel), reward=rewards.get("tests_passed")) as grader:
    graded = await grader.grade(problem, completion)  # raises Unavailable when the platform failed: mask the sample
    graded.reward.score, graded.reward.verdict
"""

from ratchet_rewards.extraction import extract_code
from ratchet_rewards.functions import Reward, RewardFunction, compose, get, names, register
from ratchet_rewards.grader import Graded, Grader
from ratchet_rewards.programs import program_for, source_for
from ratchet_rewards.sandbox import GrpcSandbox, SandboxPort

__all__ = [
    "Graded",
    "Grader",
    "GrpcSandbox",
    "Reward",
    "RewardFunction",
    "SandboxPort",
    "compose",
    "extract_code",
    "get",
    "names",
    "program_for",
    "register",
    "source_for",
]
