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


def test_what_is_free_is_that_of_the_container_where_it_has_less(tmp_path: Path) -> None:
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal: 4096 kB\nMemAvailable: 2048 kB\n")
    assert memory.free(meminfo, tmp_path) == 2 << 20
    (tmp_path / "memory.max").write_text("1048576\n")
    (tmp_path / "memory.current").write_text("524288\n")
    (tmp_path / "memory.stat").write_text("anon 262144\ninactive_file 196608\nactive_file 65536\n")
    assert memory.free(meminfo, tmp_path) == (1 << 19) + (1 << 18), "kept files are given up"
    assert memory.free() > 1 << 20
