"""Whether a job ended for want of memory: by torch's own error, by Ray's killer, or by the kernel's."""

import re

from ray.exceptions import ActorDiedError, OutOfMemoryError, RayTaskError, WorkerCrashedError

from ratchet_kit import memory

# torch's CPU allocator raises a plain RuntimeError (c10/core/impl/alloc_cpu.cpp); Ray's killer leaves a text in the
# error of the actor that it killed (ray/src/ray/raylet/node_manager.cc).
_TEXT = re.compile(
    r"can't allocate memory|not enough memory|CUDA out of memory|running low on memory|memory usage threshold", re.I
)


class KernelKills:
    """Those of this machine since it was made."""

    def __init__(self) -> None:
        self._before = memory.kills()

    @property
    def any(self) -> bool:
        return memory.kills() > self._before


def ran_out(error: BaseException, kernel_killed: bool) -> bool:
    """`kernel_killed`: the kernel has killed a process on this machine while the job ran."""
    import torch

    match error:
        case OutOfMemoryError() | torch.OutOfMemoryError() | MemoryError():
            return True
        case ActorDiedError() | WorkerCrashedError():
            return kernel_killed or bool(_TEXT.search(str(error)))
        case RayTaskError():
            return ran_out(error.cause, kernel_killed)
        case RuntimeError() if _TEXT.search(str(error)):
            return True
    return error.__cause__ is not None and ran_out(error.__cause__, kernel_killed)
