"""The float type that is fast on this machine."""

from collections import Counter
from pathlib import Path
from typing import Literal

from ratchet_kit.policy_id import read_safetensors
from rollout_service.domain.policy import Dtype

_DTYPES = {"F16": Dtype.FLOAT16, "BF16": Dtype.BFLOAT16}
_FAST_BFLOAT16 = {"avx512_bf16", "amx_bf16", "bf16"}


def choose_dtype(device: Literal["cpu", "cuda"], model: Path, flags: frozenset[str]) -> Dtype:
    """The float type for a model whose request names none.

    On CUDA half precision: the model's own, or bfloat16 for one stored in float32. On CPU float32, which is exact,
    except for a model stored in half precision on a CPU with instructions for bfloat16: two AVX2 cores gave 165
    tokens/s of SmolLM2-135M in float32 and 28 in bfloat16. `flags` are those of the CPU.
    """
    stored = _stored_dtype(model)
    half = stored is not Dtype.FLOAT32
    if device == "cuda":
        return stored if half else Dtype.BFLOAT16
    return Dtype.BFLOAT16 if half and not _FAST_BFLOAT16.isdisjoint(flags) else Dtype.FLOAT32


def _stored_dtype(model: Path) -> Dtype:
    """The type of most weights. The config may be wrong: verl exports float32 weights with bfloat16 in the config."""
    sizes = Counter[str]()
    for file in model.glob("*.safetensors"):
        for tensor in read_safetensors(file):
            sizes[tensor.dtype] += len(tensor.data)
    ((largest, _),) = sizes.most_common(1) or [("F32", 0)]
    return _DTYPES.get(largest, Dtype.FLOAT32)


def cpu_flags(cpuinfo: Path = Path("/proc/cpuinfo")) -> frozenset[str]:
    """The instruction set extensions of the CPU, as Linux names them; empty where that cannot be read."""
    if not cpuinfo.exists():
        return frozenset()
    for line in cpuinfo.read_text().splitlines():
        if line.startswith(("flags", "Features")):
            return frozenset(line.partition(":")[2].split())
    return frozenset()
