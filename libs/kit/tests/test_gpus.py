from pathlib import Path

import pytest

from ratchet_kit import gpus


@pytest.mark.parametrize(
    ("named", "expected"),
    [
        ("0", ["0"]),
        ("2, 5", ["2", "5"]),
        ("GPU-8a,GPU-9b", ["GPU-8a", "GPU-9b"]),
        ("", []),
        ("-1", []),
        ("1,-1,2", ["1"]),
    ],
)
def test_the_variable_names_what_this_process_may_use(tmp_path: Path, named: str, expected: list[str]) -> None:
    (tmp_path / "nvidia0").touch()
    assert gpus.visible({"CUDA_VISIBLE_DEVICES": named}, tmp_path) == expected


def test_without_it_all_are_counted_as_cuda_numbers_them(tmp_path: Path) -> None:
    for name in ("nvidia3", "nvidia5", "nvidiactl", "nvidia-uvm"):
        (tmp_path / name).touch()
    assert gpus.visible({}, tmp_path) == ["0", "1"]
