"""From layers to a level, and what a level still takes."""

import pytest

from sandbox_service.domain.levels import LAYERS, Level, lacks, level_of

STRICT = ["no-new-privs", "rlimits", "clean-environment", "landlock", "seccomp"]
WORLD = [*STRICT, "mount-ns", "pid-ns", "net-ns", "ipc-ns", "uts-ns", "private-root"]
ALL = [*WORLD, "unprivileged-uid", "cgroup"]


@pytest.mark.parametrize(
    ("layers", "level"),
    [
        ([], Level.NONE),
        (STRICT, Level.L1),
        ([*STRICT, "unprivileged-uid"], Level.L1),
        (["user-ns", *WORLD], Level.L2),
        ([*WORLD, "unprivileged-uid"], Level.L2),
        (ALL, Level.L3),
    ],
)
def test_a_level_is_reached_with_all_its_layers(layers: list[str], level: Level) -> None:
    assert level_of(layers) is level


@pytest.mark.parametrize("level", LAYERS)
def test_no_layer_of_a_level_can_be_spared(level: Level) -> None:
    for layer in LAYERS[level]:
        assert level_of(LAYERS[level] - {layer}) < level


def test_the_best_level_lacks_nothing() -> None:
    assert lacks(ALL, {}) == []


def test_what_is_missing_is_said_level_by_level_with_cause_and_remedy() -> None:
    refused = dict.fromkeys(["mount-ns", "private-root"], "unshare: Operation not permitted")
    second, third = lacks([*STRICT, "unprivileged-uid"], refused | {"cgroup": "/sys/fs/cgroup can't be written"})
    assert second.level is Level.L2
    assert second.layers == ("ipc-ns", "mount-ns", "net-ns", "pid-ns", "private-root", "uts-ns")
    assert str(second).startswith("L2 lacks ipc-ns, mount-ns")
    assert "(unshare: Operation not permitted): run the service as root" in str(second)
    assert third.layers == ("cgroup",)
    assert str(third) == (
        "L3 lacks cgroup (/sys/fs/cgroup can't be written): give the service a cgroup that it may write: root in a "
        "privileged pod, or systemd's Delegate=yes"
    )


def test_a_demand_is_answered_up_to_the_level_demanded() -> None:
    assert [lack.level for lack in lacks([], {}, Level.L2)] == [Level.L1, Level.L2]
