from pathlib import Path

from ratchet_kit import memory


def test_a_container_may_have_less_than_its_machine(tmp_path: Path) -> None:
    limit = tmp_path / "memory.max"
    whole = memory.of_machine(limit)
    limit.write_text("1048576\n")
    assert memory.of_machine(limit) == 1 << 20
    limit.write_text("max\n")
    assert memory.of_machine(limit) == whole > 1 << 20


def test_the_kernels_kills_are_counted(tmp_path: Path) -> None:
    counts = tmp_path / "vmstat"
    assert memory.kills(counts) == 0
    counts.write_text("nr_free_pages 12\noom_kill 3\n")
    assert memory.kills(counts) == 3
