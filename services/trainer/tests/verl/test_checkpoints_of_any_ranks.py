"""A checkpoint is read by another number of ranks: the same weights, moments and rate, bit by bit."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="needs the trainer environment")
pytest.importorskip("verl", reason="needs the trainer environment")

from ratchet_kit.errors import InvalidArgument  # noqa: E402
from trainer_service.verl.rank.patches.checkpoints_of_any_ranks import CheckpointManager  # noqa: E402

pytestmark = pytest.mark.verl

RANK = Path(__file__).with_name("rank_of_checkpoint.py")


def run(ranks: int, folder: Path, steps: int, loaded: Path | None = None) -> Path:
    """Trains on as many ranks from `loaded`, or from the start."""
    folder.mkdir()
    environ = os.environ | {
        "VERL_PLATFORM": "cpu",
        "VERL_USE_EXTERNAL_MODULES": "trainer_service.verl.rank",
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    rest = [str(ranks), str(folder), str(steps), *([str(loaded)] if loaded else [])]
    command = [sys.executable, "-W", "ignore", str(RANK)]
    processes = [subprocess.Popen([*command, str(rank), *rest], env=environ) for rank in range(ranks)]
    assert [one.wait() for one in processes] == [0] * ranks
    return folder


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Of two ranks that trained, of one that read it, and of two that read that."""
    root = tmp_path_factory.mktemp("checkpoints")
    two = run(2, root / "two", 2)
    one = run(1, root / "one", 0, two)
    return [two, one, run(2, root / "again", 0, one)]


@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", ["tied", "lora", "critic", "partly"])
def test_two_ranks_to_one_and_back(kind: str, folders: list[Path]) -> None:
    first, *others = (
        torch.load(file, weights_only=False)
        for folder in folders
        for file in sorted((folder / kind).glob("whole-*.pt"))
    )
    weights, moments, rest, random = first
    second, alone, again, _ = others
    assert torch.equal(alone[3], random)  # each draws what it would have drawn, where it was there
    assert torch.equal(again[3], random)
    assert not torch.equal(second[3], random)
    assert moments
    assert rest == {"schedule": 2, "rate": pytest.approx(0.01 / 3)}
    for its_weights, its_moments, its_rest, _ in others:
        for then, now in ((weights, its_weights), (moments, its_moments)):
            assert {*then} == {*now}
            assert all(torch.equal(now[name], value) for name, value in then.items())
        assert its_rest == rest


def test_one_that_verl_wrote_on_other_ranks_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model_world_size_2_rank_0.pt").touch()
    manager = object.__new__(CheckpointManager)
    manager.rank, manager.world_size = 0, 1
    with pytest.raises(InvalidArgument, match="the number of ranks alone that wrote it, which is not 1"):
        manager.load_checkpoint(str(tmp_path))
