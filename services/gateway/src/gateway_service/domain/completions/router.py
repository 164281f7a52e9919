"""Which arm of a release answers a request."""

import hashlib
import random
from enum import StrEnum

from gateway_service.domain.releases import Release


class Arm(StrEnum):
    """NONE: no release decided. FALLBACK: the baseline answered in place of a candidate that failed the request."""

    NONE = "none"
    BASELINE = "baseline"
    CANDIDATE = "candidate"
    FALLBACK = "fallback"


def choose_arm(release: Release, routing_key: str, chance: random.Random) -> Arm:
    """The candidate with the probability of the release's percentage.

    A request with a routing key is placed by the key alone, so a key keeps its arm within a stage, and one that is on
    the candidate at 5 % is still on it at 25 %. Placement depends on the release too: the same keys are not always
    the first to meet a new version.
    """
    place = _place(release.id, routing_key) if routing_key else chance.random()
    return Arm.CANDIDATE if place * 100 < release.percent else Arm.BASELINE


def _place(release_id: str, routing_key: str) -> float:
    """A uniform number in [0, 1), fixed for the pair: the first 53 bits of sha256, as many as a float holds."""
    digest = hashlib.sha256(f"{release_id}\n{routing_key}".encode()).digest()
    return (int.from_bytes(digest[:8]) >> 11) / (1 << 53)
