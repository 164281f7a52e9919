"""The float type that is fast on this machine."""

from collections import Counter
from pathlib import Path
from typing import Literal

from ratchet_kit.policy_id import read_safetensors

_NAMES = {"F16": "float16", "BF16": "bfloat16"}
_FAST_BFLOAT16 = {"avx512_bf16", "amx_bf16", "bf16"}


def choose_dtype(device: Literal["cpu", "cuda"], model: Path, flags: frozenset[str]) -> str:
    """The float type for a model whose request says "auto".

    On CUDA half precision: the model's own, or bfloat16 for one stored in float32. On CPU float32, which is exact,
    except for a model stored in half precision on a CPU with instructions for bfloat16: two AVX2 cores gave 165
    tokens/s of SmolLM2-135M in float32 and 28 in bfloat16. `flags` are those of the CPU.
    """
    stored = _stored_dtype(model)
    if device == "cuda":
        return stored if stored in ("float16", "bfloat16") else "bfloat16"
    half = stored in ("float16", "bfloat16") and not _FAST_BFLOAT16.isdisjoint(flags)
    return "bfloat16" if half else "float32"


def _stored_dtype(model: Path) -> str:
    """The type of most weights. The config may be wrong: verl exports float32 weights with bfloat16 in the config."""
    sizes = Counter[str]()
    for file in model.glob("*.safetensors"):
        for tensor in read_safetensors(file):
            sizes[tensor.dtype] += len(tensor.data)
    ((largest, _),) = sizes.most_common(1) or [("F32", 0)]
    return _NAMES.get(largest, "float32")


def cpu_flags(cpuinfo: Path = Path("/proc/cpuinfo")) -> frozenset[str]:
    """The instruction set extensions of the CPU, as Linux names them; empty where that cannot be read."""
    if not cpuinfo.exists():
        return frozenset()
    for line in cpuinfo.read_text().splitlines():
        if line.startswith(("flags", "Features")):
            return frozenset(line.partition(":")[2].split())
    return frozenset()
