"""A Ray head of one's own, as far as it can be looked at without Ray."""

import errno
import os
from pathlib import Path

import pytest

from ratchet_kit.errors import Unavailable
from trainer_service.adapters.ray_head import LocalRay, RayHeadOptions


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EMFILE])
async def test_one_that_a_disk_or_a_limit_keeps_from_starting_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Any other error would fail the run some minutes later."""
    ray = LocalRay(RayHeadOptions(port=10_000 + os.getpid() % 20_000, log_file=tmp_path / "ray.log"), "trainer-1")

    def refused(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(Path, "mkdir", refused)
    with pytest.raises(Unavailable, match=os.strerror(number)):
        await ray.ensure()
    assert ray.running() is None
