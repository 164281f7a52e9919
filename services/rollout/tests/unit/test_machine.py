import json
from pathlib import Path

import pytest

from ratchet_kit.safetensors import WIDTHS
from rollout_service.adapters.engines import machine


@pytest.mark.parametrize(
    ("device", "stored", "flags", "expected"),
    [
        ("cpu", "F32", {"avx512_bf16"}, "float32"),
        ("cpu", "BF16", {"avx512_bf16"}, "bfloat16"),
        ("cpu", "F16", {"amx_bf16"}, "bfloat16"),
        ("cpu", "BF16", {"avx2"}, "float32"),
        ("cuda", "F32", set(), "bfloat16"),
        ("cuda", "BF16", set(), "bfloat16"),
        ("cuda", "F16", set(), "float16"),
    ],
)
def test_auto_is_what_the_machine_is_exact_and_fast_in(
    tmp_path: Path, device: str, stored: str, flags: set[str], expected: str
) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"dtype": "bfloat16"}))  # as verl writes it, whatever is stored
    size = 32 // WIDTHS[stored]
    entries = {
        "norm": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]},
        "w": {"dtype": stored, "shape": [size], "data_offsets": [4, 36]},
    }
    header = json.dumps(entries).encode()
    (tmp_path / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bytes(36))
    assert machine.choose_dtype(device, tmp_path, frozenset(flags)) == expected  # type: ignore[arg-type]


def test_reads_the_flags_of_the_cpu(tmp_path: Path) -> None:
    info = tmp_path / "cpuinfo"
    info.write_text("processor\t: 0\nflags\t\t: fpu avx2 avx512_bf16\n")
    assert machine.cpu_flags(info) == {"fpu", "avx2", "avx512_bf16"}
    assert machine.cpu_flags(tmp_path / "none") == frozenset()
