import pytest

pytest.importorskip("verl", reason="verl and torch are in the trainer environment")

from trainer_service.verl.rank import patches
from trainer_service.verl.rank.patches import held

pytestmark = pytest.mark.verl

SPLIT = "verl.utils.seqlen_balancing:get_seqlen_balanced_partitions"


def test_each_patch_says_what_it_replaces() -> None:
    for patch in patches.EVERYWHERE + patches.cpu.PATCHES:
        assert patch.HELD, patch.__name__


def test_another_verl_fails_by_the_name_of_what_is_not_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    held.check({SPLIT: held.digest_of(SPLIT)})

    def get_seqlen_balanced_partitions() -> None:
        """Of another version."""

    before = held.digest_of(SPLIT)
    monkeypatch.setattr(SPLIT.replace(":", "."), get_seqlen_balanced_partitions)
    with pytest.raises(ImportError, match=f"{SPLIT} is not the one"):
        held.check({SPLIT: before})


def test_what_is_gone_is_named() -> None:
    with pytest.raises(ImportError, match="no_such_thing is gone"):
        held.check({"verl.utils.model:no_such_thing": "0"})
