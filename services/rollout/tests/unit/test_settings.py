"""What the settings make of the machine."""

import pytest

from ratchet_kit.errors import FailedPrecondition
from ratchet_policies import Purpose
from rollout_service.settings import Settings

EIGHT = "0,1,2,3,4,5,6,7"


def test_policies_share_a_gpu_by_capacity() -> None:
    settings = Settings(device="cuda", gpus="0")
    assert settings.policies == 4
    assert (settings.devices.shares, settings.devices.memory_share) == (4, pytest.approx(0.9 / 4))


def test_with_more_gpus_than_policies_each_has_one_of_its_own() -> None:
    settings = Settings(device="cuda", gpus=EIGHT)
    assert settings.policies == 8
    assert settings.devices.memory_share == pytest.approx(0.9)


def test_policies_over_all_gpus_share_each_of_them() -> None:
    settings = Settings(device="cuda", gpus=EIGHT, tensor_parallel_size=8)
    assert settings.policies == 4
    assert settings.devices.memory_share == pytest.approx(0.9 / 4)


def test_gpus_are_those_that_the_process_sees(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,1")
    assert Settings(device="cuda").devices.ids == ("3", "1")


def test_gpus_that_are_not_there_keep_the_service_from_starting() -> None:
    with pytest.raises(FailedPrecondition, match=r"8 GPUs .* sees 1"):
        assert Settings(device="cuda", gpus="0", tensor_parallel_size=8).devices


def test_the_cpu_has_six_policies_and_no_devices() -> None:
    """Four of them for serving: as many as before places were kept for training and evaluation."""
    settings = Settings(gpus=EIGHT)
    assert (settings.policies, settings.devices.ids) == (6, ())
    assert settings.room.free([], Purpose.SERVING) == 4
    assert settings.devices.place([], 2) == ()


def test_places_are_kept_by_purpose(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RATCHET_ROLLOUT_KEPT_FOR", '{"serving": 3, "training": 1}')
    assert Settings(capacity=4).room.free([], Purpose.TRAINING) == 1
    with pytest.raises(FailedPrecondition, match="keeps 4 places of the 2"):
        assert Settings(capacity=2).room
