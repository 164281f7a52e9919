"""Isolation levels: what a program is kept in, said in one word. Pure.

A level is a set of layers, all of them. L1 filters what a program can do (it can't make processes). L2 adds private
namespaces and a private root. L3 adds limits for the whole lane (a cgroup), and a uid per lane.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum

NAMESPACES = ("mount-ns", "pid-ns", "net-ns", "ipc-ns", "uts-ns")


class Level(IntEnum):
    NONE = 0
    L1 = 1
    L2 = 2
    L3 = 3

    def __str__(self) -> str:
        return self.name


_L1 = frozenset({"no-new-privs", "rlimits", "clean-environment", "landlock", "seccomp"})
_L2 = _L1 | {*NAMESPACES, "private-root"}
_L3 = _L2 | {"unprivileged-uid", "cgroup"}
LAYERS = {Level.L1: _L1, Level.L2: _L2, Level.L3: _L3}

_OWN_WORLD = (
    "run the service as root in a machine of its own or a privileged pod, or allow unprivileged user namespaces "
    "(sysctl kernel.unprivileged_userns_clone=1, or kernel.apparmor_restrict_unprivileged_userns=0; in Docker "
    "--security-opt seccomp=unconfined --security-opt systempaths=unconfined)"
)
_REMEDIES = {
    "landlock": 'start Linux (5.13 or newer) with "landlock" in lsm=',
    "seccomp": "run on x86-64 or ARM64 with CONFIG_SECCOMP_FILTER",
    "unprivileged-uid": "run the service as root, in a machine of its own or a privileged pod",
    "cgroup": "give the service a cgroup that it may write: root in a privileged pod, or systemd's Delegate=yes",
    "private-root": _OWN_WORLD,
    **dict.fromkeys(NAMESPACES, _OWN_WORLD),
}


@dataclass(frozen=True, slots=True)
class Lack:
    """What keeps a node from a level."""

    level: Level
    layers: tuple[str, ...]
    reason: str
    remedy: str

    def __str__(self) -> str:
        reason = f" ({self.reason})" if self.reason else ""
        return f"{self.level} lacks {', '.join(self.layers)}{reason}: {self.remedy}"


def level_of(layers: Iterable[str]) -> Level:
    have = frozenset(layers)
    return max((level for level, wanted in LAYERS.items() if wanted <= have), default=Level.NONE)


def lacks(layers: Iterable[str], refused: dict[str, str], want: Level = Level.L3) -> list[Lack]:
    """For each level up to `want` that isn't reached, what it takes beyond the one below.

    `refused`: a layer to the reason why it isn't there, as far as that is known.
    """
    have = frozenset(layers)
    found = []
    below: frozenset[str] = frozenset()
    for level, wanted in LAYERS.items():
        missing = tuple(sorted(wanted - below - have))
        if missing and level <= want:
            reason = "; ".join(dict.fromkeys(refused[layer] for layer in missing if layer in refused))
            remedies = dict.fromkeys(_REMEDIES[layer] for layer in missing if layer in _REMEDIES)
            found.append(Lack(level, missing, reason, "; ".join(remedies) or "upgrade the kernel"))
        below = wanted
    return found
